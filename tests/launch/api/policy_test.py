"""Tests of Policy: actions of a config's network, and of its ONNX model."""

import copy
import json
import pickle

import gymnasium
import numpy as np
import onnxruntime
import pytest
import tree

import slipway
from slipway.agents import registry
from slipway.agents.networks import network as network_lib
from slipway.environments import factory, spaces
from slipway.launch.api import policy as policy_lib
from tests.environments import shaped
from tests.launch import errors


def make_config(name, environment, **network):
  config = slipway.load_config(f"{name}:cartpole")
  with config.unlocked():
    config.environment.update(environment)
  config.network.update({"hidden_sizes": (8,), **network})
  return config


def make_variables(config, prefix="", seed=0):
  """Returns random variables of the config's policy network."""
  spec = factory.make_spec(config.environment)
  network = registry.make_builder(config.agent).make_network(config, spec)
  random = np.random.default_rng(seed)
  return {
    prefix + name: random.normal(0, 1, shape).astype(np.float32)
    for name, shape in network_lib.variable_shapes(network).items()
  }


def make_policy(config, prefix=""):
  return policy_lib.Policy(config, make_variables(config, prefix), 1)


def make_mask(sizes, random):
  """Returns a mask bool [M] with a legal value of each component."""
  masks = [random.random(size) < 0.5 for size in sizes]
  for mask in masks:
    mask[random.integers(len(mask))] = True
  return np.concatenate(masks)


def open_model(policy, path):
  policy.export(path)
  return onnxruntime.InferenceSession(str(path))


def make_zeros(model, batch_size):
  """Returns zeros for each input of a model of float32, int32 and bool."""
  types = {"tensor(int32)": np.int32, "tensor(bool)": np.bool_}
  return {
    x.name: np.zeros((batch_size, *x.shape[1:]), types.get(x.type, np.float32))
    for x in model.get_inputs()
  }


def run_model(model, inputs):
  names = [x.name for x in model.get_outputs()]
  return dict(zip(names, model.run(names, inputs), strict=True))


_PENDULUM = {"name": "Pendulum-v1"}


@pytest.mark.parametrize(
  ("name", "environment", "prefix"),
  [
    ("r2d2", shaped.config_of(action="discrete"), ""),
    ("r2d2", shaped.config_of(action="multi_discrete"), ""),
    ("ppo", shaped.config_of(action="multi_discrete"), "policy/"),
    ("ppo", _PENDULUM, "policy/"),
  ],
)
def test_a_recurrent_model_takes_its_own_outputs(
  name, environment, prefix, tmp_path
):
  """Each episode's actions depend on all actions before."""
  policy = make_policy(make_config(name, environment, core_size=8), prefix)
  model = open_model(policy, tmp_path / "policy.onnx")
  shape = (3, *policy.observation_space.shape)
  random = np.random.default_rng(0)
  inputs = make_zeros(model, 3)
  for _ in range(2):  # episodes
    policy.reset()
    inputs["first"][:] = True
    for _ in range(10):
      observation = random.normal(size=shape).astype(np.float32)
      inputs["observation"] = observation
      wanted = policy(observation, inputs["reward_before"])
      outputs = run_model(model, inputs)
      np.testing.assert_allclose(outputs["action"], wanted, atol=1e-4)
      inputs["action_before"] = outputs["next_action_before"]
      inputs["state"] = outputs["next_state"]
      inputs["reward_before"] = random.normal(size=3).astype(np.float32)
      inputs["first"][:] = False


@pytest.mark.parametrize("how", ["copied", "deep-copied", "pickled"])
def test_a_copy_acts_like_the_policy_and_has_a_state_of_its_own(how):
  copies = {
    "copied": copy.copy,
    "deep-copied": copy.deepcopy,
    "pickled": lambda policy: pickle.loads(pickle.dumps(policy)),
  }
  policy = make_policy(make_config("r2d2", shaped.config_of(), core_size=8))
  random = np.random.default_rng(0)
  observations = random.normal(size=(20, 1, 3)).astype(np.float32)
  wanted = [policy(observation).tolist() for observation in observations]
  other = copies[how](policy)
  # Both begin an episode, in turns.
  policy.reset()
  assert other.version == policy.version
  for observation, action in zip(observations, wanted, strict=True):
    assert other(observation).tolist() == action
    assert policy(observation).tolist() == action


@pytest.mark.parametrize(("name", "prefix"), [("r2d2", ""), ("ppo", "policy/")])
def test_a_recurrent_policy_keeps_the_size_of_its_batch(name, prefix):
  policy = make_policy(make_config(name, PLAIN, core_size=8), prefix)
  policy(np.zeros((2, 3)))
  for other in (np.zeros(3), np.zeros((3, 3))):
    with errors.one_line("2 in the call before", "reset()", "copy.copy"):
      policy(other)
  policy(np.zeros((2, 3)))
  policy.reset()
  policy(np.zeros(3))
  forward = make_policy(make_config("dqn", PLAIN))
  forward(np.zeros((2, 3)))
  forward(np.zeros(3))


