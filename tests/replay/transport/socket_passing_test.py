"""Tests of connections that the process of a server passes to clients."""

import numpy as np
import portpicker
import pytest
import reverb

from slipway.replay import proxy
from slipway.replay.tables import trajectory_manager
from slipway.replay.transport import relay, socket_passing
from slipway.replay.variables import fetcher, variables


@pytest.fixture
def path(tmp_path):
  return str(tmp_path / "replay.sock")


def make_manager(path):
  return trajectory_manager.TrajectoryManager(
    [reverb.Table.queue("items", 10), variables.make_table()],
    portpicker.pick_unused_port(),
    passing_path=path,
  )


def test_a_relay_reaches_a_restarted_server(path, tmp_path):
  running = relay.Relay(f"unix:{tmp_path}/relay.sock", f"passed:{path}")
  running.start()
  with pytest.raises(OSError):
    socket_passing.connect(path)
  for incarnation in range(2):
    manager = make_manager(path)
    client = reverb.Client(running.address)
    client.insert([incarnation], {"items": 1.0})
    (sample,) = next(client.sample("items", 1))
    assert sample.data[0] == incarnation
    manager.close()
    with pytest.raises(OSError):
      socket_passing.connect(path)
  running.close()


def test_variables_are_fetched_through_a_proxy(path, tmp_path):
  manager = make_manager(path)
  made = proxy.WorkerProxy(
    f"passed:{path}",
    f"unix:{tmp_path}/relay.sock",
    str(tmp_path / "control_block"),
  )
  made.start()
  fetching = fetcher.VariablesFetcher(
    str(tmp_path / "variables"), made.address, made.get_unreachable
  )
  publisher = variables.VariablesPublisher(manager.address)
  publisher.publish({"w": np.float32(3.0)})
  while fetching.version < 1:
    fetching.poll()
  fetching.close()
  made.close()
  manager.close()
