"""Tests of the factory: its environments and specs, and its error messages."""

import contextlib
import subprocess
import sys

import gymnasium
import ml_collections
import numpy as np
import pytest
from gymnasium.envs.classic_control import cartpole

from slipway.environments import factory, user_code
from tests.environments import given, shaped

_TOYS, _THIS = "tests.environments.toys", __name__


class NoEnvironment:
  """A class that is no gymnasium.Env."""


class WithoutSpaces(gymnasium.Env):
  """An environment that declares no spaces."""


class WithArgument(gymnasium.Env):
  """An environment whose constructor needs an argument."""

  def __init__(self, size):
    self.size = size


def test_an_id_of_batches_only():
  config, kind = given.config_of("Batch-v0"), cartpole.CartPoleVectorEnv
  with given.registered("Batch-v0", vector_entry_point=kind):
    with contextlib.closing(factory.make(config, 3, 0)) as environment:
      assert environment.reset().observation.shape == (3, 4)
    with given.one_line(ValueError, match="no single environment"):
      factory.make_single(config, {})
    config.wrappers = ("gymnasium.wrappers:NormalizeReward",)
    with given.one_line(ValueError, match="in batches only, so wrappers"):
      factory.make(config, 3, 0)


@pytest.mark.parametrize(
  ("name", "shape", "dtype", "actions"),
  [
    ("CartPole-v1", (4,), np.float32, 2),
    ("FrozenLake-v1", (16,), np.float32, 4),
    ("LunarLander-v3", (8,), np.float32, 4),
    ("MountainCarContinuous-v0", (2,), np.float32, (1,)),
    ("ALE/Pong-v5", (4, 84, 84), np.uint8, 6),
  ],
)
def test_make_and_make_spec_agree(name, shape, dtype, actions):
  spec = factory.make_spec(given.config_of(name))
  environment = factory.make(given.config_of(name), 3, seed=0)
  assert environment.spec == spec
  assert environment.num_envs == 3
  assert (spec.observations.shape, spec.observations.dtype) == (shape, dtype)
  assert getattr(spec.actions, "num_values", spec.actions.shape) == actions
  assert environment.reset().observation.shape == (3, *shape)
  environment.close()


def test_discrete_observations_are_one_hot():
  environment = factory.make(
    given.config_of("FrozenLake-v1", is_slippery=False), 2, seed=0
  )
  opening = environment.reset().observation
  np.testing.assert_array_equal(opening, np.eye(16)[[0, 0]])
  step = environment.step(np.array([1, 2], np.int32))  # down, right
  np.testing.assert_array_equal(step.observation, np.eye(16)[[4, 1]])


