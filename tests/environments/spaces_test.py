"""Tests of spaces: observation parts, action components, and masks."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from slipway.environments import (
  arrays,
  checked,
  conversion,
  factory,
  masks,
  specs,
)
from slipway.environments import spaces as spaces_lib
from tests.environments import given, shaped

BATCH = 3
DISCRETE = spaces.Discrete(3)


def read_batch(space, values):
  """Converts a batch from the form of gymnasium's vector environments."""
  batch = gymnasium.vector.utils.create_empty_array(space, len(values))
  batch = gymnasium.vector.utils.concatenate(space, values, batch)
  spec = specs.make_spec("Own-v0", space, DISCRETE).observations
  read = conversion.make_observation_converter_to_spec(
    space, spec.dtype, copy=True
  )
  read_values = read(batch)
  assert read_values.dtype == spec.dtype
  assert read_values.shape == (len(values), *spec.shape)
  return read_values


@pytest.mark.parametrize(
  "name", ["parts", "tuple", "multi_discrete", "multi_binary"]
)
def test_parts_are_flattened_as_in_gymnasium(name):
  space = shaped.OBSERVATIONS[name]
  values = [space.sample() for _ in range(BATCH)]
  expected = np.stack([spaces.flatten(space, value) for value in values])
  np.testing.assert_array_equal(
    read_batch(space, values), expected.astype(np.float32)
  )


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.uint32, np.uint64])
def test_discrete_observations_of_every_integer_type(dtype):
  one = spaces.Discrete(3, start=dtype(2), dtype=dtype)
  several = spaces.MultiDiscrete([2, 4], dtype=dtype, start=[1, 5])
  values = [dtype(4), dtype(2), dtype(3)]
  expected = [[0, 0, 1], [1, 0, 0], [0, 1, 0]]
  np.testing.assert_array_equal(read_batch(one, values), expected)
  values = [np.array([2, 5], dtype), np.array([1, 8], dtype)]
  expected = [[0, 1, 1, 0, 0, 0], [1, 0, 0, 0, 0, 1]]
  np.testing.assert_array_equal(read_batch(several, values), expected)
  with pytest.raises(
    checked.EnvironmentFault, match=r"observation 1 is not in"
  ):
    read_batch(one, [dtype(1)])


def test_a_torso_gets_the_parts_by_key():
  space = shaped.OBSERVATIONS["parts"]
  values = [space.sample() for _ in range(BATCH)]
  parts = spaces_lib.split(space, read_batch(space, values))
  positions = np.stack([value["position"].reshape(-1) for value in values])
  np.testing.assert_array_equal(parts["position"], positions.astype(np.float32))
  goals = (
    parts["goal"].argmax(axis=1) - 1
  )  # the values of the space start at -1
  np.testing.assert_array_equal(goals, [value["goal"] for value in values])
  bits = [value["pair"][0] for value in values]
  np.testing.assert_array_equal(parts["pair"][0], bits)
  assert parts["pair"][1].shape == (BATCH, 5)
  with pytest.raises(ValueError, match=r"are \[B, 14\], so there are no parts"):
    spaces_lib.split(space, np.zeros((BATCH, 13)))


def test_a_single_part_is_the_observation():
  space = shaped.OBSERVATIONS["inner_image"]
  values = [space.sample() for _ in range(BATCH)]
  found = read_batch(space, values)
  assert found.dtype == np.uint8
  np.testing.assert_array_equal(found, [value["camera"] for value in values])


@pytest.mark.parametrize("action", shaped.ACTIONS)
@pytest.mark.parametrize("masked", [False, True])
def test_the_environment_gets_actions_of_its_space(action, masked):
  """The environment raises an error for each illegal action."""
  config = shaped.config_of(observation="parts", action=action, masked=masked)
  environment = factory.make(config, BATCH, seed=0)
  random, step = np.random.default_rng(0), environment.reset()
  for _ in range(30):
    actions = environment.sample_actions(step.observation, random)
    assert actions.dtype == environment.spec.actions.dtype
    assert actions.shape == (BATCH, *environment.spec.actions.shape)
    step = environment.step(actions)
    environment.spec.observations.validate(step.observation[0])
  environment.close()


@pytest.mark.parametrize("action", ["multi_discrete", "multi_binary"])
def test_joint_actions_are_converted_to_their_components(action):
  sizes = shaped.SIZES[action]
  joint = arrays.JointActionArray(sizes)
  write = conversion.make_action_converter_to_space(shaped.ACTIONS[action])
  expected = list(np.ndindex(*sizes))
  assert joint.num_values == len(expected)
  np.testing.assert_array_equal(joint.components, expected)
  own = write(np.arange(len(expected)))
  np.testing.assert_array_equal(own, write(np.array(expected)))
  back = conversion.convert_actions_to_spec(shaped.ACTIONS[action], own)
  np.testing.assert_array_equal(back, expected)
  assert all(map(shaped.ACTIONS[action].contains, own))


