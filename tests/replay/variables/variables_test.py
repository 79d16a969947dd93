"""Tests of packing variables, and of the variables table in a real server."""

import contextlib
import socket
import time

import numpy as np
import portpicker
import pytest
import reverb

from slipway.replay.variables import (
  shared_variables,
  variable_packing,
  variables,
)
from tests import polling

_ARRAYS = {
  "scalar": np.float32(1.5),
  "zero_dimensions": np.array(7, np.int64),
  "empty": np.zeros((0, 3), np.float32),
  "bool": np.array([True, False, True]),
  "bytes": np.arange(5, dtype=np.uint8),
  "half": np.linspace(0, 1, 7, dtype=np.float16),
  "double": np.linspace(-1, 1, 6).reshape(2, 3),
  "complex": np.array([1 + 2j], np.complex64),
  "big_endian": np.arange(3, dtype=">i4"),
  "strided": np.arange(24, dtype=np.int32).reshape(4, 6)[::2, ::3],
  "fortran": np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3)),
  'name with "quotes" and é': np.arange(2, dtype=np.int8),
}


def _assert_equal(got, expected):
  assert list(got) == list(expected)
  for name, value in expected.items():
    assert got[name].dtype == np.asarray(value).dtype, name
    assert got[name].shape == np.shape(value), name
    np.testing.assert_array_equal(got[name], value)


@pytest.mark.parametrize("names", [(), ("empty",), (*_ARRAYS,)])
def test_unpack_restores_what_was_packed(names):
  arrays = {name: _ARRAYS[name] for name in names}
  header, blob = variable_packing.pack(arrays)
  assert header.dtype == blob.dtype == np.uint8
  _assert_equal(variable_packing.unpack(header, blob), arrays)


def test_unpacked_arrays_are_aligned_views():
  header, blob = variable_packing.pack(_ARRAYS)
  for name, value in variable_packing.unpack(header, blob).items():
    assert value.ctypes.data % variable_packing.ALIGNMENT == 0, name
    assert value.size == 0 or np.shares_memory(value, blob), name


@pytest.mark.parametrize("value", [np.array(["text"]), np.array([None])])
def test_pack_rejects_dtypes_that_need_a_pickle(value):
  with pytest.raises(ValueError, match=r"variables\['w'\] has dtype"):
    variable_packing.pack({"w": value})


@pytest.mark.parametrize(
  "header",
  [
    b"",
    b"\x80\x04N.",
    b"{}x",
    b'[["w","<f4",[2]]]',
    b'[["w","O",[2],0]]',
    b'[["w","<f4",[-2],0]]',
    b'[["w","<f4",[2],-8]]',
    b'[["w","<f4",[3],0]]',
  ],
)
def test_unpack_rejects_a_header_that_does_not_fit_the_blob(header):
  blob = np.zeros(8, np.uint8)
  with pytest.raises(ValueError, match=r"cannot be read; "):
    variable_packing.unpack(np.frombuffer(header, np.uint8), blob)


def test_nodes_of_the_machine_do_not_wait_for_the_server(tmp_path):
  port = portpicker.pick_unused_port()
  path = str(tmp_path / "variables")
  publisher = variables.VariablesPublisher(
    f"localhost:{port}", 3, timeout_ms=100, shared_path=path
  )
  reader = shared_variables.SharedVariables(path)
  with pytest.raises(ConnectionError, match="version 3 "):
    publisher.publish(_ARRAYS)  # no server runs
  version, published_at_s, arrays = reader.poll()
  assert version == 3
  _assert_equal(arrays, _ARRAYS)

  server = _server(port)
  client = variables.VariablesClient(f"localhost:{port}")
  fetched = polling.wait_until(client.poll)
  assert (fetched.version, fetched.published_at_s) == (3, published_at_s)
  assert publisher.publish({}) == 4
  assert reader.poll().version == 4
  publisher.close()
  assert list(tmp_path.iterdir()) == []
  server.stop()


def _server(port=None):
  return reverb.Server([variables.make_table()], port=port)


