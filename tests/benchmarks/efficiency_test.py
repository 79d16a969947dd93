"""The benchmark of sample efficiency, at a small scale and without its peer."""

import math

import pytest

from benchmarks import efficiency, partial_results
from slipway.configs import catalog

pytestmark = pytest.mark.benchmarks


@pytest.mark.parametrize("task", efficiency.TASKS.values())
def test_tasks_have_presets(task):
  for config in task.presets:
    algorithm, preset = config.split(":")
    assert preset in catalog.algorithms()[algorithm].PRESETS


def test_final_policies_are_evaluated(tmp_path):
  partial = partial_results.PartialResults(tmp_path, "rows")
  found = efficiency.measure(
    "ppo_cartpole", 2, partial, env_steps=2_000, with_peer=False
  )
  assert [row["seed"] for row in found.raw] == [1, 2]
  assert all(8 <= row["return"] <= 500 for row in found.raw)
  assert all(row["seconds"] > 0 for row in found.raw)
  (row,) = found.medians
  assert math.isfinite(row["IQM"])
  assert " to " in row["95 % interval"]
  one = efficiency.measure(
    "ppo_cartpole", 1, partial, env_steps=2_000, with_peer=False
  )
  assert one.raw == found.raw[:1]
  assert one.medians[0]["95 % interval"] == ""
  both = efficiency.measure(
    "ppo_cartpole", 3, partial, env_steps=2_000, with_peer=False, at_once=2
  )
  assert [row["seed"] for row in both.raw] == [1, 2, 3]
  assert both.raw[0]["return"] == found.raw[0]["return"]
  # Runs at once are not timed.
  assert both.raw[2]["seconds"] is None
  assert "seconds" not in both.medians[0]