def test_masks_belong_to_their_observations():
  config = shaped.config_of(observation="parts", masked=True)
  environment = factory.make(config, 1, seed=0)
  spec = environment.spec.observations
  raw = shaped.Shaped(observation="parts", masked=True)
  step = environment.reset()
  info = raw.reset(seed=environment._envs.envs[0].seed)[1]
  for i in range(1, 8):
    _, mask = spec.split(step.observation)
    # After a termination no action has an effect, so all count as legal.
    expected = info["action_mask"] if i != 6 else np.ones(4, bool)
    np.testing.assert_array_equal(mask[0], expected)
    action = int(np.argmax(mask[0]))
    step = environment.step(np.array([action]))
    info = raw.reset()[1] if i == 6 else raw.step(action + 2)[4]
  environment.close()


def make_class(info):
  """Returns an environment class whose steps return a given info."""

  class Own(shaped.Shaped):
    def step(self, action):
      return *super().step(action)[:4], info

  return Own


@pytest.mark.parametrize(
  ("info", "message"),
  [
    ({}, "step() returned no info['action_mask'], though"),
    (None, "no info['action_mask'], though"),
    ({"action_mask": [1, 1, 1, 1]}, "that is list: return a NumPy array"),
    ({"action_mask": np.ones(3, bool)}, "bool [3]: return a NumPy array"),
    ({"action_mask": np.ones((1, 4), bool)}, "bool [1, 4]: return a NumPy"),
    ({"action_mask": np.ones(4)}, "float64 [4]: return a NumPy array"),
    ({"action_mask": np.full(4, 2)}, "contains 2: give 1 for legal"),
    ({"action_mask": np.zeros(4, int)}, "without a legal action, though"),
  ],
)
def test_an_invalid_mask_is_one_line(info, message):
  with given.registered("Own-v0", make_class(info), disable_env_checker=True):
    config = given.config_of("Own-v0", masked=True)
    config.action_mask = True
    environment = factory.make(config, 2, seed=0)
    step, random = environment.reset(), np.random.default_rng(0)
    with given.one_line(checked.EnvironmentFailedError) as caught:
      environment.step(environment.sample_actions(step.observation, random))
    environment.close()
  assert caught.value.index == 0
  assert message in caught.value.line


def test_a_component_without_a_legal_value_is_an_error():
  reader = masks.MaskReader(spaces.MultiDiscrete([2, 3]))
  batch = np.array([[1, 1, 0, 1, 0], [1, 0, 0, 0, 0]], np.int8)
  with pytest.raises(masks.InvalidMaskError, match="for component 1") as caught:
    reader.read_batch({"action_mask": batch}, np.array([False, False]))
  assert caught.value.index == 1
  ended = reader.read_batch({"action_mask": batch}, np.array([False, True]))
  np.testing.assert_array_equal(ended, [[1, 1, 0, 1, 0], [1] * 5])


@pytest.mark.parametrize(
  "mask",
  [
    (),
    (np.ones(2, bool),),
    (np.ones(3, bool), np.ones(2, bool)),  # of the right length in total
    (np.bool_(True), np.ones(3, bool)),
    (np.ones((1, 2), bool), np.ones(3, bool)),
    (None, np.ones(3, bool)),
    ([[1], [1, 1]], np.ones(3, bool)),
  ],
)
def test_a_malformed_tuple_of_masks_is_one_line(mask):
  reader = masks.MaskReader(spaces.MultiDiscrete([2, 3]))
  whole = (np.array([True, False]), np.ones(3, bool))
  found = reader.read_one(1, {"action_mask": whole}, False)["action_mask"]
  assert found.tolist() == [True, False, True, True, True]
  with given.one_line(masks.InvalidMaskError, match="lengths 2, 3") as caught:
    reader.read_one(1, {"action_mask": mask}, False)
  assert caught.value.index == 1


def test_masks_of_vector_environments():
  reader = masks.MaskReader(spaces.Discrete(2))
  batch = np.array([[True, False], [False, False]])
  infos = {"action_mask": batch, "_action_mask": np.array([True, False])}
  found = reader.read_batch(infos, np.array([False, True]))
  np.testing.assert_array_equal(found, [[True, False], [True, True]])
  with pytest.raises(masks.InvalidMaskError, match="no info") as caught:
    reader.read_batch(infos, np.array([False, False]))
  assert caught.value.index == 1
  with pytest.raises(masks.InvalidMaskError, match="no infos"):
    reader.read_batch({}, np.array([False, False]))
  with pytest.raises(masks.InvalidMaskError, match=r"bool \[1, 2\]"):
    reader.read_batch({"action_mask": batch[:1]}, np.array([False, False]))


class Short(shaped.Shaped):
  """Environment whose steps return observations without one part."""

  def step(self, action):
    observation, *others = super().step(action)
    del observation["pair"]
    return observation, *others


def test_a_missing_part_is_an_error():
  with given.registered("Short-v0", Short, disable_env_checker=True):
    config = given.config_of("Short-v0", observation="parts")
    with pytest.raises(checked.EnvironmentFailedError) as caught:
      factory.make_spec(config)
  line = caught.value.line
  assert "an observation without observation['pair'][0] (KeyError" in line
  assert "\n" not in line
