"""Tests of image augmentation: random shifts of images, and their seeds."""

import math

import gymnasium
import numpy as np
import pytest
import tensorflow as tf

from slipway.agents import augmentation, normalizer, registry
from slipway.agents.networks import torsos
from slipway.configs import catalog, fields
from slipway.environments import arrays, factory
from slipway.replay.items import transitions
from tests.agents import collected
from tests.environments import given, shaped

SEED = tf.constant((5, 7))
PIXELS = 2

# Shape of an image, and its axes of height and width.
SHAPES = {
  (6, 7): (0, 1),
  (6, 9, 3): (0, 1),
  (3, 6, 9): (1, 2),
  (2, 6, 9, 3): (1, 2),
  (2, 3, 6, 9): (2, 3),
}


def shift(images, spec, seed=SEED, pixels=PIXELS):
  found = augmentation.random_shift(tf.constant(images), spec, pixels, seed)
  assert found.dtype == images.dtype and found.shape == images.shape
  return found.numpy()


def find_shift(image, shifted, axes, pixels=PIXELS):
  """Returns the shift by which one image became the other, or fails."""
  padding = [(pixels if i in axes else 0,) * 2 for i in range(image.ndim)]
  padded = np.pad(image, padding, mode="edge")
  found = []
  for offset in np.ndindex(2 * pixels + 1, 2 * pixels + 1):
    place = [slice(None)] * image.ndim
    for axis, start in zip(axes, offset, strict=True):
      place[axis] = slice(start, start + image.shape[axis])
    if (padded[tuple(place)] == shifted).all():
      found.append(offset)
  (only,) = found
  return only


def make_images(shape, dtype=np.uint8, batch=20):
  random = np.random.default_rng(0)
  return random.integers(0, 256, (batch, *shape)).astype(dtype)


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("shape", SHAPES)
def test_each_image_has_a_shift_of_its_own(shape, dtype):
  images, spec = make_images(shape, dtype), given.spec_of(shape).observations
  shifted = shift(images, spec)
  offsets = [
    find_shift(*pair, SHAPES[shape])
    for pair in zip(images, shifted, strict=True)
  ]
  assert len(set(offsets)) > 10
  np.testing.assert_array_equal(shift(images, spec), shifted)
  assert (shift(images, spec, tf.constant((5, 8))) != shifted).any()


def test_all_shifts_are_equally_probable():
  images = make_images((8, 8), batch=5_000)
  shifted = shift(images, given.spec_of((8, 8)).observations, pixels=1)
  counts = np.zeros((3, 3))
  for pair in zip(images, shifted, strict=True):
    counts[find_shift(*pair, (0, 1), pixels=1)] += 1
  # Five standard deviations.
  expected = len(images) / 9
  assert np.abs(counts - expected).max() < 5 * math.sqrt(expected)


def test_steps_of_sequences_are_shifted_too():
  sequences = make_images((6, 9, 3)).reshape(4, 5, 6, 9, 3)
  spec = given.spec_of((6, 9, 3)).observations
  shifted = shift(sequences, spec).reshape(20, 6, 9, 3)
  np.testing.assert_array_equal(shifted, shift(make_images((6, 9, 3)), spec))


def test_numbers_and_masks_are_not_shifted():
  spec = arrays.MaskedArray(arrays.MixedArray(3, [(6, 7), (3, 8, 8)]), 4)
  values = make_images(spec.shape, np.float32)
  shifted = shift(values, spec)
  np.testing.assert_array_equal(shifted[:, :3], values[:, :3])
  np.testing.assert_array_equal(shifted[:, -4:], values[:, -4:])
  for before, after in zip(values, shifted, strict=True):
    first = [x[3:45].reshape(6, 7) for x in (before, after)]
    second = [x[45:-4].reshape(3, 8, 8) for x in (before, after)]
    assert find_shift(*first, (0, 1)) == find_shift(*second, (1, 2))


class Pixels(gymnasium.Env):
  """Random images and continuous actions."""

  observation_space = gymnasium.spaces.Box(0, 255, (3, 40, 48), np.uint8)
  action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,))

  def reset(self, *, seed=None, options=None):
    super().reset(seed=seed)
    return self._look(), {}

  def step(self, action):
    return (
      self._look(),
      float(action[0]),
      self.np_random.random() < 0.1,
      False,
      {},
    )

  def _look(self):
    return self.np_random.integers(0, 256, (3, 40, 48), np.uint8)


def make_config(name, environment=None, **kwargs):
  config = catalog.algorithms()[name].get_config()
  config.network.update({"torso": "nature_cnn", "hidden_sizes": (16,)})
  config.topology.environments_per_worker = 4
  config.learner.update({"batch_size": 8, "random_shift": PIXELS})
  kwargs = kwargs or {"observation": "chw"}
  config.environment.update(environment or shaped.config_of(**kwargs))
  return config


def test_observations_before_and_after_a_step_have_different_shifts():
  config = make_config("dqn")
  spec = factory.make_spec(config.environment)
  normalize = normalizer.Normalizer(config, spec)
  images = make_images(spec.observations.shape)
  batch = transitions.Transition(images, None, None, None, images)
  data = normalize.normalize_transitions(batch, seed=SEED)
  assert (data.o_tm1 != data.o_t).numpy().any(axis=(1, 2, 3)).sum() > 15
  for observation in (data.o_tm1, data.o_t):
    for pair in zip(images, observation.numpy(), strict=True):
      find_shift(*pair, (1, 2))


@pytest.mark.parametrize("name", ["dqn", "c51", "sac", "td3", "mpo"])
def test_learners_shift_by_seed_and_update(name):
  environment = None
  if name in ("td3", "mpo"):
    environment = given.config_of(f"{__name__}:Pixels")
  config = make_config(name, environment)
  if name == "mpo":
    config.learner.critic_target = "retrace"
  builder, spec = collected.build(config)
  fields.validate(config, builder.fields)
  builder.check(config, spec)
  learner, same = (collected.make_learner(config) for _ in range(2))
  config.learner.random_shift = 0
  without = collected.make_learner(config)
  items = builder.make_table(config, spec).batch_size
  batch = collected.collect_batch(config, learner.get_variables(), items)
  for _ in range(2):
    for each in (learner, same, without):
      metrics = each.update(batch).metrics
      assert all(np.isfinite(x) for x in metrics.values())
  wanted = collected.get_values(learner)
  for key, value in collected.get_values(same).items():
    np.testing.assert_array_equal(value, wanted[key])
  others = collected.get_values(without)
  assert any((others[key] != value).any() for key, value in wanted.items())


@pytest.mark.parametrize(
  ("observation", "torso"), [("vector", "mlp"), ("chw", "mlp")]
)
def test_what_is_no_image_is_one_line(observation, torso):
  config = make_config("dqn", observation=observation)
  config.network.torso = torso
  builder = registry.make_builder(config.agent)
  with given.one_line(match="config.learner.random_shift=2 shifts images"):
    builder.check(config, factory.make_spec(config.environment))


def test_images_next_to_numbers_are_accepted():
  config = make_config("sac", observation="small_image_and_numbers")
  config.network.torso = "mlp"
  torsos.check_shift(config, factory.make_spec(config.environment))
