"""Peers: compares Slipway with other libraries on equal tasks and machines."""
