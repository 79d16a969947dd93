"""The benchmark `outages`, at a small scale: a run whose worker is killed."""

import pytest

from benchmarks import outages

pytestmark = [pytest.mark.benchmarks, pytest.mark.timeout(240)]


def test_a_killed_worker_is_measured():
  report = outages.measure(1, {"own_process": ["worker/1"]})
  start, kill, stop = report.raw
  assert [row["event"] for row in report.raw] == [
    "start",
    "worker/1",
    "SIGTERM",
  ]
  assert start["start_up_s"] > 0.0
  # Forking the worker takes longer than one poll of the run's status.
  assert kill["back_s"] > 0.1
  assert kill["env_steps_s"] >= 0.0
  assert kill["trainer_steps_lost"] == 0  # the trainer was not killed
  assert kill["items_lost"] >= 0
  assert stop["stop_s"] > 0.0
  (median,) = report.medians
  assert median["killed"] == "worker/1"
  assert median["back, s"] == kill["back_s"]
  assert [goal.partition(" s ")[2].split(",")[0] for goal in report.goals] == [
    "until a killed worker writes again",
    "from the command to the first update",
    "from SIGTERM to the end",
  ]
