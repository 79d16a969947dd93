"""Fuzz tests: a control still serves its nodes after any messages."""

import socket
import struct
import time

import hypothesis
import pytest
from hypothesis import strategies as st

from slipway.configs import dqn
from slipway.environments import factory
from slipway.launch.control import (
  calls,
  control_service,
  messages,
  rates,
  run_control,
  waits,
)
from slipway.launch.runs import run_folder, run_status
from slipway.replay.tables import table_status
from tests.launch import fuzzing

fuzz = fuzzing.settings(150, deadline=None)

NUMBERS = st.integers(-(2**63), 2**64 - 1) | st.floats() | st.booleans()
ANYTHING = st.recursive(
  st.none() | NUMBERS | st.text(max_size=9) | st.binary(max_size=9),
  lambda inner: (
    st.lists(inner, max_size=4)
    | st.dictionaries(st.text(max_size=9), inner, max_size=4)
  ),
  max_leaves=9,
)
METHODS = sorted(calls.find_methods(control_service.ControlService))
COUNTS = st.integers(-(2**63), 2**63 - 1)
ROLES = st.sampled_from(
  ["worker", "trainer", "replay", "proxy", "evaluator", "external"]
) | st.text(max_size=9)
# reports whose fields have the right types and any values
NODE_FIELDS = {
  "incarnation": st.floats(),
  "counts": st.builds(
    run_status.NodeCounts, COUNTS, COUNTS, COUNTS, COUNTS, bytes_up=COUNTS
  ),
  "wait": st.none() | st.builds(waits.Wait, st.text(max_size=9), st.floats()),
}
REPORTS = st.one_of(
  st.builds(
    messages.WorkerReport,
    **NODE_FIELDS,
    variables_version=COUNTS,
    collected_version=COUNTS,
    training_return=st.none() | st.floats(),
    variables_age_s=st.none() | st.floats(),
  ),
  st.builds(
    messages.TrainerReport,
    **NODE_FIELDS,
    trainer_steps=COUNTS,
    first_step_at_s=st.none() | st.floats(),
    metrics=st.dictionaries(st.text(max_size=9), st.none() | st.floats()),
    replay=st.none()
    | st.builds(table_status.TableStatus, COUNTS, COUNTS, COUNTS, st.floats()),
  ),
  st.builds(messages.ProxyReport, **NODE_FIELDS, connections=COUNTS),
)
REQUESTS = st.one_of(
  st.tuples(st.sampled_from(METHODS) | st.text(max_size=9), ANYTHING),
  st.tuples(st.sampled_from(METHODS), st.lists(ANYTHING, max_size=3)),
  st.tuples(
    st.sampled_from(["report", "finished"]),
    st.tuples(ROLES, COUNTS | st.integers(0, 2), REPORTS),
  ),
  st.tuples(
    st.just("evaluated"),
    st.tuples(
      st.builds(
        messages.Evaluation,
        st.lists(st.floats(), max_size=3),
        st.lists(COUNTS, max_size=3),
        COUNTS,
      )
    ),
  ),
  st.tuples(st.just("set_workers"), st.tuples(COUNTS)),
  st.tuples(
    st.just("set"), st.tuples(st.text(max_size=9), NUMBERS | st.text())
  ),
)


class Served:
  """A control's service on a socket."""

  def __init__(self, folder):
    config = dqn.get_config()
    made = run_folder.RunFolder.create(folder, "a-run", overwrite=False)
    made.write_config(config)
    self.path = str(folder / "s")
    self.control = run_control.RunControl(
      config,
      made,
      {"worker": 2, "trainer": 1, "proxy": 1, "evaluator": 1},
      time.time(),
      rates.Rates.from_config(config, factory.make_spec(config.environment)),
      folder / "state.json",
    )
    self.server = calls.Server(
      self.path, control_service.ControlService, self.control
    )
    self.client = calls.connect(control_service.ControlService, self.path)

  def exchange(self, data):
    """Sends bytes, and returns all bytes of the reply."""
    with socket.socket(socket.AF_UNIX) as connection:
      connection.settimeout(10.0)
      connection.connect(self.path)
      try:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        received = b""
        while chunk := connection.recv(2**16):
          received += chunk
      except ConnectionError:  # the server has not read all bytes
        return b""
    return received

  def check(self):
    """Asserts that the service still works for the run's own nodes."""
    self.control.tick()
    report = messages.WorkerReport(
      counts=run_status.NodeCounts(env_steps=7), incarnation=time.time()
    )
    assert isinstance(self.client.report("worker", 0, report), messages.Command)
    assert self.client.status().name == "a-run"


@pytest.fixture(scope="module")
def served(tmp_path_factory):
  served = Served(tmp_path_factory.mktemp("fuzz"))
  yield served
  served.server.close()
  served.control.close()


@fuzz
@hypothesis.given(data=st.binary(max_size=200))
def test_any_bytes(served, data):
  for begin in (b"", struct.pack("!i", len(data))):
    served.exchange(begin + data)
  served.check()


@fuzz
@hypothesis.given(request=REQUESTS)
def test_any_request(served, request):
  try:
    data = calls.pack(*request)
  except (OverflowError, TypeError):
    hypothesis.reject()
  received = served.exchange(struct.pack("!i", len(data)) + data)
  outcome, value = calls.unpack(received[4:])
  assert outcome in ("returned", "rejected"), value
  assert outcome == "returned" or b"\n" not in bytes(value)
  served.check()
