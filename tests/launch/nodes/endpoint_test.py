"""Tests of the files with the addresses of services."""

from slipway.launch.nodes import endpoint


def test_an_address_that_changes(tmp_path):
  path = endpoint.path_in(tmp_path, "replay")
  assert endpoint.read(path) is None
  for address in ("10.0.0.1:7000", "10.0.0.2:9"):
    endpoint.write(path, address)
    assert endpoint.read(path) == address
