"""Replay: items, tables, variables, and the transport between machines.

Imports run one way, each package imports only earlier ones: `transport`,
`items`, `tables`, `variables`. The module `proxy` imports from all of them.
"""

import os

# Read when gRPC starts, so set before Reverb's first client or server. gRPC's
# default here, epollex, aborts the process if it cannot open a file descriptor
# when a call begins; see docs/libraries.md.
os.environ.setdefault("GRPC_POLL_STRATEGY", "epoll1")
