"""Tests that saved variables are loaded equal, and damaged ones rejected."""

import numpy as np
import pytest

from slipway.launch.runs import best_variables

VARIABLES = {
  "torso/w": np.arange(6, dtype=np.float32).reshape(2, 3),
  "head/b:0": np.array([1, -2], np.int64),
  "scalar": np.float64(0.1),
}


def test_loaded_variables_equal_the_saved_ones(tmp_path):
  path = tmp_path / "best.npz"
  best_variables.save(path, 7, VARIABLES)
  version, loaded = best_variables.load(path)
  assert version == 7
  assert set(loaded) == set(VARIABLES)
  for name, value in VARIABLES.items():
    np.testing.assert_array_equal(loaded[name], value)
    assert loaded[name].dtype == value.dtype


def test_the_newer_replaces_the_older(tmp_path):
  path = tmp_path / "best.npz"
  best_variables.save(path, 1, VARIABLES)
  best_variables.save(path, 2, {"w": np.zeros(3)})
  version, loaded = best_variables.load(path)
  assert (version, set(loaded)) == (2, {"w"})
  assert list(tmp_path.iterdir()) == [path]


def test_before_the_first_evaluation(tmp_path):
  with pytest.raises(ValueError) as caught:
    best_variables.load(tmp_path / "best.npz")
  message = str(caught.value)
  assert "\n" not in message
  assert str(tmp_path / "best.npz") in message
  assert "evaluation" in message
