"""Tests of recurrent networks: unrolled, step by step, and in NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from slipway.agents import policies
from slipway.agents.networks import network as network_lib
from slipway.agents.networks import recurrent, recurrent_q_network, tf_network
from slipway.configs import ppo, r2d2
from tests.environments import given

BATCH, STEPS, ACTIONS = 5, 9, 3


def make_config(torso="mlp", hidden_sizes=(8, 6), dueling=True):
  config = r2d2.get_config().network
  config.update(
    {
      "torso": torso,
      "hidden_sizes": hidden_sizes,
      "dueling": dueling,
      "lstm_size": 7,
    }
  )
  return config


def make_network(config, spec):
  declaration = recurrent_q_network.RecurrentQNetwork(config, spec)
  network = tf_network.Network(declaration, seed=0)
  random = np.random.default_rng(0)
  for variable in network.variables:
    if len(variable.shape) == 1:
      variable.assign(random.normal(size=variable.shape))
  return declaration, network


def make_inputs(shape, dtype, first):
  random = np.random.default_rng(1)
  return recurrent.Inputs(
    tf.constant(random.integers(0, 3, (BATCH, STEPS, *shape)).astype(dtype)),
    tf.constant(random.integers(0, ACTIONS, (BATCH, STEPS)), tf.int32),
    tf.constant(random.normal(size=(BATCH, STEPS)), tf.float32),
    tf.constant(first),
  )


def make_first():
  first = np.random.default_rng(2).random((BATCH, STEPS)) < 0.3
  first[0], first[1, 0] = False, True
  return first


@pytest.mark.parametrize(
  ("torso", "sizes", "shape", "dtype", "dueling"),
  [
    ("mlp", (8, 6), (4,), np.float32, False),
    ("mlp", (6,), (2, 3), np.float32, True),
    ("minatar_cnn", (8, 6), (6, 5, 2), np.uint8, True),
    ("nature_cnn", (8, 6), (1, 36, 36), np.uint8, False),
  ],
)
def test_acting_step_by_step_equals_the_unroll(
  torso, sizes, shape, dtype, dueling
):
  config = make_config(torso, sizes, dueling)
  spec = given.spec_of(shape, dtype, ACTIONS)
  declaration, network = make_network(config, spec)
  inputs = make_inputs(shape, dtype, make_first())
  state = np.random.default_rng(3).normal(size=(BATCH, 14)).astype(np.float32)
  values, after = declaration.unroll(network.layers, inputs, tf.constant(state))
  acting = network_lib.make_acting(declaration)
  acting.load(network.get_variables())
  for t in range(STEPS):
    found, state = acting(*(x.numpy()[:, t] for x in inputs), state)
    np.testing.assert_allclose(found, values[:, t], rtol=1e-4, atol=1e-4)
  np.testing.assert_allclose(state, after, rtol=1e-4, atol=1e-4)


def test_a_burn_in_and_the_rest_equal_the_whole():
  spec = given.spec_of((4,), np.float32, ACTIONS)
  declaration, network = make_network(make_config(), spec)
  inputs = make_inputs((4,), np.float32, make_first())
  state = tf.random.stateless_normal((BATCH, 14), (0, 1))
  whole, after = declaration.unroll(network.layers, inputs, state)
  for at in range(1, STEPS):
    early = recurrent.Inputs(*(x[:, :at] for x in inputs))
    late = recurrent.Inputs(*(x[:, at:] for x in inputs))
    _, middle = declaration.unroll(network.layers, early, state)
    values, end = declaration.unroll(network.layers, late, middle)
    np.testing.assert_allclose(values, whole[:, at:], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(end, after, rtol=1e-5, atol=1e-5)


def test_an_episode_does_not_depend_on_the_one_before():
  spec = given.spec_of((4,), np.float32, ACTIONS)
  declaration, network = make_network(make_config(), spec)
  first = np.zeros((BATCH, STEPS), bool)
  first[:, 4] = True
  one = make_inputs((4,), np.float32, first)
  # Changes all earlier steps, and the action and reward before the episode.
  other = recurrent.Inputs(
    tf.concat([one.observation[:, :4] + 1.0, one.observation[:, 4:]], 1),
    tf.concat(
      [(one.action_before[:, :5] + 1) % 3, one.action_before[:, 5:]], 1
    ),
    tf.concat([one.reward_before[:, :5] + 1.0, one.reward_before[:, 5:]], 1),
    one.first,
  )
  zeros, ones = tf.zeros((BATCH, 14)), tf.ones((BATCH, 14))
  a, after_a = declaration.unroll(network.layers, one, zeros)
  b, after_b = declaration.unroll(network.layers, other, ones)
  assert (a[:, :4] != b[:, :4]).numpy().any()
  np.testing.assert_allclose(a[:, 4:], b[:, 4:], rtol=1e-6)
  np.testing.assert_allclose(after_a, after_b, rtol=1e-6)


@pytest.mark.parametrize("shared", [True, False])
def test_a_worker_stores_the_state_that_continues_policy_and_values(shared):
  config = ppo.get_config().network
  config.update({"hidden_sizes": (8,), "lstm_size": 7, "shared": shared})
  spec = given.spec_of((4,), np.float32, ACTIONS)
  learner, worker = (
    policies.make_recurrent_policy(config, spec, role=role)
    for role in ("learner", "worker")
  )
  network = tf_network.Network(learner, seed=0)
  inputs = make_inputs((4,), np.float32, make_first())
  size = learner.inputs[-1].shape[0]
  assert size == (14 if shared else 28)
  state = np.random.default_rng(3).normal(size=(BATCH, size))
  state = state.astype(np.float32)
  outputs = learner.unroll(network.layers, inputs, tf.constant(state))
  parameters, values = (tf.reshape(x, (BATCH, STEPS, -1)) for x in outputs)
  acting = network_lib.make_acting(worker)
  acting.load(network.get_variables())
  for t in range(STEPS):
    late = recurrent.Inputs(*(x[:, t:] for x in inputs))
    outputs = learner.unroll(network.layers, late, tf.constant(state))
    for found, whole in zip(outputs, (parameters, values), strict=True):
      expected = tf.reshape(whole[:, t:], found.shape)
      np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    acted, state = acting(*(x.numpy()[:, t] for x in inputs), state)
    np.testing.assert_allclose(acted, parameters[:, t], rtol=1e-4, atol=1e-5)
