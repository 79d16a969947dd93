"""Tests of ONNX graphs: onnxruntime chooses the actions of Slipway's actors."""

import types

import gymnasium
import numpy as np
import onnxruntime
import pytest
import tensorflow as tf
from acme import specs

from slipway.agents.networks import (
  initializers,
  layers,
  numpy_ops,
  onnx_export,
  policy_network,
  q_network,
  recurrent_q_network,
  tf_network,
  tf_ops,
)
from slipway.agents.networks import network as network_lib
from slipway.configs import dqn, r2d2
from slipway.environments import conversion
from tests.environments import given

_BATCHES = (1, 5)


def run(path, declaration, variables, inputs, convert=None):
  path = str(path / "a.onnx")
  convert = convert or (lambda ops, outputs: outputs)
  onnx_export.export(path, declaration, variables, convert, {"agent": "a"})
  session = onnxruntime.InferenceSession(path)
  names = [x.name for x in session.get_inputs()]
  assert names[0] == "observation"
  assert session.get_modelmeta().custom_metadata_map == {"agent": "a"}
  outputs = [x.name for x in session.get_outputs()]
  values = session.run(outputs, dict(zip(names, inputs, strict=True)))
  return dict(zip(outputs, values, strict=True))


class Values:
  """A Q-network whose exported model returns values in place of actions."""

  def __init__(self, declaration):
    self.inputs, self._declaration = declaration.inputs, declaration

  def __call__(self, *args):
    return self._declaration(*args)

  def greedy(self, ops, outputs):
    return {"values": outputs.values}


def make_variables(declaration, seed=0):
  random = np.random.default_rng(seed)
  return {
    name: random.normal(0, 0.2, shape).astype(np.float32)
    for name, shape in network_lib.variable_shapes(declaration).items()
  }


def make_inputs(declaration, batch, seed=0):
  random = np.random.default_rng(seed)
  made = []
  for spec in declaration.inputs:
    shape = (batch, *spec.shape)
    if spec.dtype == np.uint8:
      made.append(random.integers(0, 256, shape, np.uint8))
    elif spec.dtype == bool:
      made.append(random.random(shape) < 0.5)
    elif spec.dtype == np.int32:
      made.append(random.integers(0, 3, shape, np.int32))
    else:
      made.append(random.normal(size=shape).astype(spec.dtype))
  return made


def make_q_network(shape=(4,), dtype=np.float32, **fields):
  config = dqn.get_config().network
  config.update(fields)
  return q_network.QNetwork(config, given.spec_of(shape, dtype))


def recurrent():
  config = r2d2.get_config().network
  config.update({"hidden_sizes": (8, 8), "core_size": 6, "torso": "mlp"})
  return recurrent_q_network.RecurrentQNetwork(config, given.spec_of())


def policy(kind, activation="tanh"):
  spec = given.spec_of()
  if kind != "categorical":
    spec = spec._replace(
      actions=specs.BoundedArray((2,), np.float32, -1.0, 1.0)
    )
  scheme = initializers.SCHEMES["orthogonal"]
  settings = layers.TorsoSettings("mlp", (16,), activation, scheme)
  return policy_network.PolicyNetwork(spec, settings, kind)


_DECLARATIONS = {
  "expected": make_q_network,
  "dueling": lambda: make_q_network(dueling=True),
  "noisy": lambda: make_q_network(noisy=True),
  "layer_norm": lambda: make_q_network(dueling=True, layer_norm="all"),
  "categorical": lambda: make_q_network(head="categorical"),
  "quantile": lambda: make_q_network(head="quantile", dueling=True),
  "implicit_quantile": lambda: make_q_network(head="implicit_quantile"),
  "minatar_cnn": lambda: make_q_network(
    (10, 10, 4), np.uint8, torso="minatar_cnn"
  ),
  "recurrent": recurrent,
  "policy": lambda: policy("categorical"),
  "gaussian": lambda: policy("gaussian"),
  "tanh_gaussian": lambda: policy("tanh_gaussian", "relu"),
}