@pytest.mark.parametrize("action", ["multi_discrete", "multi_binary"])
@pytest.mark.parametrize(("name", "prefix"), [("dqn", ""), ("ppo", "policy/")])
def test_a_model_chooses_legal_actions_of_several_components(
  name, prefix, action, tmp_path
):
  environment = shaped.config_of(action=action, masked=True)
  policy = make_policy(make_config(name, environment), prefix)
  model = open_model(policy, tmp_path / "policy.onnx")
  random = np.random.default_rng(0)
  observation = random.normal(size=(20, 3)).astype(np.float32)
  mask = np.stack([make_mask(shaped.SIZES[action], random) for _ in range(20)])
  joined = np.concatenate([observation, mask], 1, dtype=np.float32)
  (actions,) = model.run(["action"], {"observation": joined})
  wanted = policy(observation, action_mask=mask)
  np.testing.assert_array_equal(actions, wanted)


@pytest.mark.parametrize("observation", ["parts", "small_image_and_numbers"])
def test_a_model_says_where_each_part_of_an_observation_is(
  observation, tmp_path
):
  environment = shaped.config_of(observation=observation, masked=True)
  policy = make_policy(make_config("ppo", environment), "policy/")
  model = open_model(policy, tmp_path / "policy.onnx")
  notes = model.get_modelmeta().custom_metadata_map
  layout = json.loads(notes["observation"])
  space = policy.observation_space
  sample = space.sample()
  flat = np.full(model.get_inputs()[0].shape[1], np.nan, np.float32)
  for part in layout[:-1]:
    value = eval(f"sample{part['key']}", {"sample": sample})
    (leaf,) = (
      leaf
      for leaf in spaces.leaves(space)
      if spaces.subscripts(leaf.path) == part["key"]
    )
    flat[part["start"] : part["stop"]] = gymnasium.spaces.flatten(
      leaf.space, value
    )
  mask = make_mask(shaped.SIZES["discrete"], np.random.default_rng(0))
  assert layout[-1]["key"] == "action_mask"
  flat[layout[-1]["start"] : layout[-1]["stop"]] = mask
  assert not np.isnan(flat).any()
  (actions,) = model.run(["action"], {"observation": flat[None]})
  assert actions[0] == policy(sample, action_mask=mask)


def test_the_weights_of_the_actors_network_are_exported(tmp_path):
  """The learner also publishes a network of values with the same shapes."""
  config = make_config("ppo", _PENDULUM)
  variables = {
    **make_variables(config, "value/", seed=1),
    **make_variables(config, "policy/", seed=2),
    **make_variables(config, "", seed=3),
  }
  policy = policy_lib.Policy(config, variables, 1)
  model = open_model(policy, tmp_path / "policy.onnx")
  random = np.random.default_rng(0)
  observation = random.normal(size=(20, 3)).astype(np.float32)
  (actions,) = model.run(["action"], {"observation": observation})
  np.testing.assert_allclose(actions, policy(observation), atol=1e-5)


def test_one_of_several_unknown_networks_is_not_guessed(tmp_path):
  config = make_config("dqn", shaped.config_of())
  variables = make_variables(config, "a/")
  for name in make_variables(config):
    with pytest.raises(ValueError, match=f"no variable '{name}'"):
      policy_lib.Policy(config, {**variables, f"a/{name}": np.zeros(9)}, 1)
  variables.update(make_variables(config, "b/"))
  policy = policy_lib.Policy(config, variables, 1)
  with errors.one_line("'a/', 'b/'"):
    policy.export(tmp_path / "policy.onnx")
  assert not list(tmp_path.iterdir())


def to_lists(observation):
  return tree.map_structure(lambda x: np.asarray(x).tolist(), observation)


@pytest.mark.parametrize("name", ["vector", "multi_discrete", "parts", "tuple"])
def test_lists_and_tuples_are_observations(name):
  policy = make_policy(make_config("dqn", shaped.config_of(observation=name)))
  space = policy.observation_space
  space.seed(0)
  singles = [space.sample() for _ in range(20)]
  batch = gymnasium.vector.utils.concatenate(
    space,
    singles,
    gymnasium.vector.utils.create_empty_array(space, len(singles)),
  )
  actions = policy(batch)
  assert len(set(actions)) > 1
  np.testing.assert_array_equal(policy(to_lists(batch)), actions)
  for action, observation in zip(actions, singles, strict=True):
    assert policy(observation) == policy(to_lists(observation)) == action


