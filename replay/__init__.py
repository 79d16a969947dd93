"""The data plane: Reverb tables, writers, datasets, variables, proxy."""
