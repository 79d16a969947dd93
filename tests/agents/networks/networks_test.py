"""Tests of Q-networks: NumPy and TensorFlow, sizes, dueling, noise, heads."""

import numpy as np
import pytest
import tensorflow as tf
from acme import specs

from slipway.agents.networks import (
  heads,
  numpy_ops,
  q_network,
  recurrent_q_network,
  tf_network,
  tf_ops,
  torsos,
)
from slipway.agents.networks import layers as layers_lib
from slipway.agents.networks import network as network_lib
from slipway.configs import dqn, r2d2
from tests.environments import given

FRAMES = (4, 84, 84)


def make_config(torso="mlp", hidden_sizes=(64, 64), dueling=False, **fields):
  config = dqn.get_config().network
  config.update(
    {"torso": torso, "hidden_sizes": hidden_sizes, "dueling": dueling, **fields}
  )
  return config


def values_of(network, observation):
  """Returns the values [B, A] of a learning network."""
  return network(tf.constant(observation)).values


def make_network(config, spec, seed=0):
  """Returns a network with random biases, as they are 0 initially."""
  declaration = q_network.QNetwork(config, spec)
  network = tf_network.Network(declaration, seed)
  random = np.random.default_rng(seed)
  for variable in network.variables:
    if len(variable.shape) == 1:
      variable.assign(random.normal(size=variable.shape))
  return network


def make_acting(config, spec, network):
  """Returns an acting network with the variables of a learning one."""
  acting = network_lib.make_acting(q_network.QNetwork(config, spec))
  acting.load(network.get_variables())
  return acting


# torso, hidden sizes, shape and type of observations, and further fields
EQUAL = [
  ("mlp", (8,), (4,), np.float32, {"dueling": True}),
  ("mlp", (128, 7), (2, 3), np.float32, {"layer_norm": "all"}),
  ("mlp", (16, 8), (5,), np.uint8, {"layer_norm": "all", "dueling": True}),
  ("mlp", (32, 16, 8), (), np.int32, {}),
  ("mlp", (16, 8), (4,), np.float32, {"head": "categorical", "noisy": True}),
  ("mlp", (8,), (4,), np.float32, {"head": "quantile", "dueling": True}),
  ("mlp", (8,), (4,), np.float32, {"head": "implicit_quantile"}),
  ("nature_cnn", (16,), FRAMES, np.uint8, {"dueling": True, "noisy": True}),
  ("nature_cnn", (8,), (1, 36, 36), np.uint8, {}),  # the smallest frames
  ("minatar_cnn", (8,), (10, 10, 4), np.uint8, {"head": "categorical"}),
  ("minatar_cnn", (12, 8), (6, 7, 3), np.uint8, {"dueling": True}),
  ("minatar_cnn", (8,), (6, 7, 3), np.uint8, {"head": "implicit_quantile"}),
]


