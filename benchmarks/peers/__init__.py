"""Slipway and other libraries at the same work, on the same machine."""
