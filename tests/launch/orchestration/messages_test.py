"""Messages: equal after the wire, and what is rejected."""

import math

import msgspec
import numpy as np
import pytest

from launch.orchestration import messages
from launch.runs import run_status

REPORTS = [
  messages.WorkerReport(1.5, env_steps=7, waiting_s=2.0, waiting_for="it"),
  messages.TrainerReport(
    replay=messages.TableCounts(1, 2, 3, 4.0),
    restored=messages.RestoredCounts(inserted=3),
    snapshots=messages.SnapshotReport(2, 1.7e9),
  ),
  messages.ReplayReport(replay=messages.TableCounts(5)),
  messages.ProxyReport(workers={3: messages.StreamCounts(1, 2, 3)}),
  messages.EvaluatorReport(3.0),
]


@pytest.mark.parametrize("report", REPORTS)
def test_a_report_keeps_its_type(report):
  assert messages.decode_report(messages.encode(report)) == report


@pytest.mark.parametrize(
  "message",
  [
    messages.Command(True, steps_per_s=2.0, trainer_steps_limit=0),
    messages.Registration(2, 40),
    messages.Evaluation([1.0, 2.0], [3, 4], 5),
    messages.Placement(
      {"home": run_status.MachineStatus("a", True)}, {"worker": 2},
      [("worker", 1)],
    ),
    run_status.RunStatus(workers={2: run_status.WorkerStatus(1)}),
  ],
)  # fmt: skip
def test_equal_after_the_wire(message):
  assert messages.decode(messages.encode(message), type(message)) == message


def test_numbers_of_numpy_and_those_that_are_not_finite():
  metrics = {"loss": np.float32(0.5), "q": math.nan, "best": -math.inf}
  report = messages.TrainerReport(
    trainer_steps=np.int64(3), metrics=metrics, shards_up=None
  )
  found = messages.decode_report(messages.encode(report))
  assert found.trainer_steps == 3
  assert found.metrics["loss"] == 0.5
  assert math.isnan(found.metrics["q"])
  assert found.metrics["best"] == -math.inf


@pytest.mark.parametrize(
  "data",
  [
    b"",
    b"no message",
    msgspec.msgpack.encode({"env_steps": 7}),
    msgspec.msgpack.encode({"type": "worker", "env_steps": "7"}),
    msgspec.msgpack.encode({"type": "worker", "env_stebs": 7}),
    msgspec.msgpack.encode({"type": "nurse"}),
  ],
)
def test_other_bytes_are_rejected_in_one_line(data):
  with pytest.raises(ValueError) as error:
    messages.decode_report(data)
  assert "\n" not in str(error.value)
