"""Ways to infer a network from examples, behind one interface: ensemble, point, dropout, SGLD and SVI."""
