"""Tests of recordings: read episodes equal the played ones; errors."""

import json
import os
import stat
import subprocess
import sys

import gymnasium
import minari
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.envs import registration
from gymnasium.envs.classic_control import cartpole
from minari.data_collector import EpisodeBuffer
from minari.dataset import minari_storage

from slipway.environments import factory, recordings, specs
from slipway.environments import recorder as recorder_lib
from tests.environments import given, shaped

CARTPOLE = given.config_of("CartPole-v1")
PENDULUM = given.config_of("Pendulum-v1")
COLUMNS = ("observations", "actions", "rewards", "terminations", "truncations")


def record(folder, config, steps, recorded=None):
  """Records two environments; returns their spec, actions and steps."""
  environment = factory.make(config, 2, seed=3)
  random = np.random.default_rng(0)
  with recorder_lib.Recorder(folder, "a", config, environment) as recorder:
    played = [(None, environment.reset())]
    recorder.add(*played[0], recorded)
    for _ in range(steps):
      observation = played[-1][1].observation
      actions = environment.sample_actions(observation, random)
      played.append((actions, environment.step(actions)))
      recorder.add(*played[-1], recorded)
  environment.close()
  return environment.spec, played


def finished(played, envs=(0, 1)):
  """Returns finished episodes of some environments, in the order of ends."""
  open_episodes = [[], []]
  found = []
  for actions, step in played:
    for env in envs:
      if step.first[env]:
        open_episodes[env] = []
      action = None if actions is None else actions[env]
      open_episodes[env].append((action, *(array[env] for array in step)))
      if step.terminated[env] or step.truncated[env]:
        found.append(open_episodes[env])
  return found


def assert_equal(episodes, expected):
  """Compares read episodes with lists of steps, which start with a reset."""
  assert episodes.lengths.tolist() == [len(steps) - 1 for steps in expected]
  resets = np.cumsum([0] + [len(steps) for steps in expected[:-1]])
  all_steps = [step for steps in expected for step in steps]
  _, observations, rewards, terminated, truncated, *_ = zip(
    *all_steps, strict=True
  )
  np.testing.assert_array_equal(episodes.observations, np.stack(observations))
  for column, values in (
    (episodes.rewards, rewards),
    (episodes.terminated, terminated),
    (episodes.truncated, truncated),
  ):
    without_resets = np.delete(np.stack(values), resets)
    assert column.dtype == without_resets.dtype
    np.testing.assert_array_equal(column, without_resets)
  actions = np.stack([step[0] for steps in expected for step in steps[1:]])
  assert episodes.actions.dtype == actions.dtype
  np.testing.assert_allclose(episodes.actions, actions, atol=1e-6)


@pytest.mark.parametrize(
  ("config", "steps", "truncates"),
  [
    (CARTPOLE, 150, False),
    (PENDULUM, 450, True),
    (given.config_of("FrozenLake-v1"), 60, False),
    (
      given.config_of("slipway.environments.minatar:MinAtar/Breakout-v1"),
      60,
      False,
    ),
    (shaped.config_of(observation="hwc", action="multi_binary"), 20, False),
    (shaped.config_of(observation="hw", masked=True), 20, False),
    (
      shaped.config_of(
        observation="parts", action="multi_discrete", masked=True
      ),
      20,
      False,
    ),
    (shaped.config_of(observation="multi_discrete"), 20, False),
  ],
)
def test_a_round_trip(tmp_path, config, steps, truncates):
  spec, played = record(tmp_path / "new" / "episodes", config, steps)
  episodes = recordings.read(tmp_path / "new" / "episodes", spec)
  expected = finished(played)
  assert len(expected) > 2
  assert_equal(episodes, expected)
  assert episodes.truncated.any() == truncates
  assert episodes.terminated.any() != truncates
  assert os.listdir(tmp_path / "new" / "episodes") == ["a-000000-v0"]


