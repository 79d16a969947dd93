"""Transport: relays, routes and TLS between a run's processes and machines."""
