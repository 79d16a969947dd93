"""The data plane: items, tables, variables and the transport between machines.

Imports run one way: transport, items, tables, variables, and the proxy, which
is the only module outside of these four packages.
"""
