"""The benchmark `worker`, at a small scale: both sides do the same work."""

import pytest

from benchmarks import worker

pytestmark = pytest.mark.benchmarks


@pytest.fixture(scope="module")
def measured():
  return worker.measure(runs=1, ours_steps=1_600, acme_steps=300)


def test_both_sides_write_one_item_per_step(measured):
  ours, acme = measured.raw
  assert (ours["side"], acme["side"]) == ("slipway", "acme")
  assert ours["env_steps"] >= 1_600
  assert acme["env_steps"] >= 300
  for row in measured.raw:
    # Items that were unfinished or unconfirmed at the end are missing.
    assert row["items_per_step"] > 0.85
    assert row["steps_per_cpu_s"] > 0
    assert row["server_cpu_s"] >= 0
  assert ours["items_per_step"] <= 1.0
  # Acme's adder also writes shorter transitions at both ends of an episode, and
  # an untrained network's may have nine steps.
  assert acme["items_per_step"] < 2.0
