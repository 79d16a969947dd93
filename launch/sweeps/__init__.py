"""Sweeps: runs of one config with several seeds and settings."""
