"""The network: a Fourier neural operator with a member axis on every tensor, and adapters for other networks.

May import ``errors`` and ``grids``; it knows nothing of training.
"""
