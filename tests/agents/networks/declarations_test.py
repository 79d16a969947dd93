"""Tests of policy, value and critic networks, in NumPy and TensorFlow."""

import numpy as np
import pytest
import tensorflow as tf
from acme import specs

from slipway.agents.networks import (
  critic_network,
  initializers,
  layers,
  policy_network,
  tf_network,
  value_network,
)
from slipway.agents.networks import network as network_lib
from tests.environments import given

DISCRETE = given.spec_of()
CONTINUOUS = DISCRETE._replace(
  actions=specs.BoundedArray((2,), np.float32, -1, 1)
)
ORTHOGONAL = initializers.SCHEMES["orthogonal"]
FRAMES = given.spec_of((2, 36, 36), np.uint8)
TORSO = layers.TorsoSettings("mlp", (8, 6))
TANH = TORSO._replace(activation="tanh", scheme=ORTHOGONAL)


def make_policy(kind, spec=CONTINUOUS, settings=TORSO):
  return policy_network.PolicyNetwork(spec, settings, kind)


DECLARATIONS = {
  "categorical": lambda: make_policy("categorical", DISCRETE, TANH),
  "frames": lambda: make_policy(
    "categorical",
    FRAMES,
    layers.TorsoSettings("nature_cnn", (8,), scheme=ORTHOGONAL),
  ),
  "gaussian": lambda: make_policy("gaussian", settings=TANH),
  "tanh_gaussian": lambda: make_policy("tanh_gaussian"),
  "value": lambda: value_network.ValueNetwork(DISCRETE, TANH),
  "deterministic": lambda: make_policy(
    "deterministic", settings=TORSO._replace(layer_norm="first")
  ),
  "critic": lambda: critic_network.CriticNetwork(CONTINUOUS, TORSO),
  "critics": lambda: critic_network.CriticNetwork(
    CONTINUOUS, TORSO._replace(layer_norm="all"), critics=3, outputs=5
  ),
}


def make_inputs(declaration, batch=5):
  random = np.random.default_rng(0)
  return [
    (3 * random.random((batch, *x.shape))).astype(x.dtype)
    for x in declaration.inputs
  ]


@pytest.mark.parametrize("kind", DECLARATIONS)
def test_acting_networks_equal_learning_networks(kind):
  declaration = DECLARATIONS[kind]()
  network = tf_network.Network(declaration, seed=1, name=kind)
  acting = network_lib.make_acting(declaration, name=kind)
  # A learner's variables may include those of other networks.
  acting.load({"other/output/b": np.zeros(1), **network.get_variables()})
  inputs = make_inputs(declaration)
  found = acting(*inputs)
  expected = network(*(tf.constant(x) for x in inputs))
  np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
  assert len(found) == 5 and found.dtype == np.float32
  assert all(name.startswith(f"{kind}/") for name in network.get_variables())


def test_seeds_and_names_decide_initial_values():
  def start(seed, name=""):
    network = tf_network.Network(DECLARATIONS["critic"](), seed, name)
    output = "critic_0/output/w"
    return network.get_variables()[f"{name}/{output}" if name else output]

  np.testing.assert_array_equal(start(1), start(1))
  assert (start(1) != start(2)).any()
  assert (start(1, "critic_0") != start(1, "critic_1")).any()
