"""Tests of an endpoint whose address changes while other processes read it."""

from slipway.launch.nodes import endpoint


def test_an_address_that_changes(tmp_path):
  writer, reader = (endpoint.Endpoint(tmp_path / "replay") for _ in range(2))
  assert reader.read() is None
  writer.write("10.0.0.1:7000")
  assert reader.read() == "10.0.0.1:7000"
  writer.write("10.0.0.2:7001")
  assert reader.read() == "10.0.0.2:7001"
  assert [path.name for path in tmp_path.iterdir()] == ["replay"]