def _address(server):
  return f"localhost:{server.port}"


def test_each_version_is_fetched_once():
  server = _server()
  client = variables.VariablesClient(_address(server))
  assert client.poll(10_000) is None
  publisher = variables.VariablesPublisher(f"localhost:{server.port}")
  for version in (1, 2):
    before_s = time.time()
    assert publisher.publish(_ARRAYS) == version
    got = client.poll(10_000)
    assert got.version == version
    assert before_s <= got.published_at_s <= time.time()
    _assert_equal(variable_packing.unpack(got.header, got.blob), _ARRAYS)
    assert client.poll(10_000) is None
  publisher.publish(_ARRAYS)
  publisher.publish(_ARRAYS)
  assert client.poll(10_000).version == 4
  info = server.localhost_client().server_info(10)[variables.TABLE]
  # Polls without a change did not sample.
  assert info.rate_limiter_info.sample_stats.completed == 3
  publisher.close()


def test_versions_continue_from_the_given_first_version():
  server = _server()
  publisher = variables.VariablesPublisher(f"localhost:{server.port}", 41)
  assert [publisher.publish({}), publisher.publish({})] == [41, 42]
  publisher.close()


def test_a_blob_above_grpcs_default_limit_passes():
  server = _server()
  publisher = variables.VariablesPublisher(f"localhost:{server.port}")
  noise = np.random.default_rng(0).integers(0, 256, 20_000_000, np.uint8)
  publisher.publish({"w": noise})
  got = variables.VariablesClient(_address(server)).poll(60_000)
  unpacked = variable_packing.unpack(got.header, got.blob)
  assert np.array_equal(unpacked["w"], noise)
  publisher.close()


def test_a_server_without_the_table_is_named():
  server = reverb.Server([reverb.Table.queue("other", 1)])
  with pytest.raises(ValueError, match=r"\['other'\] and no 'variables'"):
    variables.ServerVariables(_address(server)).poll()


def test_server_variables_polls_once_a_period():
  server = _server()
  publisher = variables.VariablesPublisher(f"localhost:{server.port}")
  publisher.publish(_ARRAYS)
  eager = variables.ServerVariables(_address(server), 0.0, timeout_ms=10_000)
  lazy = variables.ServerVariables(_address(server), 3_600.0, 10_000)
  for source in (eager, lazy):
    snapshot = source.poll()
    assert snapshot.version == 1
    _assert_equal(snapshot.variables, _ARRAYS)
  publisher.publish({})
  assert eager.poll().version == 2
  assert lazy.poll() is None
  publisher.close()


def test_a_server_that_does_not_reply_costs_one_timeout():
  # The kernel accepts connections into the backlog; no process replies.
  with socket.create_server(("localhost", 0)) as silent:
    address = f"localhost:{silent.getsockname()[1]}"
    with pytest.raises(TimeoutError, match=f"{address} sent no variables"):
      variables.VariablesClient(address).poll(50)
    source = variables.ServerVariables(address, 0.0, timeout_ms=50)
    assert source.poll() is None
    started_s = time.monotonic()
    polls = 100
    assert all(source.poll() is None for _ in range(polls))
    # If each poll had waited for its timeout, this would be the minimum time.
    assert time.monotonic() - started_s < polls * 0.05


def test_a_restarted_server_is_noticed_though_its_count_is_the_same():
  port = portpicker.pick_unused_port()
  client = variables.VariablesClient(f"localhost:{port}")
  for version in (5, 3):
    server = _server(port)
    publisher = variables.VariablesPublisher(
      f"localhost:{server.port}", version
    )
    publisher.publish({})
    end_s = time.monotonic() + 60
    got = None
    while got is None and time.monotonic() < end_s:
      # The first request may reach a server that is still starting.
      with contextlib.suppress(TimeoutError, ConnectionError):
        got = client.poll(10_000)
    assert got.version == version
    assert client.poll(10_000) is None
    publisher.close()
    server.stop()
    del server
    with pytest.raises((TimeoutError, ConnectionError)):
      client.poll(50)
