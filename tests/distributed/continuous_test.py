"""Distributed runs of continuous control: their results, and faults."""

import pytest

from tests.distributed import chaos as chaos_lib

pytestmark = [pytest.mark.runs, pytest.mark.timeout(300)]

TWO_WORKERS = "--config.topology.workers=2"


@pytest.mark.parametrize(
  ("algorithm", "batch_size"), [("sac", 128), ("d4pg", 256)]
)
def test_workers_and_trainer_keep_their_ratio(start_run, algorithm, batch_size):
  run = start_run(
    *(TWO_WORKERS, "--config.limits.trainer_steps=600"),
    "--config.replay.min_size=400",
    config=f"{algorithm}.py:pendulum",
  )
  assert run.wait() == 0, run.stdout + run.stderr
  assert run.stderr == ""
  run.check_nothing_left()
  summary = run.summary
  assert summary["stopped_because"] == "trainer_steps"
  assert summary["trainer_steps"] == 600
  assert summary["items_lost"] == 0
  # One batch per environment step, within the rate limiter's tolerance.
  ratio = summary["replay"]["samples_per_insert"]
  assert batch_size / 2 < ratio < 2 * batch_size


@pytest.mark.chaos
def test_each_role_is_killed_and_it_still_swings_up(start_run):
  run = start_run(
    *(*chaos_lib.FLAGS, TWO_WORKERS, "--config.snapshot.period_s=3"),
    "--config.network.hidden_sizes=(64, 64)",
    config="sac.py:pendulum",
  )
  nodes = (*chaos_lib.NODES, "worker/0", "worker/1")
  chaos = chaos_lib.Chaos(run, 1, nodes, pause_s=(1.0, 3.0))
  chaos.round()
  # An untrained policy has a return of -1,000 to -1,500.
  chaos.end(target=-400.0, within_s=200.0)