@pytest.mark.parametrize(
  ("space", "sizes"),
  [
    (spaces.Discrete(4, start=2, dtype=np.uint8), (4,)),
    (spaces.MultiDiscrete([2, 4, 3], np.uint8), (2, 4, 3)),
    (spaces.MultiDiscrete([[2, 4], [3, 2]], np.uint8), (2, 4, 3, 2)),
    (spaces.MultiDiscrete([2, 4], np.uint64, start=[1, 2]), (2, 4)),
  ],
)
def test_a_round_trip_of_unsigned_actions(tmp_path, monkeypatch, space, sizes):
  monkeypatch.setitem(shaped.ACTIONS, "unsigned", space)
  monkeypatch.setitem(shaped.SIZES, "unsigned", sizes)
  config = shaped.config_of(action="unsigned")
  spec, played = record(tmp_path / "episodes", config, 20)
  episodes = recordings.read(tmp_path / "episodes", spec)
  assert_equal(episodes, finished(played))


def test_only_selected_environments_are_recorded(tmp_path):
  recorded = np.array([False, True])
  spec, played = record(tmp_path / "some", CARTPOLE, 150, recorded)
  episodes = recordings.read(tmp_path / "some", spec)
  assert_equal(episodes, finished(played, envs=[1]))


def test_minari_reads_the_actions_of_the_space(tmp_path, monkeypatch):
  _, played = record(tmp_path, PENDULUM, 210)
  monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
  dataset = minari.load_dataset("a-000000-v0")
  assert dataset.total_episodes == 2
  assert dataset.action_space == gymnasium.make("Pendulum-v1").action_space
  for episode, steps in zip(dataset, finished(played), strict=True):
    torques = 2 * np.stack([step[0] for step in steps[1:]])
    np.testing.assert_allclose(episode.actions, torques, atol=1e-6)
    rewards = np.stack([step[6] for step in steps[1:]])
    np.testing.assert_array_equal(episode.rewards, rewards)
  assert dataset.recover_environment().spec.id == "Pendulum-v1"
  assert dataset.filter_episodes(lambda x: x.id == 1).total_steps == 200


def test_minari_writes_what_it_reads_bit_for_bit(tmp_path):
  """The parts' columns are equal after Minari has written them again."""
  spec, _ = record(tmp_path / "ours", CARTPOLE, 80)
  ours = minari.MinariDataset(tmp_path / "ours" / "a-000000-v0" / "data")
  storage = minari_storage.MinariStorage.new(
    tmp_path / "data", ours.observation_space, ours.action_space
  )
  storage.update_metadata(
    {"dataset_id": "b-v0", "minari_version": minari.__version__}
  )
  for episode in ours:
    columns = {k: getattr(episode, k) for k in COLUMNS}
    storage.update_episodes([EpisodeBuffer(**columns)])
  for column, other in zip(
    recordings.read(tmp_path / "ours", spec),
    recordings.read(tmp_path, spec),
    strict=True,
  ):
    assert column.dtype == other.dtype
    assert column.tobytes() == other.tobytes()


def test_a_dataset_is_found_by_its_name(tmp_path, monkeypatch):
  write_with_minari(tmp_path / "a" / "b-v0", [3])
  monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
  episodes = recordings.read("a/b-v0", factory.make_spec(CARTPOLE))
  assert episodes.lengths.tolist() == [3]
  with given.one_line(ValueError, match="minari download a/b-v1"):
    recordings.read("a/b-v1", factory.make_spec(CARTPOLE))


def test_a_part_has_the_users_default_permissions(tmp_path):
  record(tmp_path, CARTPOLE, 40)
  (tmp_path / "b").mkdir()
  part, folder = map(os.stat, (tmp_path / "a-000000-v0", tmp_path / "b"))
  assert stat.S_IMODE(part.st_mode) == stat.S_IMODE(folder.st_mode)


def test_an_error_leaves_the_complete_episodes(tmp_path):
  environment = factory.make(CARTPOLE, 2, seed=0)
  with (
    pytest.raises(KeyboardInterrupt),
    recorder_lib.Recorder(tmp_path, "a", CARTPOLE, environment) as recorder,
  ):
    recorder.add(None, environment.reset())
    while not recorder.episodes:
      recorder.add(np.zeros(2, np.int32), environment.step(np.zeros(2, int)))
    raise KeyboardInterrupt
  episodes = recordings.read(tmp_path, environment.spec)
  assert len(episodes.lengths) == recorder.episodes


