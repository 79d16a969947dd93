"""Pendulum-v1: the literature counts a mean return of -200 as solved."""

import pytest

from slipway.configs import catalog


@pytest.mark.learning
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("algorithm", catalog.presets()["pendulum"])
def test_each_algorithm_reaches_minus_200(train, algorithm):
  # The runs took 3,400 to 12,600 environment steps: one to three minutes.
  summary = train(
    f"--config={algorithm}:pendulum",
    "--config.limits.wall_clock_s=1_700",
  )
  assert summary["stopped_because"] == "target_return"
  assert summary["evaluation"]["mean_return"] >= -200.0
  assert summary["evaluation"]["episodes"] == 20


@pytest.mark.learning
@pytest.mark.timeout(1_800)
def test_mpo_with_retrace_reaches_minus_200(train):
  # The run took 7,000 environment steps.
  summary = train(
    "--config=mpo:pendulum",
    "--mode=single",
    "--config.learner.critic_target=retrace",
    "--config.adder.unroll=5",
    "--config.adder.period=5",
    "--config.learner.batch_size=32",
    "--config.replay.samples_per_insert=160",
    "--config.replay.transitions_per_item=1",
    "--config.seed=1",
    "--config.limits.wall_clock_s=1_700",
  )
  assert summary["stopped_because"] == "target_return"
  assert summary["evaluation"]["mean_return"] >= -200.0
