"""Tests of behaviour cloning: its batches, and the likelihood of its data."""

import tempfile

import numpy as np
import pytest
import tensorflow as tf

from slipway.agents import policies, recorded_items, registry
from slipway.configs import bc
from slipway.replay.tables import dataset
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


def make_batch(config, spec):
  """Returns the first batch of recorded transitions, as tensors."""
  table, items = recorded_items.collect(
    config, spec, registry.make_builder("bc"), tempfile.gettempdir()
  )
  return table.schema.unpack(tf.constant(items[:BATCH]))[0]


def make_learner(config, spec):
  return registry.make_builder("bc").make_learner(config, spec)


def make_update(learner):
  return tf.function(
    lambda data: learner.update(dataset.Batch(data)), autograph=False
  )


def test_the_loss_is_the_negative_log_likelihood_of_the_actor(recorded_config):
  config, spec = recorded_config
  learner = make_learner(config, spec)
  data = make_batch(config, spec)
  actor = registry.make_builder("bc").make_actor(config, spec, worker=0)
  actor.load(learner.get_variables())
  envs = len(data.o_tm1)
  action, extras = actor.act(
    data.o_tm1.numpy(), np.zeros(envs, np.float32), np.ones(envs, bool)
  )
  loss = make_update(learner)(data._replace(a_tm1=tf.constant(action))).metrics[
    "loss"
  ]
  expected = -extras[policies.LOG_PROB].mean()
  np.testing.assert_allclose(loss, expected, rtol=1e-4)
  update = make_update(learner)
  losses = [update(data).metrics["loss"].numpy() for _ in range(200)]
  assert losses[-1] < losses[0] - 0.1  # the likelihood rises


def test_it_has_no_workers(recorded_config):
  config, spec = recorded_config
  config = config.copy_and_resolve_references()
  config.topology.workers = 1
  with given.one_line(match="config.topology.workers=1"):
    registry.make_builder("bc").check(config, spec)