@pytest.mark.parametrize(("torso", "sizes", "shape", "dtype", "fields"), EQUAL)
def test_acting_values_equal_the_means_of_learned_heads(
  torso, sizes, shape, dtype, fields
):
  config = make_config(torso, sizes, quantiles=5, atoms=7, **fields)
  config.update(lowest_return=-10.0, highest_return=10.0)
  spec = given.spec_of(shape, dtype)
  torsos.check(config, spec)
  acting = network_lib.make_acting(q_network.QNetwork(config, spec))
  random = np.random.default_rng(2)
  for seed, batch in ((0, 1), (1, 6)):  # loading again replaces all variables
    network = make_network(config, spec, seed)
    acting.load(network.get_variables())
    observation = random.integers(0, 9, (batch, *shape)).astype(dtype)
    original = observation.copy()
    values = acting(observation).values
    assert values.dtype == np.float32 and values.shape == (batch, 3)
    np.testing.assert_array_equal(observation, original)
    expected = compute_values(config, network(tf.constant(observation)))
    np.testing.assert_allclose(values, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("fields", [{}, {"noisy": True}, {"dueling": True}])
def test_values_start_at_zero_without_a_support(fields):
  """Random weights of atoms at 4e8 would give values of that size."""
  spec = given.spec_of((4,))
  config = make_config("mlp", (8,), head="categorical", **fields)
  config.update(lowest_return=-np.inf, highest_return=np.inf)
  network = tf_network.Network(q_network.QNetwork(config, spec), seed=0)
  observation = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
  np.testing.assert_allclose(network(observation).values, 0.0, atol=0.01)
  acting = make_acting(config, spec, network)
  for seed in range(20 * config.noisy):
    random = np.random.default_rng(seed)
    assert abs(acting(observation, random=random).values).max() < 100


@pytest.mark.parametrize(
  ("dueling", "count"),
  [
    (False, 1_687_206),  # with 6 actions, as in Mnih et al. 2015
    (True, 1_687_206 + 7 * 7 * 64 * 512 + 512 + 512 + 1),
  ],
)
def test_the_number_of_weights_is_that_of_the_paper(dueling, count):
  declaration = q_network.QNetwork(
    make_config("nature_cnn", (512,), dueling),
    given.spec_of(FRAMES, np.uint8, actions=6),
  )
  shapes = network_lib.variable_shapes(declaration).values()
  assert sum(np.prod(shape) for shape in shapes) == count


@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("dueling", [False, True])
def test_normalized_layers_ignore_the_scale_of_weights(dueling, noisy):
  config = make_config(dueling=dueling, noisy=noisy, layer_norm="all")
  network = make_network(config, given.spec_of())
  observation = np.random.default_rng(1).normal(size=(8, 4)).astype("f")
  before = values_of(network, observation)
  for variable in network.variables:
    if "output" not in variable.name and "norm" not in variable.name:
      variable.assign(10.0 * variable)
  np.testing.assert_allclose(
    before, values_of(network, observation), rtol=1e-3, atol=1e-3
  )


def test_dueling_removes_the_mean_advantage():
  network = make_network(make_config(dueling=True), given.spec_of())
  observation = np.random.default_rng(0).normal(size=(4, 4)).astype("f")
  variables = network.get_variables()
  q = values_of(network, observation)
  # A constant added to all advantages has no effect.
  network.load(
    {**variables, "advantage/output/b": variables["advantage/output/b"] + 5.0}
  )
  np.testing.assert_allclose(
    values_of(network, observation), q, rtol=1e-4, atol=1e-4
  )
  # The mean over actions is the output of the value stream.
  network.load(
    {**variables, "value/output/b": variables["value/output/b"] + 5.0}
  )
  np.testing.assert_allclose(
    values_of(network, observation), q + 5.0, rtol=1e-4, atol=1e-4
  )


def test_variables_are_copies():
  network = make_network(make_config(), given.spec_of())
  variables = network.get_variables()
  original = {name: x.copy() for name, x in variables.items()}
  for variable in network.variables:
    variable.assign_add(tf.ones_like(variable))
  for name, x in variables.items():
    np.testing.assert_array_equal(x, original[name])


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((4,), np.float32), ((4, 84, 84), np.float32), ((4, 35, 84), np.uint8),
     ((84, 35, 3), np.uint8), ((36,) * 5, np.uint8)],
)  # fmt: skip
def test_torso_that_does_not_fit_is_one_line(shape, dtype):
  spec = given.spec_of(shape, dtype)
  with pytest.raises(ValueError) as error:
    torsos.check(make_config("nature_cnn"), spec)
  message = str(error.value)
  assert message.startswith("config.network.torso='nature_cnn' takes uint8")
  assert str(list(shape)) in message
  assert "\n" not in message
  torsos.check(make_config("mlp"), spec)


# torso, shape and type of observations, and words of the advice ('': none)
ADVICE = [
  ("mlp", (84, 84, 3), np.uint8, "use --config.network.torso=nature_cnn"),
  ("mlp", (4, 84, 84), np.uint8, "as 28,224 numbers of up to 255"),
  ("mlp", (10, 10, 4), np.uint8, "torso=minatar_cnn, and a wrapper"),
  ("nature_cnn", (84, 84, 3), np.uint8, ""),
  ("mlp", (10, 10, 4), np.float32, ""),
  ("mlp", (84,), np.uint8, ""),
  ("mlp", (2, 4), np.uint8, ""),  # as a small board
]


@pytest.mark.parametrize(("torso", "shape", "dtype", "words"), ADVICE)
def test_advice_on_images_as_mere_numbers(torso, shape, dtype, words):
  observations = specs.BoundedArray(shape, dtype, 0, 255)
  spec = given.spec_of(shape, dtype)._replace(observations=observations)
  advice = torsos.advise(torso, spec)
  assert words in advice and bool(words) == bool(advice)
  assert "\n" not in advice


def _gradients(network, observation):
  """Returns outputs [B, A], and the gradient of their sum of squares, flat."""
  with tf.GradientTape() as tape:
    outputs = values_of(network, observation)
    loss = tf.reduce_sum(outputs**2)
  gradients = tape.gradient(loss, network.trainable_variables)
  return outputs, tf.concat([tf.reshape(x, [-1]) for x in gradients], 0).numpy()


