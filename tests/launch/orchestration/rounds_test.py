"""Rounds: shares of workers and trainer keep the ratio that is asked for."""

import pytest

from configs import dqn
from launch.orchestration import rounds


def make_config(steps=800, environments=8, ratio=8.0, batch_size=64):
  config = dqn.get_config()
  config.mode = "sync"
  config.sync.environment_steps = steps
  config.topology.environments_per_worker = environments
  config.replay.samples_per_insert = ratio
  config.learner.batch_size = batch_size
  return config


# environment steps, environments of a worker, workers, batch steps of each
SHARES = [
  (800, 8, 1, 100),
  (800, 8, 2, 50),
  (801, 8, 2, 51),  # at least what was asked for
  (1, 8, 4, 1),
  (128, 16, 8, 1),
]


@pytest.mark.parametrize(("steps", "environments", "workers", "share"), SHARES)
def test_a_workers_share(steps, environments, workers, share):
  config = make_config(steps, environments)
  assert rounds.worker_steps(config, workers) == share


# environment steps, samples per insert, batch size, updates
TURNS = [(800, 8.0, 64, 100), (800, 1.0, 64, 12), (8, 1.0, 64, 1)]


@pytest.mark.parametrize(("steps", "ratio", "batch_size", "updates"), TURNS)
def test_the_trainers_turn(steps, ratio, batch_size, updates):
  config = make_config(steps, ratio=ratio, batch_size=batch_size)
  turn = rounds.Rounds(config)
  assert turn.updates_left == 0
  turn.begin()
  assert turn.updates_left == updates
  assert not turn.ends_after(0)
  for _ in range(updates - 1):
    assert not turn.ends_after(1)
  assert turn.ends_after(1)
  assert turn.updates_left == 0
  assert not turn.ends_after(0), "it has ended before"


def test_variables_are_published_once_a_round():
  config = make_config()
  config.variables.publish_period = 7
  assert rounds.publish_period(config) == 100
  config.mode = "async"
  assert rounds.publish_period(config) == 7


def test_reports_come_faster_in_rounds():
  config = make_config()
  in_rounds = rounds.report_period_s(config)
  config.mode = "async"
  assert in_rounds < rounds.report_period_s(config)
