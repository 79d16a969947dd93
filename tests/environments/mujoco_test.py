"""Tests that environments of the locked MuJoCo print and write nothing.

MuJoCo 3.16 prints a warning for each HalfCheetah that is made, and writes a log
file to the working directory.
"""

import numpy as np
import pytest

from slipway.environments import factory
from tests.environments import given


# In gymnasium's environments, actions are torques in [-1, 1], [-0.4, 0.4] and
# [-3, 3]. Those of the control suite have several observations.
@pytest.mark.parametrize(
  "name",
  [
    "HalfCheetah-v5",
    "Humanoid-v5",
    "InvertedPendulum-v5",
    "shimmy:dm_control/cheetah-run-v0",
    "shimmy:dm_control/walker-walk-v0",
  ],
)
def test_environments_are_silent_and_write_no_file(
  tmp_path, monkeypatch, capfd, name
):
  monkeypatch.chdir(tmp_path)
  environment = factory.make(given.config_of(name), 2, seed=1)
  actions = environment.spec.actions
  assert actions.minimum.min() == -1 and actions.maximum.max() == 1
  environment.reset()
  random = np.random.default_rng(0)
  for _ in range(20):
    chosen = random.uniform(-1, 1, (2, *actions.shape)).astype(np.float32)
    step = environment.step(chosen)
    assert step.observation.dtype == np.float32
    assert np.isfinite(step.observation).all()
    assert np.isfinite(step.reward).all()
  environment.close()
  assert capfd.readouterr() == ("", "")
  assert not list(tmp_path.iterdir())
