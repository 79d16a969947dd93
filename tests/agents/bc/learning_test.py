"""Tests of behaviour cloning: its batches, and the likelihood of its data."""

import numpy as np
import pytest
import tensorflow as tf

from slipway.agents import policies, registry
from slipway.configs import bc
from slipway.environments import recordings
from slipway.replay.tables import dataset
from tests.agents import collected
from tests.environments import given, recorded

BATCH = 16


@pytest.fixture(scope="module", params=["CartPole-v1", "Pendulum-v1"])
def recorded_config(request, tmp_path_factory):
  """Config with a recording, and the spec of the recorded environment."""
  config = bc.get_config()
  config.environment.name = request.param
  config.dataset.path = str(tmp_path_factory.mktemp("bc") / "recorded")
  # 210 steps are more than an episode of Pendulum-v1, which has 200.
  spec = recorded.record(config.dataset.path, request.param, steps=210)
  config.network.hidden_sizes = (16,)
  config.learner.update({"batch_size": BATCH, "learning_rate": 0.01})
  return config, spec


def make_batches(config, spec):
  return registry.make_builder("bc").make_batches(config, spec)


def make_learner(config, spec):
  return registry.make_builder("bc").make_learner(config, spec)


def make_update(learner):
  function = tf.function(
    lambda data: learner.update(dataset.Batch(data)), autograph=False
  )
  return lambda data: function(tf.nest.map_structure(tf.constant, data))


def test_an_epoch_has_each_recorded_step_once(recorded_config):
  config, spec = recorded_config
  episodes = recordings.read(config.dataset.path, spec)
  pairs, start = set(), 0
  for e, length in enumerate(episodes.lengths):
    for i in range(start, start + length):
      observation = episodes.observations[i + e].tobytes()
      pairs.add((observation, episodes.actions[i].tobytes()))
    start += length
  batches = make_batches(config, spec)
  per_epoch = len(episodes.actions) // BATCH
  orders = []
  for epoch in range(2):
    found = [
      (observation.tobytes(), action.tobytes())
      for step in range(epoch * per_epoch, (epoch + 1) * per_epoch)
      for observation, action in zip(*batches.batch(step), strict=True)
    ]
    assert len(found) == len(set(found)) == per_epoch * BATCH
    assert set(found) <= pairs
    orders.append(found)
  assert orders[0] != orders[1]


def test_a_batch_depends_on_its_step_only(recorded_config):
  config, spec = recorded_config
  batches, steps = make_batches(config, spec), [0, 40, 3, 41]
  expected = {step: batches.batch(step) for step in range(42)}
  later = make_batches(config, spec)
  for step in steps:
    for found, wanted in zip(later.batch(step), expected[step], strict=True):
      np.testing.assert_array_equal(found, wanted)


def test_the_loss_is_the_negative_log_likelihood_of_the_actor(recorded_config):
  config, spec = recorded_config
  learner = make_learner(config, spec)
  data = make_batches(config, spec).batch(0)
  actor = registry.make_builder("bc").make_actor(config, spec, worker=0)
  actor.load(learner.get_variables())
  envs = len(data.observation)
  action, extras = actor.act(
    data.observation, np.zeros(envs, np.float32), np.ones(envs, bool)
  )
  loss = make_update(learner)(data._replace(action=action)).metrics["loss"]
  expected = -extras[policies.LOG_PROB].mean()
  np.testing.assert_allclose(loss, expected, rtol=1e-4)
  update = make_update(learner)
  losses = [update(data).metrics["loss"].numpy() for _ in range(200)]
  assert losses[-1] < losses[0] - 0.1  # the likelihood rises


def test_a_resumed_learner_continues_equally(recorded_config, tmp_path):
  config, spec = recorded_config
  first, second = (make_learner(config, spec) for _ in range(2))
  batches = make_batches(config, spec)
  update = make_update(first)
  for step in range(3):
    update(batches.batch(step))
  collected.restore(first, second, tmp_path)
  second_update, later = make_update(second), make_batches(config, spec)
  for _ in range(3):
    update(batches.batch(int(first.steps)))
    second_update(later.batch(int(second.steps)))
  found, expected = map(collected.get_values, (second, first))
  for name, value in expected.items():
    np.testing.assert_array_equal(found[name], value, err_msg=name)


def test_a_folder_with_too_few_steps_is_rejected_in_one_line(recorded_config):
  config, spec = recorded_config
  config = config.copy_and_resolve_references()
  config.learner.batch_size = 10_000
  line = "fewer than config.learner.batch_size=10000"
  with given.one_line(match=line):
    registry.make_builder("bc").check(config, spec)


def test_it_has_no_workers(recorded_config):
  builder = registry.make_builder("bc")
  assert builder.make_table(*recorded_config) is None
  with pytest.raises(TypeError, match="no workers"):
    builder.make_adder(*recorded_config)
