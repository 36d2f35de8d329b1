"""Examples and candidates: training sets per resolution, pools of inputs, earlier simulations, a cache of solutions.

May import ``tasks``, ``storage`` and ``simulation``.
"""
