"""Files that survive crashes: atomic writes, locks, the ledger of events, arrays with checksums.

Offers :class:`~mrafno.storage.ledger.Ledger` and its ``Event``, :class:`~mrafno.storage.arrays.ArrayFile`,
:class:`~mrafno.storage.lock.Lock`, atomic writes in ``files``, checksums in ``checksum``, and in ``layout`` all file
names of a run directory. May import ``errors`` and ``grids``. It does not know what events and arrays mean.
"""
