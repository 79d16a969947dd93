"""Configs: one file per algorithm, with its hyperparameters and presets."""
