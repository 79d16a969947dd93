"""Tests of files of episodes: h5py and Minari read and extend them."""

import h5py
import numpy as np
import pytest

from slipway.environments import episode_file


def write(path, count):
  """Writes a file of `count` episodes; returns their columns and infos."""
  random = np.random.default_rng(count)
  steps = random.integers(1, 30, count)
  n = int(steps.sum())
  column = episode_file.Column
  columns = {
    "observations": column(random.random((n + count, 2, 3)), steps + 1),
    "actions": column(random.integers(0, 9, (n, 2), np.uint8), steps),
    "rewards": column(random.random(n), steps),
    "terminations": column(random.random(n) < 0.5, steps),
  }
  infos = {
    "action_mask": column(random.random((n + count, 3)) < 0.5, steps + 1)
  }
  with open(path, "wb") as file:
    file.writelines(episode_file.format_file(columns, infos))
  return columns, infos


@pytest.mark.parametrize("count", [1, 2, 7, 8, 9, 1_000])
def test_h5py_reads_each_episode(tmp_path, count):
  columns, infos = write(tmp_path / "a.hdf5", count)
  with h5py.File(tmp_path / "a.hdf5") as file:
    assert sorted(file) == sorted(f"episode_{i}" for i in range(count))
    for where, group in (("", columns), ("infos/", infos)):
      for name, (values, lengths) in group.items():
        starts = np.cumsum(lengths) - lengths
        for i in range(count):
          found = file[f"episode_{i}/{where}{name}"][()]
          expected = values[starts[i] : starts[i] + lengths[i]]
          assert found.dtype == expected.dtype
          np.testing.assert_array_equal(found, expected)
    for i, steps in enumerate(columns["rewards"].lengths):
      attributes = dict(file[f"episode_{i}"].attrs)
      assert attributes == {"id": i, "total_steps": steps}
      assert set(file[f"episode_{i}"]) == {*columns, "infos"}


def test_h5py_extends_a_file(tmp_path):
  """As Minari does: it adds episodes, and attributes to those that exist."""
  columns, _ = write(tmp_path / "a.hdf5", 3)
  with h5py.File(tmp_path / "a.hdf5", "a", track_order=True) as file:
    for i in range(3, 40):
      file.create_group(f"episode_{i}")["rewards"] = np.arange(i)
    file["episode_1"].attrs["seed"] = 5
    file["episode_1/infos"]["success"] = np.ones(2)
  with h5py.File(tmp_path / "a.hdf5") as file:
    assert len(file) == 40
    assert file["episode_39/rewards"].shape == (39,)
    assert file["episode_1"].attrs["seed"] == 5
    assert set(file["episode_1/infos"]) == {"action_mask", "success"}
    first = columns["rewards"].lengths[0]
    np.testing.assert_array_equal(
      file["episode_0/rewards"][()], columns["rewards"].values[:first]
    )