def write_with_minari(
  folder, lengths, observations=1, flags=False, columns=None
):
  """Writes a dataset with CartPole's spaces, but no environment spec."""
  folder.mkdir(parents=True, exist_ok=True)
  environment = gymnasium.make("CartPole-v1")
  storage = minari_storage.MinariStorage.new(
    folder / "data", environment.observation_space, environment.action_space
  )
  storage.update_metadata(
    {"dataset_id": "a/b-v0", "minari_version": minari.__version__}
  )
  for n in lengths:
    written = {
      "observations": np.zeros((n + observations, 4), np.float32),
      "actions": np.ones(n, np.int64),
      "rewards": np.ones(n),
      "terminations": np.zeros(n, bool),
      "truncations": np.full(n, flags),
    }
    storage.update_episodes([EpisodeBuffer(**{**written, **(columns or {})})])


def test_an_episode_without_an_end_is_truncated(tmp_path):
  write_with_minari(tmp_path, [3, 2])
  episodes = recordings.read(tmp_path, factory.make_spec(CARTPOLE))
  assert episodes.truncated.tolist() == [False, False, True, False, True]
  assert not episodes.terminated.any()
  assert episodes.actions.dtype == np.int32
  assert episodes.rewards.dtype == np.float32


def nothing(folder):
  folder.rmdir()


def other_files(folder):
  (folder / "notes.txt").write_text("")


def damaged(folder):
  write_with_minari(folder, [3])
  metadata = json.loads((folder / "data" / "metadata.json").read_text())
  metadata["minari_version"] = "0.0.1"
  (folder / "data" / "metadata.json").write_text(json.dumps(metadata))


def cut_short(folder):
  write_with_minari(folder, [3])
  os.truncate(folder / "data" / "main_data.hdf5", 1_000)


def one_part_cut_short(folder):
  for part in (0, 1):
    write_with_minari(folder / f"a-{part:06d}-v0", [3])
  os.truncate(folder / "a-000001-v0" / "data" / "main_data.hdf5", 1_000)


def empty(folder):
  write_with_minari(folder, [])


def pendulum(folder):
  record(folder, PENDULUM, 201)


def acrobot(folder):
  record(folder, given.config_of("Acrobot-v1"), 501)


def without_last_observations(folder):
  write_with_minari(folder, [3], observations=0)


def changed(**columns):
  """Returns a function that writes an episode of 3 steps with these columns."""
  return lambda folder: write_with_minari(folder, [3], columns=columns)


_NAN = np.full((4, 4), np.nan, np.float32)
MIDDLE = np.array([False, True, False])


@pytest.mark.parametrize(
  ("write", "fields"),
  [
    (changed(actions=np.ones(2, np.int64)), ["2 actions for 3 steps"]),
    (changed(actions=np.array([0, 5, 1])), ["the action 5 at step 1"]),
    (changed(actions=np.array([0, 1, -1])), ["the action -1 at step 2"]),
    (changed(actions=np.array([1.7, 0, 0])), ["the action 1.7 at step 0"]),
    (changed(actions=np.array([1 + 2**32, 0, 0])), ["4294967297"]),
    (changed(observations=_NAN), ["episode 0 has observations with nan"]),
    (changed(rewards=np.array([0, np.nan, 0])), ["rewards with nan"]),
    (changed(rewards=np.array([0, 1e300, 0])), ["rewards with 1e+300"]),
    (changed(terminations=MIDDLE), ["episode 0 has steps after its end"]),
    (changed(truncations=MIDDLE), ["after its end at step 1 of 3"]),
    (
      changed(observations=np.zeros((4, 3), np.float32)),
      ["episode 0 has observations of another shape"],
    ),
    (nothing, ["does not exist"]),
    (other_files, ["not a Minari dataset", "data/"]),
    (damaged, ["not a Minari dataset", "0.0.1"]),
    (cut_short, ["not a Minari dataset"]),
    (empty, ["without episodes"]),
    (pendulum, ["observations", "float32 [3]", "float32 [4]"]),
    (acrobot, ["float32 [6]", "float32 [4]", "set config.environment"]),
    (without_last_observations, ["3 observations for 3 steps"]),
    (changed(terminations=MIDDLE[:1]), ["1 terminations for 3 steps"]),
    (one_part_cut_short, ["a-000001-v0', which is not a Minari dataset"]),
  ],
)
def test_invalid_folders_are_rejected(tmp_path, write, fields):
  folder = tmp_path / "episodes"
  folder.mkdir()
  write(folder)
  with given.one_line(ValueError) as caught:
    recordings.read(folder, factory.make_spec(CARTPOLE))
  message = str(caught.value)
  for field in [f"folder is '{folder}", *fields]:
    assert field in message