PLAIN, MASKED = shaped.config_of(), shaped.config_of(masked=True)
TUPLE = shaped.config_of(observation="tuple")
FROZEN = {"name": "FrozenLake-v1"}
# environment; observation, reward and mask; part of the error
WRONG = [
  (PLAIN, [[0.0, 1.0]], "shape [2]"),
  (PLAIN, [[[0.0], [1.0, 2.0]]], "no numbers"),
  (PLAIN, ["abc"], "no numbers"),
  (PLAIN, [(np.zeros(3), {})], "no numbers"),
  (PLAIN, [[0.0, np.nan, 0.0]], "nan"),
  (PLAIN, [np.zeros((0, 3))], "0 observations"),
  (TUPLE, [(1, {})], "no numbers"),
  (TUPLE, [([0, 1], np.zeros((3, 2)))], "([2], [3, 2])"),
  (TUPLE, [(0.5, [1, 2])], "int64 lacks"),
  (shaped.config_of(observation="hw"), [np.full((40, 48), 300)], "uint8 lacks"),
  *((FROZEN, [x], "Discrete(16)") for x in (16, -1, [3, 99])),
  (FROZEN, [[3, 99]], "99"),
  # Training rejects it, too.
  *(({}, [np.array([0.0, x, 0.0, 0.0])], "at most 1e") for x in (1e16, -1e20)),
  *((PLAIN, [np.zeros((3, 3)), x], f"reward is {x!r}")
    for x in ("high", [1.0, 2.0], None)),
  (PLAIN, [np.zeros(3), 0.0, [1, 1, 0]], "action_mask is given"),
  (MASKED, [np.zeros(3), 0.0, None], "action_mask=info['action_mask']"),
  (MASKED, [np.zeros(3), 0.0, True], "bool [1, 1]"),
  (MASKED, [np.zeros(3), 0.0, np.zeros(4)], "float64 [1, 4]"),
  (MASKED, [np.zeros(3), 0.0, np.zeros(4, bool)], "without a legal action"),
  (MASKED, [np.zeros(3), 0.0, [1, 2, 0, 0]], "contains 2"),
  (MASKED, [np.zeros(3), 0.0, [1, 0, 0]], "int64 [1, 3]"),
]  # fmt: skip


@pytest.mark.parametrize(("environment", "arguments", "part"), WRONG)
def test_wrong_arguments_are_named_in_one_line(environment, arguments, part):
  with errors.one_line(part):
    make_policy(make_config("dqn", environment))(*arguments)


def test_masks_may_have_the_forms_that_environments_return():
  environment = shaped.config_of(action="multi_discrete", masked=True)
  policy = make_policy(make_config("dqn", environment))
  sizes, random = shaped.SIZES["multi_discrete"], np.random.default_rng(0)
  observation = random.normal(size=(20, 3)).astype(np.float32)
  mask = np.stack([make_mask(sizes, random) for _ in range(20)])
  actions = policy(observation, action_mask=mask)
  parts = tuple(np.split(mask, np.cumsum(sizes)[:-1], axis=1))
  for form in (mask.tolist(), mask.astype(np.int8), parts):
    found = policy(observation, action_mask=form)
    np.testing.assert_array_equal(found, actions)
  for i in range(20):
    own = tuple(part[i] for part in parts)
    for form in (mask[i], own, tuple(part.tolist() for part in own)):
      found = policy(observation[i], action_mask=form)
      np.testing.assert_array_equal(found, actions[i])


def halve(env):
  """A wrapper that changes values, but no shape."""
  space = gymnasium.spaces.Box(-3.0, 3.0, (4,), np.float32)
  return gymnasium.wrappers.TransformObservation(env, lambda x: x / 9, space)


def test_a_policy_with_wrappers_acts_in_its_own_environment(caplog):
  wrappers = {"wrappers": (f"{__name__}:halve",), "time_limit": 7}
  policy = make_policy(make_config("dqn", wrappers))
  with errors.one_line("make_environment", 40.0):
    policy(np.float32([0.0, 40.0, 0.0, 0.0]))
  assert "wrappers" in caplog.text
  environment = policy.make_environment()
  observation, _ = environment.reset(seed=1)
  bare = gymnasium.make("CartPole-v1").reset(seed=1)[0]
  np.testing.assert_array_equal(observation, bare / 9)
  for step in range(1, 8):
    observation, _, terminated, truncated, _ = environment.step(
      policy(observation)
    )
    assert not terminated and truncated == (step == 7)


def test_an_export_may_be_in_the_home_folder(tmp_path, monkeypatch):
  monkeypatch.setenv("HOME", str(tmp_path))
  make_policy(make_config("dqn", {})).export("~/a.onnx")
  assert (tmp_path / "a.onnx").exists()
