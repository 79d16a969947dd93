"""Pendulum-v1: solved, as the literature has it, is a mean return of -200."""

import pytest


@pytest.mark.learning
@pytest.mark.timeout(1_800)
def test_sac_reaches_minus_200(train):
  # It took 4,336 environment steps: two minutes.
  summary = train(
    "--config=sac:pendulum",
    "--config.limits.wall_clock_s=1_700",
  )
  assert summary["stopped_because"] == "target_return"
  assert summary["eval_return"] >= -200.0
  assert summary["eval_episodes"] == 20
