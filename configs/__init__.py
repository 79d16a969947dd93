"""Configs: one file per algorithm, with its hyperparameters and presets.

`base`, `groups`, `policy_gradient` and `value` declare the fields that several
algorithms share, and `rules` checks fields against one another.
"""
