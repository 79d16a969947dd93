"""Replay: items, tables, variables, and the transport between machines.

Imports run one way, each package imports only earlier ones: `transport`,
`items`, `tables`, `variables`. The module `proxy` imports from all of them.
"""
