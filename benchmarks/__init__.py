"""Benchmarks: measures Slipway against raw libraries and other frameworks."""
