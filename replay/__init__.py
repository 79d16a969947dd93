"""Replay: items, tables, variables, and the transport between machines.

Imports run one way, each package imports only earlier ones: `transport`,
`items`, `tables`, `variables`. The module `proxy` imports from all of them.
"""

import os

# Read when gRPC starts, so set before Reverb's first client or server. gRPC's
# default here, epollex, aborts the process if it cannot open a file descriptor
# when a call begins; see docs/libraries.md.
os.environ.setdefault("GRPC_POLL_STRATEGY", "epoll1")

# Read by gRPC at each connection. All connections of Reverb stay on a machine,
# so a proxy that the machine has for others must not take them.
_DIRECT, _ALSO_DIRECT = "no_grpc_proxy", "no_proxy"  # gRPC reads lower case
_hosts = os.environ.get(_DIRECT, os.environ.get(_ALSO_DIRECT, "")).split(",")
os.environ[_DIRECT] = ",".join(
  dict.fromkeys([*filter(None, _hosts), "127.0.0.1", "localhost"])
)
