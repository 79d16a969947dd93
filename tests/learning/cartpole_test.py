"""CartPole-v1: a short training each time, and the default program's."""

import pytest


def test_a_short_training_reaches_195(train):
  # One process and one seed: the same numbers each time. It took 49,018
  # environment steps; another CPU may round otherwise.
  summary = train(
    "--config=configs/apex_dqn.py:cartpole",
    "--mode=single",
    "--config.seed=1",
    "--config.evaluation.period_steps=250",
    "--config.limits.target_return=195",
    "--config.limits.environment_steps=100_000",
  )
  assert summary["eval_return"] >= 195.0
  assert summary["eval_episodes"] == 20
  assert summary["stopped_because"] == "target_return"


@pytest.mark.learning
@pytest.mark.timeout(1_800)
def test_the_default_program_reaches_475(train):
  summary = train(
    "--config=configs/apex_dqn.py:cartpole",
    "--config.limits.wall_clock_s=1_700",
  )
  assert summary["stopped_because"] == "target_return"
  assert summary["eval_return"] >= 475.0
  assert summary["eval_episodes"] == 20
