"""The benchmark of offline learning, at a small scale, without its peer."""

import pytest

from benchmarks import offline
from slipway.configs import catalog
from tests.environments import recorded


@pytest.mark.benchmarks
def test_a_run_is_timed_and_its_policy_plays(tmp_path):
  recorded.record(tmp_path / "episodes")
  config = catalog.algorithms()["bc"].get_config("cartpole")
  config.dataset.path = str(tmp_path / "episodes")
  found = offline.measure_slipway(config, updates=150, plays=True)
  assert found["wall_s"] > 0
  assert found["cpu_s"] > 0
  assert 1 <= found["mean_return"] <= 500