@pytest.mark.parametrize("name", _DECLARATIONS)
def test_a_graph_acts_as_the_network(name, tmp_path):
  declaration = _DECLARATIONS[name]()
  variables = make_variables(declaration)
  acting = network_lib.make_acting(declaration)
  acting.load(variables)
  for batch in _BATCHES:
    inputs = make_inputs(declaration, batch)
    wanted = declaration.greedy(numpy_ops, acting(*inputs))
    found = run(tmp_path, declaration, variables, inputs)
    assert found.keys() == wanted.keys()
    for key, value in wanted.items():
      assert found[key].shape == value.shape
      np.testing.assert_allclose(found[key], value, atol=1e-5)


def scaled_torso(layers, observation):
  """Torso with constants on both sides of each operator."""
  x = layers.ops.float32(observation) * 2 + 1
  y = 3 - x**2 + np.arange(4) * x
  z = 1 / (1 + abs(x)) + 1.5 / (2 + abs(x)) ** 0.5
  return layers.ops.concat([x, y, z, layers.ops.maximum(-1.0, x), x / 255])


def integer_torso(layers, observation):
  """Torso with arithmetic of whole numbers, which the pixels are."""
  x = layers.ops.float32(observation / 255)
  return layers.ops.relu(layers.linear("torso/own", x, 8))


@pytest.mark.parametrize(
  ("torso", "dtype"), [("scaled", np.float32), ("integer", np.uint8)]
)
def test_constants_have_the_types_of_tensors(torso, dtype, tmp_path):
  torso = f"{__name__}:{torso}_torso"
  declaration = make_q_network((4,), dtype, torso=torso)
  variables = make_variables(declaration)
  (x,) = make_inputs(declaration, 3)
  acting = network_lib.make_acting(declaration)
  acting.load(variables)
  learning = tf_network.Network(declaration, seed=0)
  learning.load(variables)
  values = acting(x).values
  np.testing.assert_allclose(learning(tf.constant(x)).values, values, atol=1e-4)
  exported = run(tmp_path, Values(declaration), variables, [x])["values"]
  np.testing.assert_allclose(exported, values, atol=1e-4)


@pytest.mark.parametrize("shape", [(4, 84, 84), (4, 42, 50), (40, 48, 3)])
def test_convolutions_on_frames_equal_tensorflows(shape, tmp_path):
  declaration = make_q_network(shape, np.uint8, torso="nature_cnn")
  network = tf_network.Network(declaration, seed=1)
  (frames,) = make_inputs(declaration, 3)
  variables = network.get_variables()
  values = run(tmp_path, Values(declaration), variables, [frames])["values"]
  wanted = network(tf.constant(frames)).values
  np.testing.assert_allclose(values, wanted, atol=1e-4)


def test_exported_actions_are_within_the_bounds_of_their_space(tmp_path):
  space = gymnasium.spaces.Box(
    np.float32([-0.3, -3e38]), np.float32([1.1, 3e38])
  )
  path = tmp_path / "bounds.onnx"
  ops = types.SimpleNamespace(**vars(tf_ops), take=tf.gather)

  def convert(actions):
    return {
      "own": conversion.convert_actions_to_space_with(ops, space, actions)
    }

  inputs = {"action": specs.Array((2,), np.float32)}
  onnx_export.write(str(path), convert, inputs, {})
  session = onnxruntime.InferenceSession(str(path))
  random = np.random.default_rng(0)
  actions = random.uniform(-1.5, 1.5, (10_000, 2)).astype(np.float32)
  (exported,) = session.run(["own"], {"action": actions})
  assert all(map(space.contains, exported))
  expected = conversion.make_action_converter_to_space(space)(actions)
  np.testing.assert_allclose(
    exported / space.high, expected / space.high, atol=1e-6
  )
