"""Methods to infer a network's weights from examples, behind one interface: ``fit``, then ``predict``.

========  =====================================================================================  =================
name      what a sample is                                                                       samples
========  =====================================================================================  =================
ensemble  a network with its own initialisation and minibatches                                  ``members`` = 5
point     the network                                                                            1
dropout   the network with a random part of its channels off (Gal & Ghahramani, 2016)            ``samples`` = 20
sgld      a state of stochastic gradient Langevin dynamics (Welling & Teh, 2011)                 ``samples`` = 20
svi       a draw from a factorised Gaussian posterior (Kingma & Welling, 2014)                   ``samples`` = 20
========  =====================================================================================  =================

All of them end with a stack of weights, the sample axis first (dropout adds its masks), so that prediction, checkpoints
and features are implemented once, in :mod:`mrafno.surrogate.inference.base`.
"""