@pytest.mark.parametrize(
  ("name", "kwargs", "fields"),
  [
    ("CartPole-v9", {}, [".name is 'CartPole-v9'", "'CartPole-v1'"]),
    ("cartpole-v1", {}, [".name is 'cartpole-v1'", "'CartPole-v1'"]),
    ("LunarLander-v2", {}, [".name is 'LunarLander-v2'", "'LunarLander-v3'"]),
    ("Pong-v5", {}, [".name is 'Pong-v5'", "'ALE/Pong-v5'"]),
    ("ALE/Brekaout-v5", {}, ["'ALE/Brekaout-v5'", "'ALE/Breakout-v5'"]),
    ("", {}, [".name is ''", "config.dataset.path=FOLDER"]),
    (3, {}, [".name is 3", "'CartPole-v1'"]),
    ("absent:Toy-v0", {}, ["'absent:Toy-v0'", "importing absent failed"]),
    ("./own/toy.py:Toy", {}, ["'./own/toy.py:Toy'", "'own.toy:Toy'"]),
    ("MyLine-v0", {}, ["'module:Class'", "'module:MyLine-v0'"]),
    ("Pong", {}, ["'ALE/Pong-v5'"]),
    (f"{_TOYS}:catch", {}, [f"did you mean '{_TOYS}:Catch'?"]),
    (f"{_TOYS}:Absent", {}, [f"'{_TOYS}:Catch'"]),
    (f"{_TOYS}.Catch", {}, [f"did you mean '{_TOYS}:Catch'?"]),
    (f"{_THIS}:_TOYS", {}, ["str", "class"]),
    (f"{_THIS}:NoEnvironment", {}, ["NoEnvironment", "gymnasium.Env"]),
    (f"{_THIS}:WithoutSpaces", {}, ["observation_space", "__init__"]),
    (f"{_THIS}:WithArgument", {}, ["environment.kwargs.size=VALUE"]),
    (
      "CartPole-v1",
      {"gravity": 3.0},
      ["gravity is 3.0", "sutton_barto_reward"],
    ),
    ("Pendulum-v1", {"gravity": 3}, [".kwargs.gravity is 3", "g, render_mode"]),
    ("ALE/Pong-v5", {"frame_skip": 2}, [".frame_skip is 2", "frameskip"]),
    ("ALE/Pong-v5", {"frameskip": 0}, [".kwargs is {'frameskip': 0}", "of 0"]),
    ("ALE/Pong-v5", {"autoreset_mode": "SameStep"}, ["SAME_STEP", "NEXT_STEP"]),
    ("FrozenLake-v1", {"map_name": "9x9"}, ["kwargs is", "KeyError: '9x9'"]),
    ("CartPole-v1", {"num_envs": 4}, [".kwargs.num_envs is 4", "remove"]),
    (
      "CartPole-v1",
      {"max_episode_steps": 4},
      ["is 4", "environment.time_limit"],
    ),
    ("ALE/Pong-v5", {"max_num_frames_per_episode": 8}, ["is 8", ".time_limit"]),
    ("ALE/Pong-v5", {"reward_clipping": True}, ["environment.reward_clip"]),
    ("ALE/Pong-v5", {"life_loss_info": True}, ["info is True", "remove life"]),
  ],
)
def test_an_invalid_config_is_rejected_in_one_line(name, kwargs, fields):
  for make in (lambda c: factory.make(c, 2, 0), factory.make_spec):
    with pytest.raises(ValueError) as caught:
      make(given.config_of(name, **kwargs))
    message = str(caught.value)
    assert "\n" not in message
    for field in ["config.environment", *fields]:
      assert field in message


@pytest.mark.parametrize("name", ["MyLine-v0", "GridWorld-v0", "Corridor-v0"])
def test_an_id_that_resembles_no_other_gets_no_suggestion(name):
  with pytest.raises(ValueError) as caught:
    factory.make_spec(given.config_of(name))
  assert "did you mean" not in str(caught.value)


def test_a_missing_dependency_is_named_in_one_line():
  def entry_point(**kwargs):
    raise gymnasium.error.DependencyNotInstalled("run `pip install it`\nor no")

  with (
    given.registered("Missing-v0", entry_point=entry_point),
    given.one_line(match=r"name is 'Missing-v0'.*run `pip install it`$"),
  ):
    factory.make(given.config_of("Missing-v0"), 1, 0)


def test_kwargs_that_are_no_config():
  config = ml_collections.ConfigDict({"name": "CartPole-v1", "kwargs": None})
  with pytest.raises(ValueError, match=r"config\.environment\.kwargs is None"):
    factory.make(config, 1, 0)


def test_importing_the_factory_is_silent_and_light():
  heavy = ("tensorflow", "jax", "reverb", "ale_py", "moviepy", "pygame")
  code = (
    "import sys, slipway.environments.factory\n"
    f"sys.exit(', '.join(m for m in {heavy} if m in sys.modules))"
  )
  environ = {"PATH": "/usr/bin:/bin"}  # without TF_CPP_MIN_LOG_LEVEL
  process = subprocess.run(
    [sys.executable, "-c", code], env=environ, capture_output=True, text=True
  )
  assert (process.stdout, process.stderr) == ("", "\n")


@pytest.mark.parametrize("read", [True, False])
def test_action_masks_that_are_not_read_are_warned_of(read, caplog):
  config = shaped.config_of(action="multi_discrete", masked=True)
  config.action_mask = read
  with contextlib.suppress(user_code.UserCodeError):  # an illegal action
    factory.make_spec(config)
  lines = [x for x in caplog.messages if "action_mask=True" in x]
  assert len(lines) == (not read)
