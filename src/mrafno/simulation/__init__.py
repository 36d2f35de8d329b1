"""From a query to an observation: in this process, a child process, a pool of processes or on a Dask cluster.

Offers :class:`~mrafno.simulation.query.Query` and :class:`~mrafno.simulation.query.Observation`, the
:class:`~mrafno.simulation.scheduler.Scheduler` that runs queries on an executor, the executors ``InProcess``,
``process_pool`` and ``dask_executor``, and the spool of results that workers write. May import ``tasks`` and
``storage``. It knows nothing of runs: it simulates the queries it is given.
"""
