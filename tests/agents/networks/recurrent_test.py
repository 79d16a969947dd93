"""Tests of recurrent networks: unrolled, step by step, and in NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from slipway.agents import policies
from slipway.agents.networks import (
  cores,
  layers,
  numpy_ops,
  recurrent,
  recurrent_q_network,
  tf_network,
)
from slipway.agents.networks import network as network_lib
from slipway.configs import ppo, r2d2, rules
from slipway.environments import user_code
from tests.environments import given

BATCH, STEPS, ACTIONS = 5, 9, 3


class Trace:
  """A user's core: a moving average of its inputs' linear features."""

  def __init__(self, size):
    self._size = self.state_size = size

  def step(self, layers, x, state):
    state = 0.9 * state + layers.linear("trace", x, self._size)
    return layers.ops.tanh(state), state


def no_class(size):
  raise RuntimeError(f"no memory of {size}")


class TooSmall(Trace):
  """A user's core that returns a state of another size."""

  def step(self, layers, x, state):
    features, state = super().step(layers, x, state)
    return features, state[:, 1:]


# names and sizes of cores
CORES = [
  ("lstm", 7),
  ("gru", 7),
  ("attention", 8),
  (f"{__name__}:Trace", 7),
]


def make_config(
  torso="mlp", hidden_sizes=(8, 6), dueling=True, core="lstm", core_size=7
):
  config = r2d2.get_config().network
  config.update(
    {
      "torso": torso,
      "hidden_sizes": hidden_sizes,
      "dueling": dueling,
      "core": core,
      "core_size": core_size,
      "core_window": 3,
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


def make_state(config):
  """Returns a random state [B, S] of a network's core, whose steps exist."""
  size = cores.make(config).state_size
  state = np.random.default_rng(3).normal(size=(BATCH, size))
  if config.core == "attention":
    state = state.reshape(BATCH, config.core_window, -1)
    state[..., -1] = 1.0
  return state.reshape(BATCH, size).astype(np.float32)


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
  ("torso", "sizes", "shape", "dtype", "dueling", "core"),
  [
    ("mlp", (8, 6), (4,), np.float32, False, ("lstm", 7)),
    ("mlp", (6,), (2, 3), np.float32, True, ("gru", 7)),
    ("mlp", (6,), (4,), np.float32, True, ("attention", 8)),
    ("mlp", (6,), (4,), np.float32, True, (f"{__name__}:Trace", 7)),
    ("minatar_cnn", (8, 6), (6, 5, 2), np.uint8, True, ("lstm", 7)),
    ("nature_cnn", (8, 6), (1, 36, 36), np.uint8, False, ("lstm", 7)),
  ],
)
def test_acting_step_by_step_equals_the_unroll(
  torso, sizes, shape, dtype, dueling, core
):
  config = make_config(torso, sizes, dueling, *core)
  spec = given.spec_of(shape, dtype, ACTIONS)
  declaration, network = make_network(config, spec)
  inputs = make_inputs(shape, dtype, make_first())
  state = make_state(config)
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


@pytest.mark.parametrize("core", CORES)
def test_an_episode_does_not_depend_on_the_one_before(core):
  spec = given.spec_of((4,), np.float32, ACTIONS)
  config = make_config("mlp", (8, 6), True, *core)
  declaration, network = make_network(config, spec)
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
  ones = tf.ones_like(make_state(config))
  zeros = tf.zeros_like(ones)
  a, after_a = declaration.unroll(network.layers, one, zeros)
  b, after_b = declaration.unroll(network.layers, other, ones)
  assert (a[:, :4] != b[:, :4]).numpy().any()
  np.testing.assert_allclose(a[:, 4:], b[:, 4:], rtol=1e-6)
  # The old part of an attention's window remains, but counts as empty.
  a, b = (
    declaration.unroll(network.layers, one, after)[0]
    for after in (after_a, after_b)
  )
  np.testing.assert_allclose(a[:, 0], b[:, 0], rtol=1e-6)


@pytest.mark.parametrize(
  ("name", "message"),
  [
    (f"{__name__}:nothing", "has no attribute 'nothing'"),
    (f"{__name__}:no_class", "fails on zeros .*no memory of 7"),
    (f"{__name__}:TooSmall", r"states \[2, 6\] for .* state_size of 7"),
  ],
)
def test_a_wrong_core_is_rejected(name, message):
  config = make_config(core=name)
  with pytest.raises((ValueError, user_code.UserCodeError), match=message):
    cores.check(config)


def unroll_core(name, size, window, x):
  """Returns features [T, H] of x [T, F], and the core's variables."""
  config = r2d2.get_config().network
  config.update({"core": name, "core_size": size, "core_window": window})
  core, variables = cores.make(config), {}
  random = np.random.default_rng(4)

  def variable(name, shape, initializer):
    del initializer
    if name not in variables:
      variables[name] = random.normal(size=shape)
    return variables[name]

  state, features = np.zeros((1, core.state_size)), []
  for inputs in x:
    own = layers.Layers(numpy_ops, variable)
    h, state = core.step(own, inputs[None], state)
    features.append(h[0])
  return np.array(features), variables


def sigmoid(x):
  return 1.0 / (1.0 + np.exp(-x))


def test_a_gru_has_the_paper_s_equations():
  """Cho et al. 2014, equations 5 to 8, for each unit j."""
  x = np.random.default_rng(5).normal(size=(6, 3))
  found, v = unroll_core("gru", 2, 1, x)
  w_r, w_z = np.split(v["gates/w"], 2, axis=1)
  b_r, b_z = np.split(v["gates/b"], 2)
  h = np.zeros(2)
  for t, inputs in enumerate(x):
    both = np.concatenate([inputs, h])
    r = [sigmoid(both @ w_r[:, j] + b_r[j]) for j in range(2)]
    z = [sigmoid(both @ w_z[:, j] + b_z[j]) for j in range(2)]
    reset = np.concatenate([inputs, np.multiply(r, h)])
    new = np.tanh(reset @ v["candidate/w"] + v["candidate/b"])
    h = np.array([z[j] * h[j] + (1 - z[j]) * new[j] for j in range(2)])
    np.testing.assert_allclose(found[t], h, rtol=1e-9)


def test_attention_has_the_paper_s_equations():
  """Parisotto et al. 2020, section 3.2, for each step and head."""
  size, window, heads = 8, 2, rules.CORE_HEADS
  x = np.random.default_rng(5).normal(size=(6, 3))
  found, v = unroll_core("attention", size, window, x)

  def linear(name, inputs):
    return inputs @ v[f"{name}/w"] + v[f"{name}/b"]

  def normalize(name, inputs):
    scaled = (inputs - inputs.mean()) / np.sqrt(inputs.var() + 1e-5)
    return scaled * v[f"{name}/scale"] + v[f"{name}/offset"]

  def gate(name, old, new):
    r, z = np.split(linear(f"{name}/gates", np.concatenate([new, old])), 2)
    z = sigmoid(z - 2.0)
    reset = np.concatenate([new, sigmoid(r) * old])
    return (1 - z) * old + z * np.tanh(linear(f"{name}/candidate", reset))

  embedded = [linear("embedding", inputs) for inputs in x]
  triples = [
    np.split(linear("projections", normalize("norm_1", e)), 3) for e in embedded
  ]
  for t, e in enumerate(embedded):
    seen = range(max(0, t - window), t + 1)
    attended = np.zeros(size)
    for head in range(heads):
      part = slice(head * size // heads, (head + 1) * size // heads)
      logits = [
        triples[t][0][part] @ triples[s][1][part] / np.sqrt(size / heads)
        + v["distances"][window - (t - s), head]
        for s in seen
      ]
      weights = np.exp(logits) / np.exp(logits).sum()
      attended[part] = sum(
        w * triples[s][2][part] for w, s in zip(weights, seen, strict=True)
      )
    y = gate("gate_1", e, np.maximum(linear("output", attended), 0))
    hidden = np.maximum(linear("mlp_0", normalize("norm_2", y)), 0)
    y = gate("gate_2", y, np.maximum(linear("mlp_1", hidden), 0))
    np.testing.assert_allclose(found[t], y, rtol=1e-7)


@pytest.mark.parametrize("shared", [True, False])
def test_a_worker_stores_the_state_that_continues_policy_and_values(shared):
  config = ppo.get_config().network
  config.update({"hidden_sizes": (8,), "core_size": 7, "shared": shared})
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