def test_products_in_bfloat16_are_nearly_equal():
  spec = given.spec_of(FRAMES, np.uint8)
  exact, rounded = (
    make_network(make_config(kind, (64,)), spec)
    for kind in ("nature_cnn", "nature_cnn_bfloat16")
  )
  rounded.load(exact.get_variables())
  assert all(x.dtype == tf.float32 for x in rounded.trainable_variables)
  frames = np.random.default_rng(1).integers(0, 256, (8, *FRAMES), np.uint8)
  wanted, wanted_gradient = _gradients(exact, frames)
  found, gradient = _gradients(rounded, frames)
  assert found.dtype == tf.float32
  # bfloat16 has 8 significant bits: products have relative errors up to 2^-8.
  np.testing.assert_allclose(
    found, wanted, atol=0.02 * float(tf.reduce_max(tf.abs(wanted)))
  )
  assert np.any(found != wanted)
  cosine = (
    gradient
    @ wanted_gradient
    / (np.linalg.norm(gradient) * np.linalg.norm(wanted_gradient))
  )
  assert cosine > 0.995


def shared_torso(layers, observation):
  """Torso that shares weights between two of its own layers."""
  x = layers.ops.float32(observation)
  x = layers.linear("own/first", x, 4)
  return layers.linear("own/first", x, 4)


def builtin_names_torso(layers, observation):
  """Torso whose layer has the name of a layer that follows the torso."""
  return layers.linear("torso/linear_0", layers.ops.float32(observation), 4)


def unequal_torso(layers, observation):
  """Torso with one name for two layers of other shapes."""
  x = layers.ops.float32(observation)
  return layers.linear("own/first", layers.linear("own/first", x, 5), 4)


def test_a_torso_may_share_its_own_weights():
  config = make_config(f"{__name__}:shared_torso")
  spec = given.spec_of((4,))
  torsos.check(config, spec)
  shapes = network_lib.variable_shapes(q_network.QNetwork(config, spec))
  assert shapes["own/first/w"] == (4, 4)
  variables = make_network(config, spec).get_variables()
  assert {name: x.shape for name, x in variables.items()} == shapes


# The built-in layer torso/linear_0 has the shape of the torso's or another one.
@pytest.mark.parametrize(
  ("torso", "size", "line"),
  [
    ("builtin_names", 4, "'torso/linear_0/w'"),
    ("builtin_names", 64, "'torso/linear_0/w'"),
    ("unequal", 8, r"'own/first/w', with shapes \[4, 5\] and \[5, 4\]"),
  ],
)
def test_a_name_has_one_shape_and_one_owner(torso, size, line):
  config = make_config(f"{__name__}:{torso}_torso", (size, 8))
  declaration = q_network.QNetwork(config, given.spec_of())
  with given.one_line(match=line):
    network_lib.variable_shapes(declaration)
  with given.one_line(match=line):
    tf_network.Network(declaration, seed=0)
  if torso == "unequal":
    with pytest.raises(ValueError, match=line):
      torsos.check(config, given.spec_of())


def test_bfloat16_needs_a_processor_that_has_it():
  spec = given.spec_of(FRAMES, np.uint8)
  config = make_config("nature_cnn_bfloat16")
  with open("/proc/cpuinfo", encoding="utf-8") as file:
    flags = file.read()
  if "avx512_bf16" in flags or "amx_bf16" in flags:
    torsos.check(config, spec)
  else:
    with pytest.raises(ValueError, match="would be slower than in float32"):
      torsos.check(config, spec)


def compute_values(config, output):
  """Returns the values [B, A] by a sum over the outputs of a head."""
  outputs = output.outputs.numpy().astype(float)
  head = heads.make_head(config)
  if config.head == "categorical":
    p = np.exp(outputs) / np.exp(outputs).sum(axis=2, keepdims=True)
    return (p * head.atoms).sum(axis=2)
  return outputs.mean(axis=2)


@pytest.mark.parametrize(  # acting in NumPy, and in TensorFlow
  ("torso", "shape", "dtype"),
  [("mlp", (4,), np.float32), ("nature_cnn", FRAMES, np.uint8)],
)
def test_noise_is_new_at_each_call_and_off_without_a_generator(
  torso, shape, dtype
):
  config = make_config(torso, (16,), noisy=True)
  spec = given.spec_of(shape, dtype)
  network = make_network(config, spec)
  acting = make_acting(config, spec, network)
  observation = np.ones((3, *shape), dtype)
  random = np.random.default_rng(0)
  outputs = [acting(observation, random=random).values for _ in range(3)]
  assert (outputs[0] != outputs[1]).all() and (outputs[1] != outputs[2]).all()
  # All items of a batch have the same noise.
  np.testing.assert_allclose(outputs[0][0], outputs[0][1], rtol=1e-5)
  without_noise = acting(observation).values
  np.testing.assert_array_equal(without_noise, acting(observation).values)
  np.testing.assert_allclose(
    without_noise, values_of(network, observation), rtol=1e-4, atol=1e-4
  )


