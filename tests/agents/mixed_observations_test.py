"""Tests of observations that are not all numbers of one kind.

They have images beside numbers, or action masks: what is normalized, and what
passes convolutions.
"""

import numpy as np
import pytest

from slipway.agents import normalizer, policies, registry
from slipway.agents.networks import layers as layers_lib
from slipway.agents.networks import normalization, torsos
from slipway.configs import catalog, fields
from slipway.environments import arrays, factory, spaces
from tests.agents import collected
from tests.environments import shaped

CONFIGS = catalog.algorithms()
MIXED = ("small_image_and_numbers", "images_and_numbers")
# Number of values that belong to no image: one-hot goal and joints; joints.
NUMBERS = {"small_image_and_numbers": 5, "images_and_numbers": 2, "vector": 3}


def make_config(name, normalized=True, **kwargs):
  config = CONFIGS[name].get_config("cartpole")
  config.network.hidden_sizes = (16, 16)
  config.topology.environments_per_worker = 4
  config.normalization.observations = normalized
  config.learner.batch_size = 8
  if name == "ppo":
    config.learner.update({"epochs": 2, "batch_size": 4, "minibatch_size": 8})
    config.adder.unroll = 8
  config.environment.update(shaped.config_of(**kwargs))
  return config


@pytest.mark.parametrize("observation", MIXED)
def test_numbers_come_before_pixels(observation):
  config = make_config("dqn", observation=observation)
  space = shaped.OBSERVATIONS[observation]
  environment = factory.make(config.environment, 2, 0)
  spec = environment.spec.observations
  assert isinstance(spec, arrays.MixedArray)
  assert spec.numbers == NUMBERS[observation]
  assert spec.images == tuple(
    part.shape for part in space.spaces.values() if part.dtype == np.uint8
  )
  found = environment.reset().observation
  assert found.shape == (2, *spec.shape)
  pixels = found[:, spec.numbers :]
  assert pixels.min() >= 0 and pixels.max() > 200
  parts = spaces.split(space, found)
  np.testing.assert_array_equal(
    parts["camera"], found[:, next(spec.image_slices())[0]]
  )
  assert np.abs(parts["joints"]).max() > 10
  assert parts["joints"].shape == (2, 2)
  environment.close()


def test_each_image_has_convolutions_of_its_size():
  config = make_config("ppo", observation="images_and_numbers")
  spec = factory.make_spec(config.environment)
  settings = layers_lib.TorsoSettings.from_config(config.network)
  # The Nature CNN leaves 64 x 1 x 2 features of 40 x 48 pixels; two pixels of
  # depth have no convolutions.
  size = torsos.count_features(settings, spec.observations)
  assert size == 2 + 64 * 1 * 2 + 2
  config = make_config("ppo", observation="small_image_and_numbers")
  spec = factory.make_spec(config.environment)
  size = torsos.count_features(settings, spec.observations)
  assert size == 5 + 16 * 7 * 5


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("observation", MIXED)
@pytest.mark.parametrize("name", ["dqn", "r2d2", "muzero", "ppo", "sac"])
def test_algorithms_learn_from_them(name, observation, masked):
  config = make_config(name, observation=observation, masked=masked)
  spec = factory.make_spec(config.environment)
  builder = registry.make_builder(config.agent)
  fields.validate(config, builder.fields)
  builder.check(config, spec)
  learner = builder.make_learner(config, spec)
  items = builder.make_table(config, spec).batch_size
  batch = collected.collect_batch(config, learner.get_variables(), items)
  metrics, _ = learner.update(batch)
  assert all(np.isfinite(float(x)) for x in metrics.values())


@pytest.mark.parametrize("observation", [*MIXED, "vector"])
@pytest.mark.parametrize("name", ["dqn", "ppo", "sac"])
def test_numbers_alone_are_normalized(name, observation):
  config = make_config(name, observation=observation, masked=True)
  spec = factory.make_spec(config.environment)
  numbers = NUMBERS[observation]
  normalize = normalizer.Normalizer(config, spec, policies.POLICY)
  random = np.random.default_rng(0)
  values = random.normal(50.0, 9.0, (64, *spec.observations.shape))
  normalize.add_observations(values.astype(np.float32))
  found = normalize.normalize_observations(values.astype(np.float32)).numpy()
  np.testing.assert_allclose(found[:, :numbers].mean(0), 0.0, atol=1e-4)
  np.testing.assert_allclose(found[:, :numbers].std(0), 1.0, rtol=1e-4)
  np.testing.assert_allclose(found[:, numbers:], values[:, numbers:], rtol=1e-6)
  # Batches of sequences, too.
  sequences = normalize.normalize_observations(
    values.reshape(8, 8, -1).astype(np.float32)
  )
  np.testing.assert_array_equal(np.reshape(sequences, found.shape), found)
  variables = normalize.get_variables()
  mean = variables[f"{policies.POLICY}/{normalization.MEAN}"]
  np.testing.assert_allclose(mean, values[:, :numbers].mean(0), rtol=1e-5)


@pytest.mark.parametrize("observation", [*MIXED, "vector"])
def test_an_acting_network_equals_the_learning_one(observation):
  config = make_config("ppo", observation=observation, masked=True)
  spec = factory.make_spec(config.environment)
  builder = registry.make_builder(config.agent)
  learner = builder.make_learner(config, spec)
  batch = collected.collect_batch(config, learner.get_variables(), 4)
  learner.update(batch)
  actor = builder.make_greedy_actor(config, spec)
  actor.load(learner.get_variables())
  normalize = normalizer.Normalizer(config, spec)
  normalize.add_observations(batch.data.observation[:, :-1])
  seen = batch.data.observation.numpy().reshape(-1, *spec.observations.shape)
  outputs = learner.checkpointed["policy"](
    normalize.normalize_observations(seen)
  ).numpy()
  count = len(seen)
  action = actor.act(
    seen, np.zeros(count, np.float32), np.zeros(count, bool)
  ).action
  np.testing.assert_array_equal(action, outputs.argmax(1))


def test_a_torso_for_larger_images_is_rejected_in_one_line():
  config = make_config("ppo", observation="small_image_and_numbers")
  config.network.torso = "nature_cnn"
  builder = registry.make_builder(config.agent)
  with pytest.raises(ValueError, match=r">= 36.*\[9, 7, 3\]") as caught:
    builder.check(config, factory.make_spec(config.environment))
  assert "\n" not in str(caught.value)
