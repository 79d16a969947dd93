"""Tests of `slipway export`: it restores the episodes that workers recorded."""

import numpy as np
import pytest

import slipway
from slipway.configs import dqn
from slipway.environments import factory, recordings
from slipway.launch.commands import cli, export
from tests.environments import given
from tests.launch import errors, saved


def read(folder, name):
  spec = factory.make_spec(given.config_of(name))
  return [*recordings.read_each(folder, spec)]


@pytest.mark.runs
@pytest.mark.parametrize(
  ("preset", "mode", "capacity"),
  [
    ("dqn:cartpole", "single", 100_000),
    ("dqn:cartpole", "async", 100_000),
    ("sac:pendulum", "single", 2_000),  # evicts the oldest steps
  ],
)
def test_episodes_are_those_of_the_workers(
  tmp_path, capsys, preset, mode, capacity
):
  config = slipway.load_config(preset)
  config.adder.n_step = 1
  config.replay.capacity = capacity
  config.recording.path = str(tmp_path / "recorded")
  config.environment.reward_scale = 0.5
  config.limits.environment_steps, config.limits.trainer_steps = 3_000, 0
  config.limits.target_return = float("inf")
  config.topology.workers = 1 if mode == "single" else 2
  if mode == "single":
    config.evaluation.period_steps = 0
  slipway.train(config, name="run", run_dir=tmp_path, mode=mode)
  out = tmp_path / "exported"
  assert (
    cli.run(["slipway", "export", str(tmp_path / "run"), f"--out={out}"]) == 0
  )
  exported = read(out, config.environment.name)
  assert f"{len(exported)} episodes" in capsys.readouterr().out

  # Episodes from their end, since the oldest ones lack their beginning.
  by_end = {x.observations[-1].tobytes(): x for x in exported}
  recorded = read(tmp_path / "recorded", config.environment.name)
  whole = missing = 0
  for episode in recorded:
    found = by_end.get(episode.observations[-1].tobytes())
    if found is None:
      missing += 1
      continue
    steps = len(found.actions)
    whole += steps == len(episode.actions)
    for name in ("observations", "actions", "rewards"):
      expected, got = getattr(episode, name), getattr(found, name)
      expected = expected[-len(got) :]
      np.testing.assert_allclose(got, expected, rtol=1e-6, err_msg=name)
    assert bool(found.terminated[-1]) == bool(episode.terminated[-1])
    assert bool(found.truncated[-1]) != bool(found.terminated[-1])
  assert whole >= len(recorded) / 3
  if capacity > 3_000:
    # Workers may make some steps after the last snapshot.
    assert missing <= 8 * config.topology.workers
    assert whole == len(recorded) - missing
  else:
    assert sum(len(x.actions) for x in exported) <= capacity


def test_environments_with_equal_observations_stay_apart():
  # Two environments count from 0 to 3 at once; the second one ends earlier.
  before = np.array([0, 0, 1, 1, 2, 0], np.float32)[:, None]
  after = np.array([1, 1, 2, 2, 3, 1], np.float32)[:, None]
  zeros = np.zeros(6, np.int64)
  steps = export.Steps(
    before, after, np.arange(6) == 3, zeros, zeros, zeros.astype(np.float32)
  )
  episodes = [x.tolist() for x in export.find_episodes(steps)]
  assert episodes == [[0, 2, 4], [1, 3], [5]]
  apart = steps._replace(stream=np.array([0, 1, 0, 1, 1, 1]))
  episodes = [x.tolist() for x in export.find_episodes(apart)]
  assert episodes == [[0, 2], [1, 3], [4], [5]]


@pytest.mark.parametrize(
  ("changes", "words"),
  [
    ({"adder.n_step": 3}, ["adder.n_step=3", "sums of rewards"]),
    (
      {"adder.n_step": 1, "topology.workers": 0, "dataset.path": "d"},
      ["dataset.path='d'", "no table"],
    ),
    ({"adder.n_step": 1}, ["no complete snapshot", "ended without"]),
  ],
)
def test_tables_without_steps_are_rejected(tmp_path, capsys, changes, words):
  config = dqn.get_config()
  config.update_from_flattened_dict(changes)
  run = saved.write_run(config, tmp_path / "runs")
  out = tmp_path / "out"
  assert cli.run(["slipway", "export", str(run.path), f"--out={out}"]) == 2
  errors.check_printed(capsys, "export: ", *words)
  assert not out.exists()
