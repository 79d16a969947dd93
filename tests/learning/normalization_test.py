"""Normalization: a task that is learned with it, and not without it.

Each run has one process and a fixed seed, so it is reproducible on one kind of
CPU.
"""

import pytest

pytestmark = [pytest.mark.learning, pytest.mark.timeout(600)]

_FLAGS = {
  "ppo": ("--config.evaluation.period_steps=5",),
  "dqn": (
    "--config.evaluation.period_steps=250",
    "--config.replay.min_size=500",
    "--config.exploration.decay_steps=3_000",
  ),
}


@pytest.mark.parametrize("algorithm", _FLAGS)
@pytest.mark.parametrize("normalized", [True, False])
def test_observations_of_different_scales(train, algorithm, normalized):
  summary = train(
    f"--config={algorithm}:cartpole",
    "--config.environment.name=tests.environments.toys:Scales-v0",
    "--mode=single",
    f"--config.normalization.observations={normalized}",
    "--config.evaluation.episodes=100",
    "--config.limits.target_return=0.9",
    "--config.limits.environment_steps=20_000",
    *_FLAGS[algorithm],
  )
  if normalized:
    assert summary["stopped_because"] == "target_return"
  else:
    assert summary["evaluation"]["best_mean_return"] < 0.5
