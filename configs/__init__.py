"""Configs: one file per algorithm, with its hyperparameters and presets.

`base`, `groups`, `value`, `policy_gradient` and `actor_critic` declare fields
that several algorithms share, and `rules` checks them against one another.
"""
