"""Bytes that survive: atomic files, locks, the ledger of events, arrays with checksums.

It does not know what the bytes mean. May import ``errors`` and ``grids``.
"""
