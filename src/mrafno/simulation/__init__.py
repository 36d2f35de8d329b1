"""From a query to an observation: in this process, a child process, a pool of processes or on a Dask cluster.

May import ``tasks`` and ``storage``. It knows nothing of runs: it simulates what it is given.
"""
