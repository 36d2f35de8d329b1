"""How a network is trained: minibatches, the objective, the optimiser, the loop, and what happens on divergence."""
