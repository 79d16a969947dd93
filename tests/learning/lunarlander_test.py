"""LunarLander-v3: solved, as gymnasium has it, is a mean return of 200."""

import pytest


@pytest.mark.learning
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("algorithm", ["apex_dqn", "sac"])
def test_the_program_reaches_200(train, algorithm):
  summary = train(
    f"--config={algorithm}:lunarlander",
    "--config.limits.wall_clock_s=1_700",
  )
  assert summary["stopped_because"] == "target_return"
  assert summary["eval_return"] >= 200.0
