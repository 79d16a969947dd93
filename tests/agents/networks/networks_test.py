"""Networks: acting gives what learning gives; sizes; the dueling identity."""

import ml_collections
import numpy as np
import pytest
import tensorflow as tf
from acme import specs

from agents.networks import inference, q_network, torsos

FRAMES = (4, 84, 84)


def make_config(torso="mlp", hidden_sizes=(64, 64), dueling=False):
  return ml_collections.ConfigDict(
    {"torso": torso, "hidden_sizes": hidden_sizes, "dueling": dueling}
  )


def make_spec(shape=(4,), dtype=np.float32, actions=3):
  return specs.EnvironmentSpec(
    observations=specs.Array(shape, dtype),
    actions=specs.DiscreteArray(actions),
    rewards=specs.Array((), np.float32),
    discounts=specs.BoundedArray((), np.float32, 0, 1),
  )


def make_network(config, spec, seed=0):
  """A network whose biases are not zero either."""
  tf.random.set_seed(seed)
  network = q_network.make_q_network(config, spec)
  random = np.random.default_rng(seed)
  for variable in network.variables:
    if len(variable.shape) == 1:
      variable.assign(random.normal(size=variable.shape))
  return network


@pytest.mark.parametrize("dueling", [False, True])
@pytest.mark.parametrize(
  "hidden_sizes", [(8,), (64, 64), (32, 16, 8), (128, 7)]
)
@pytest.mark.parametrize(
  ("shape", "dtype"),
  [((4,), np.float32), ((2, 3), np.float32), ((5,), np.uint8), ((), np.int32)],
)
def test_numpy_equals_tensorflow(shape, dtype, hidden_sizes, dueling):
  config = make_config(hidden_sizes=hidden_sizes, dueling=dueling)
  spec = make_spec(shape, dtype)
  network = make_network(config, spec)
  acting = inference.make_inference(config, spec)
  acting.load(q_network.get_variables(network))
  random = np.random.default_rng(1)
  for batch_size in (1, 16):
    observation = (10 * random.random((batch_size, *shape))).astype(dtype)
    kept = observation.copy()
    values = acting(observation)
    assert values.dtype == np.float32
    assert values.shape == (batch_size, 3)
    np.testing.assert_allclose(
      values, network(tf.constant(observation)), rtol=1e-5, atol=1e-5
    )
    np.testing.assert_array_equal(observation, kept)


def test_loading_again_replaces_all_variables():
  config, spec = make_config(dueling=True), make_spec()
  acting = inference.make_inference(config, spec)
  observation = np.ones((2, 4), np.float32)
  for seed in (0, 1):
    network = make_network(config, spec, seed)
    acting.load(q_network.get_variables(network))
    np.testing.assert_allclose(
        acting(observation), network(tf.constant(observation)), rtol=1e-5,
        atol=1e-5,
    )  # fmt: skip


@pytest.mark.parametrize("dueling", [False, True])
def test_nature_cnn(dueling):
  config = make_config("nature_cnn", (512,), dueling)
  spec = make_spec(FRAMES, np.uint8, actions=6)
  network = make_network(config, spec)
  convolutions = (
    8 * 8 * 4 * 32 + 32 + 4 * 4 * 32 * 64 + 64 + 3 * 3 * 64 * 64 + 64
  )
  hidden = 7 * 7 * 64 * 512 + 512
  count = convolutions + hidden + 512 * 6 + 6
  if dueling:
    count += hidden + 512 + 1
  else:
    assert count == 1_687_206  # with 6 actions, as in Mnih et al. 2015
  assert sum(np.prod(v.shape) for v in network.variables) == count

  acting = inference.make_inference(config, spec)
  acting.load(q_network.get_variables(network))
  random = np.random.default_rng(0)
  for batch_size in (1, 5):
    observation = random.integers(0, 256, (batch_size, *FRAMES), np.uint8)
    values = acting(observation)
    assert values.shape == (batch_size, 6)
    np.testing.assert_allclose(
      values, network(tf.constant(observation)), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("torso", ["mlp", "nature_cnn"])
def test_dueling_removes_the_mean_advantage(torso):
  shape, dtype = ((6,), np.float32) if torso == "mlp" else (FRAMES, np.uint8)
  spec = make_spec(shape, dtype)
  network = make_network(make_config(torso, (16,), dueling=True), spec)
  observation = tf.constant(
    np.random.default_rng(0).integers(0, 9, (4, *shape)).astype(dtype)
  )
  features = network._torso(observation)
  value, q = network._value(features), network(observation)
  np.testing.assert_allclose(
    tf.reduce_mean(q, axis=1), value[:, 0], rtol=1e-5, atol=1e-5
  )
  # What all advantages share is of no consequence.
  advantage = network._advantage._output
  advantage.b.assign_add(tf.fill([3], 5.0))
  np.testing.assert_allclose(network(observation), q, rtol=1e-4, atol=1e-4)


def test_names_of_variables_are_short_and_differ():
  config = make_config(hidden_sizes=(8, 4), dueling=True)
  variables = q_network.get_variables(make_network(config, make_spec()))
  assert set(variables) == {
      f"{layer}/{kind}"
      for layer in (
          "torso/linear_0", "advantage/hidden", "advantage/output",
          "value/hidden", "value/output",
      )
      for kind in "wb"
  }  # fmt: skip


def test_variables_are_copies():
  network = make_network(make_config(), make_spec())
  variables = q_network.get_variables(network)
  kept = {name: x.copy() for name, x in variables.items()}
  for variable in network.variables:
    variable.assign_add(tf.ones_like(variable))
  for name, x in variables.items():
    np.testing.assert_array_equal(x, kept[name])


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((4,), np.float32), ((4, 84, 84), np.float32), ((4, 35, 84), np.uint8),
     ((84, 84, 3), np.uint8)],
)  # fmt: skip
def test_torso_that_cannot_see_is_one_line(shape, dtype):
  spec = make_spec(shape, dtype)
  with pytest.raises(ValueError) as error:
    torsos.check(make_config("nature_cnn"), spec)
  message = str(error.value)
  assert message.startswith("config.network.torso='nature_cnn' takes uint8")
  assert str(list(shape)) in message
  assert "\n" not in message
  torsos.check(make_config("mlp"), spec)


def test_smallest_frames_that_pass_the_check_pass_the_network():
  spec = make_spec((1, 36, 36), np.uint8)
  config = make_config("nature_cnn", (8,))
  torsos.check(config, spec)
  network = make_network(config, spec)
  assert network(tf.zeros((2, 1, 36, 36), tf.uint8)).shape == (2, 3)
