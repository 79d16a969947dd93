"""LunarLander-v3: Gymnasium counts a mean return of 200 as solved."""

import pytest


@pytest.mark.learning
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("algorithm", ["apex_dqn", "sac"])
def test_each_algorithm_reaches_200(train, algorithm):
  summary = train(
    f"--config={algorithm}:lunarlander",
    "--config.limits.wall_clock_s=1_700",
  )
  assert summary["stopped_because"] == "target_return"
  assert summary["evaluation"]["mean_return"] >= 200.0
