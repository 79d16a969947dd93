"""The algorithms: one folder a family, losses and networks shared."""