def test_other_actions_are_rejected(tmp_path):
  record(tmp_path / "a", CARTPOLE, 40)
  spec = factory.make_spec(CARTPOLE)
  spec = spec._replace(actions=specs.DiscreteArray(3, np.int32, "action"))
  with pytest.raises(ValueError, match=r"are 2 discrete.* are 3 discrete"):
    recordings.read(tmp_path / "a", spec)


def test_episodes_without_masks_are_not_read_as_masked(tmp_path):
  record(tmp_path / "a", shaped.config_of(), 12)
  spec = factory.make_spec(shaped.config_of(masked=True))
  with given.one_line(ValueError, match="no infos"):
    recordings.read(tmp_path / "a", spec)


def test_an_id_with_a_class_as_an_argument_is_recorded(tmp_path, monkeypatch):
  spec = registration.EnvSpec(
    "Made-v0",
    entry_point=lambda made: made(),
    max_episode_steps=10,
    kwargs={"made": cartpole.CartPoleEnv},
  )
  monkeypatch.setitem(gymnasium.registry, "Made-v0", spec)
  _, played = record(tmp_path / "a", given.config_of("Made-v0"), 12)
  assert len(finished(played)) > 0
  assert os.listdir(tmp_path / "a") == ["a-000000-v0"]


def test_integers_that_agents_do_not_see_are_recorded_as_they_see_them(
  tmp_path, monkeypatch
):
  space = spaces.Box(0, 2**40, (2,), np.int64)

  class Clock(cartpole.CartPoleEnv):
    def __init__(self):
      super().__init__()
      self.observation_space = space

    def reset(self, *, seed=None, options=None):
      return np.array([1, 1_735_689_600]), {}

    def step(self, action):
      return self.reset()[0], 1.0, True, False, {}

  spec = registration.EnvSpec("Clock-v0", entry_point=Clock)
  monkeypatch.setitem(gymnasium.registry, "Clock-v0", spec)
  spec, played = record(tmp_path / "a", given.config_of("Clock-v0"), 4)
  assert_equal(recordings.read(tmp_path / "a", spec), finished(played))


def test_reading_is_light_and_does_not_write_to_the_home_directory(tmp_path):
  record(tmp_path / "a", CARTPOLE, 40)
  home = tmp_path / "home"
  home.mkdir()
  code = (
    "import sys\n"
    "from slipway.environments import factory, recordings\n"
    "from tests.environments import given\n"
    "spec = factory.make_spec(given.config_of('CartPole-v1'))\n"
    "recordings.read(sys.argv[1], spec)\n"
    "heavy = {'tensorflow', 'jax', 'reverb'} & set(sys.modules)\n"
    "sys.exit(', '.join(heavy))"
  )
  process = subprocess.run(
    [sys.executable, "-c", code, str(tmp_path / "a")],
    env={"PATH": "/usr/bin:/bin", "HOME": str(home)},
    capture_output=True,
    text=True,
  )
  assert (process.stdout, process.stderr) == ("", "\n")
  assert os.listdir(home) == []
