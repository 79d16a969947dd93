"""The benchmark `scale`, at a small scale, with server, proxy and learner."""

import numpy as np
import pytest

from benchmarks import report
from benchmarks.scale import __main__ as command
from benchmarks.scale import measuring, rig, shapes
from slipway.launch.checks import overrides

_EFFORT = rig.Effort(
  writers=2, streams=(2, 6), warm_up_s=0.1, window_s=0.3, batches=10
)

# The tests start several processes, which import TensorFlow.
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def measured():
  return measuring.measure(1, cores_per_machine=4, effort=_EFFORT)


@pytest.mark.benchmarks
def test_each_component_did_its_work(measured):
  rows = {(row["part"], row["streams"]): row for row in measured.raw}
  assert {part for part, _ in rows} >= {*rig.PLANNED, rig.COPIED}
  for part in (rig.INSERTED, rig.RELAYED):
    assert {streams for other, streams in rows if other == part} == {2, 6}
  assert len(rows) == len(measured.raw) == 9
  for row in measured.raw:
    assert row["count"] > 0 and row["mb_per_s"] > 0
  # The capacity of these components is the rate with one full core, so it is at
  # least the measured rate.
  for (part, _), row in rows.items():
    if part in (rig.INSERTED, rig.RELAYED, rig.SAMPLED):
      assert row["carried_per_s"] >= row["per_s"]


@pytest.mark.benchmarks
def test_the_plan_uses_the_measured_capacities(measured):
  (plans,) = measured.more
  assert [row["shards"] for row in plans] == list(measuring.SHARDS)
  trained = report.median(measured.raw, "carried_per_s", part=rig.TRAINED)
  # An update samples 64 transitions, and an environment step allows 8 samples.
  assert plans[0]["trainer, environment steps/s"] == pytest.approx(trained * 8)
  assert plans[3]["replay, environment steps/s"] == pytest.approx(
    8 * plans[0]["replay, environment steps/s"]
  )
  assert len(measured.goals) == len(measuring.SHARDS)
  assert "machines of 4 cores" in measured.goals[0]


@pytest.mark.parametrize(
  ("path", "window", "steps"),
  [
    ("apex_dqn:cartpole", 1, 4),
    ("apex_dqn:pong", 7, 1),
    ("r2d2:cartpole", 1, 10),
  ],
)
def test_items_are_those_of_the_config(path, window, steps):
  config = overrides.load(path)
  records = shapes.make_records(config)
  assert records.window == window and records.rows.dtype == np.uint8
  assert len(np.unique(records.rows, axis=0)) == len(records.rows) > 3
  shape, _, limited = shapes.describe(config)
  assert shape.steps_per_item == steps
  assert shape.sent_bytes * window == shape.item_bytes
  assert shape.variables_bytes > 10_000
  # The measured table never blocks, and is soon full.
  assert limited.replay.samples_per_insert == 0.0
  assert limited.replay.min_size == 1
  assert limited.replay.capacity <= 20_000 * steps


@pytest.mark.parametrize(
  ("arguments", "message"),
  [
    (["--config=dqnn"], "dqnn"),
    (["--config=dqn:pang"], "pang"),
    (["--config=ppo:cartpole"], "policy_gradient"),
    (["--config=bc"], "bc"),
  ],
)
def test_a_config_that_cannot_be_measured(arguments, message, capsys):
  assert command.main(arguments) == 2
  (line,) = capsys.readouterr().err.splitlines()
  assert line.startswith("scale: ") and message in line
