"""Training of networks: minibatches, the objective, the optimiser, the loop, and members that diverge."""
