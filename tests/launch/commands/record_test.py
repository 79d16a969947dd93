"""Tests of `slipway record`: its episodes, and what it rejects."""

import re

import gymnasium
import numpy as np
import pytest

from slipway.configs import dqn
from slipway.environments import factory, recordings
from slipway.launch.commands import cli
from tests.environments import given
from tests.launch import errors, saved

CARTPOLE = "--environment=CartPole-v1"
PENDULUM = "--environment=Pendulum-v1"


def read(folder, name="CartPole-v1"):
  return recordings.read(folder, factory.make_spec(given.config_of(name)))


@pytest.fixture
def run(tmp_path):
  """Returns the folder of a run with untrained variables."""
  return saved.write_run(dqn.get_config(), tmp_path / "runs")


def test_recorded_episodes_are_those_it_reports(run, tmp_path, capsys):
  out = tmp_path / "b"
  flags = [f"--run={run.path}", "--episodes=23", f"--out={out}"]
  assert cli.run(["slipway", "record", *flags]) == 0
  printed = capsys.readouterr().out
  episodes = read(out)
  assert len(episodes.lengths) == 23
  mean = re.search(r"23 episodes of version 7: mean return ([\d.]+)", printed)
  assert mean is not None
  assert float(mean[1]) == pytest.approx(episodes.rewards.sum() / 23, abs=0.01)
  assert f"23 episodes recorded: {out}" in printed


def push_left(observations):
  assert observations.dtype == np.float32 and observations.ndim == 2
  return [0] * len(observations)


class PushRight:
  def __call__(self, observations):
    return np.ones(len(observations), np.int64)


def too_few(observations):
  return [0]


def outside(observations):
  return np.full(len(observations), 2)


def half_torque(observations):
  return np.full((len(observations), 1), 1.0)


@pytest.mark.parametrize(
  ("policy", "share"),
  [
    (f"{__name__}:push_left", 0.0),
    (f"{__name__}:PushRight", 1.0),
    (f"{__name__}:push_left --epsilon=0.5", 0.25),
    ("random", 0.5),
  ],
)
def test_policies_that_need_no_run(tmp_path, policy, share):
  flags = [CARTPOLE, f"--out={tmp_path}", f"--policy={policy}"]
  assert cli.run(["slipway", "record", *" ".join(flags).split()]) == 0
  episodes = read(tmp_path)
  assert len(episodes.lengths) == 20
  tolerance = 0 if share in (0.0, 1.0) else 4 / len(episodes.actions) ** 0.5
  assert episodes.actions.mean() == pytest.approx(share, abs=tolerance)


def test_actions_of_an_own_policy_are_the_environments(tmp_path):
  flags = [f"--out={tmp_path}", f"--policy={__name__}:half_torque"]
  assert cli.run(["slipway", "record", PENDULUM, "--episodes=2", *flags]) == 0
  assert (read(tmp_path, "Pendulum-v1").actions == 0.5).all()


def test_random_actions_in_the_environment_of_a_run(run, tmp_path):
  config = run.read_config()
  config.environment.time_limit = 3
  run.write_config(config)
  run.best.unlink()
  flags = [f"--run={run.path}", "--policy=random", f"--out={tmp_path / 'b'}"]
  assert cli.run(["slipway", "record", *flags]) == 0
  assert read(tmp_path / "b").lengths.tolist() == [3] * 20


def test_an_environment_is_changed(tmp_path):
  flags = [CARTPOLE, "--policy=random", f"--out={tmp_path}"]
  limit = "--config.environment.time_limit=3"
  assert cli.run(["slipway", "record", *flags, limit]) == 0
  assert read(tmp_path).lengths.tolist() == [3] * 20


REJECTED = [
  ("", "--run is missing"),
  (CARTPOLE, "--environment=CartPole-v1 has no policy to play"),
  (f"{CARTPOLE} --policy=sampled", "has no policy to play"),
  (f"{CARTPOLE} --run=a --policy=random", "is in place of --run"),
  (f"{CARTPOLE} --policy=best", "--policy=best is none of greedy, sampled"),
  (f"{CARTPOLE} --policy=no:such", "--policy='no:such' can't be imported"),
  (f"{CARTPOLE} --policy=random --epsilon=2", "--epsilon=2 can't be used"),
  ("--environment=Cartpole-v9 --policy=random", "did you mean"),
  (f"{CARTPOLE} --policy=random --out=/proc/a", "--out=/proc/a can't be"),
  (
    f"{CARTPOLE} --policy=random --config.environment.time_limit=-1",
    "time_limit=-1",
  ),
  (f"{CARTPOLE} --policy=random --config.seed=1", "is no flag"),
  (f"{CARTPOLE} --policy=random --config.environment.name=a", "is no flag"),
  ("--run=no/such", "no/such"),
  ("--run=no/such --config.environment.time_limit=9", "is no flag"),
]


@pytest.mark.parametrize(("flags", "part"), REJECTED)
def test_flags_that_record_rejects(tmp_path, flags, part, capsys):
  out = [] if "--out" in flags else [f"--out={tmp_path / 'a'}"]
  assert cli.run(["slipway", "record", *flags.split(), *out]) == 2
  errors.check_printed(capsys, "record: ", part)
  assert not (tmp_path / "a").exists()


def test_it_needs_a_new_folder(tmp_path, capsys):
  flags = [CARTPOLE, "--policy=random"]
  assert cli.run(["slipway", "record", *flags]) == 2
  errors.check_printed(capsys, "--out is missing")
  (tmp_path / "notes.txt").touch()
  assert cli.run(["slipway", "record", *flags, f"--out={tmp_path}"]) == 2
  errors.check_printed(capsys, "already has files")


@pytest.mark.parametrize("name", ["too_few", "outside"])
def test_actions_that_the_environment_cannot_take(tmp_path, capsys, name):
  flags = [CARTPOLE, f"--policy={__name__}:{name}", f"--out={tmp_path / 'a'}"]
  assert cli.run(["slipway", "record", *flags]) == 1
  errors.check_printed(capsys, f"{name}' returned ", "actions of Discrete(2)")


class Stops(gymnasium.Env):
  """A task of one step per episode that the user interrupts."""

  observation_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
  action_space = gymnasium.spaces.Discrete(2)
  steps = 0

  def reset(self, *, seed=None, options=None):
    super().reset(seed=seed)
    return np.zeros(1, np.float32), {}

  def step(self, action):
    Stops.steps += 1
    if Stops.steps == 50:
      raise KeyboardInterrupt
    return np.zeros(1, np.float32), 0.5, True, False, {}


def test_what_is_whole_stays_after_an_interrupt(tmp_path):
  name = f"{__name__}:Stops"
  flags = [f"--environment={name}", "--policy=random", f"--out={tmp_path}"]
  assert cli.run(["slipway", "record", "--episodes=1000", *flags]) == 1
  # Steps of 20 environments, and then resets of all.
  assert read(tmp_path, name).lengths.tolist() == [1] * 40