def test_noise_depends_on_the_seed_only():
  config, spec = make_config(noisy=True), given.spec_of()
  network = make_network(config, spec)
  observation = tf.ones((2, 4))

  def outputs(*seed):
    return network(observation, tf.constant(seed)).outputs.numpy()

  np.testing.assert_array_equal(outputs(1, 2), outputs(1, 2))
  assert (outputs(1, 2) != outputs(1, 3)).all()
  assert (outputs(1, 2) != outputs(2, 2)).all()


def test_noise_has_the_deviation_of_the_paper():
  # Fortunato et al. 2018, section 3.2: the deviation is sigma_0 / sqrt(p) per
  # weight, and f(e) f(e') has the variance E|e| E|e'| = 2 / pi.
  inputs, std = 50, 0.5
  x = np.zeros((1, inputs), np.float32)
  x[0, 3] = 1.0
  variables = {
    "noisy/w": np.full((inputs, 1), 2.0, np.float32),
    "noisy/b": np.zeros(1, np.float32),
    "noisy/w_std": np.full((inputs, 1), std / np.sqrt(inputs), np.float32),
    "noisy/b_std": np.zeros(1, np.float32),
  }
  for ops, randoms in (
    (numpy_ops, [np.random.default_rng(0)] * 2_000),
    (tf_ops, [tf.constant((0, seed)) for seed in range(2_000)]),
  ):
    layers = layers_lib.Layers(ops, lambda name, *_: variables[name])
    x_of = tf.constant(x) if ops is tf_ops else x
    found = np.array(
      [
        float(layers.noisy_linear("noisy", x_of, 1, std, ops.Noise(random)))
        for random in randoms
      ]
    )
    expected = std / np.sqrt(inputs) * np.sqrt(2 / np.pi)
    np.testing.assert_allclose(found.std(), expected, rtol=0.1)
    np.testing.assert_allclose(found.mean(), 2.0, atol=4 * expected / 40)


def test_sampled_quantiles_belong_to_their_taus():
  config = make_config(head="implicit_quantile")
  network = make_network(config, given.spec_of())
  output = network(tf.ones((3, 4)), tf.constant((0, 1)), 8)
  assert output.outputs.shape == (3, 3, 8)
  assert output.taus.shape == (3, 8)
  taus = output.taus.numpy()
  assert (taus >= 0).all() and (taus < 1).all() and len(np.unique(taus)) == 24
  # With equal observations, quantiles depend only on their taus.
  order = np.argsort(taus.ravel())
  sampled = np.swapaxes(output.outputs, 1, 2).reshape(-1, 3)[order]
  middles = network(tf.ones((1, 4)), None, 2_000).outputs[0].numpy()
  for action in range(3):
    expected = np.interp(taus.ravel()[order], heads.make_midpoints(2_000),
                         middles[action])  # fmt: skip
    np.testing.assert_allclose(sampled[:, action], expected, atol=1e-2)


@pytest.mark.parametrize(
  "make",
  [
    lambda config, spec: q_network.QNetwork(config, spec),
    lambda config, spec: recurrent_q_network.RecurrentQNetwork(config, spec),
  ],
)
@pytest.mark.parametrize(
  "fields", [{}, {"dueling": True, "head": "implicit_quantile"}]
)
def test_all_weights_start_within_the_bound_of_the_initializer(make, fields):
  config = r2d2.get_config().network
  config.update(dqn.get_config().network)
  config.update(hidden_sizes=(32, 64), initializer="uniform", **fields)
  declaration = make(config, given.spec_of((9,)))
  values = tf_network.Network(declaration, seed=0).get_variables()
  # A core has an initializer of its own.
  layers = {x[:-2] for x in values if x.endswith("/w")} - {"core/gates"}
  assert len(layers) >= 3
  for layer in layers:
    w, biases = values[f"{layer}/w"], values[f"{layer}/b"]
    bound = 1 / np.sqrt(len(w))
    assert bound / 2 < np.abs(w).max() <= bound, layer
    assert 0 < np.abs(biases).max() <= bound, layer
