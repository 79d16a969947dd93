"""Tests of distributions: densities, samples, entropies, divergences."""

import numpy as np
import pytest
import tensorflow as tf

from slipway.agents.networks import (
  action_masks,
  distributions,
  numpy_ops,
  tf_ops,
)

SAMPLES = 50_000
LOGITS = np.float32([[0.3, -1.2, 2.0, 0.0]])
MEAN, LOG_STD = np.float32([[0.4, -0.9]]), np.float32([[-0.7, 0.2]])
PARAMETERS = {
  "categorical": LOGITS,
  "gaussian": np.concatenate([MEAN, LOG_STD], axis=1),
  "tanh_gaussian": np.concatenate([MEAN, LOG_STD], axis=1),
}
BACKENDS = {
  "numpy": (numpy_ops, lambda x: x, np.random.default_rng(0)),
  "tensorflow": (tf_ops, tf.constant, tf.constant([3, 4])),
}


def make(kind, backend="numpy", batch=1):
  ops, array, random = BACKENDS[backend]
  parameters = np.repeat(PARAMETERS[kind], batch, axis=0)
  made = distributions.make_distribution(kind, ops, array(parameters))
  return made, random


def make_grid(kind):
  """Returns the centres [N, 2] of a grid's cells, and the area of a cell."""
  edge = (-1, 1) if kind == "tanh_gaussian" else (-9, 9)
  points = np.linspace(*edge, 802)
  middles = (points[1:] + points[:-1]) / 2
  grid = np.stack(np.meshgrid(middles, middles), axis=-1).reshape(-1, 2)
  return grid.astype(np.float32), (points[1] - points[0]) ** 2


@pytest.mark.parametrize("kind", ["gaussian", "tanh_gaussian"])
def test_densities_integrate_to_one(kind):
  grid, area = make_grid(kind)
  logs = make(kind)[0].log_prob(grid).astype(float)
  np.testing.assert_allclose(np.exp(logs).sum() * area, 1.0, rtol=2e-3)
  if kind == "gaussian":
    entropy = -(np.exp(logs) * logs).sum() * area
    np.testing.assert_allclose(make(kind)[0].entropy(), [entropy], rtol=1e-3)


def test_probabilities_sum_to_one():
  policy, _ = make("categorical")
  logs = np.array([policy.log_prob(np.array([a]))[0] for a in range(4)])
  np.testing.assert_allclose(np.exp(logs).sum(), 1.0, rtol=1e-5)
  entropy = -(np.exp(logs) * logs).sum()
  np.testing.assert_allclose(policy.entropy(), [entropy], rtol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_product_is_the_sum_over_all_joint_actions(backend):
  """Components have 2 and 3 values; one output of the first is unused."""
  ops, array, random = BACKENDS[backend]
  logits = np.float32([[0.5, -1.0, action_masks.ILLEGAL, 0.2, -0.3, 1.0]])
  policy = distributions.make_distribution(
    "product_categorical", ops, array(logits), components=2
  )
  first = numpy_ops.softmax(logits[:, :2])[0]
  second = numpy_ops.softmax(logits[:, 3:])[0]
  entropy, best = 0.0, (0.0, None)
  for joint in np.ndindex(2, 3):
    p = first[joint[0]] * second[joint[1]]
    found = np.asarray(policy.log_prob(array(np.int32([joint]))))
    np.testing.assert_allclose(found, [np.log(p)], rtol=1e-5)
    entropy, best = entropy - p * np.log(p), max(best, (p, joint))
  np.testing.assert_allclose(policy.entropy(), [entropy], rtol=1e-5)
  np.testing.assert_array_equal(policy.mode(), [best[1]])
  many = distributions.make_distribution(
    "product_categorical", ops, array(np.repeat(logits, SAMPLES, 0)), 2
  )
  sampled = np.asarray(many.sample(random))
  assert sampled.dtype == np.int32
  counts = np.zeros((2, 3))
  np.add.at(counts, tuple(sampled.T), 1 / SAMPLES)
  np.testing.assert_allclose(counts, np.outer(first, second), atol=0.01)


@pytest.mark.parametrize("backend", BACKENDS)
def test_frequencies_of_samples_are_probabilities(backend):
  policy, random = make("categorical", backend, SAMPLES)
  sampled = np.asarray(policy.sample(random))
  assert sampled.dtype == np.int32
  found = np.bincount(sampled, minlength=4) / SAMPLES
  np.testing.assert_allclose(found, numpy_ops.softmax(LOGITS)[0], atol=0.01)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", ["gaussian", "tanh_gaussian"])
def test_moments_of_samples_are_those_of_the_density(kind, backend):
  policy, random = make(kind, backend, SAMPLES)
  sampled = np.asarray(policy.sample(random))
  assert sampled.dtype == np.float32
  grid, area = make_grid(kind)
  weights = np.exp(make(kind)[0].log_prob(grid).astype(float))[:, None] * area
  mean = (weights * grid).sum(axis=0)
  deviation = np.sqrt((weights * (grid - mean) ** 2).sum(axis=0))
  np.testing.assert_allclose(sampled.mean(axis=0), mean, atol=0.02)
  np.testing.assert_allclose(sampled.std(axis=0), deviation, rtol=0.02)


def make_reference(kind):
  """Returns TensorFlow Probability's equivalent of `make(kind)`, in float64."""
  from tensorflow_probability import bijectors
  from tensorflow_probability import distributions as tfd

  mean, log_std = (np.ravel(x).astype(float) for x in (MEAN, LOG_STD))
  normal = tfd.MultivariateNormalDiag(mean, np.exp(log_std))
  if kind == "gaussian":
    return normal
  return tfd.TransformedDistribution(normal, bijectors.Tanh())


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", ["gaussian", "tanh_gaussian"])
def test_log_densities_are_tensorflow_probabilitys(kind, backend):
  policy, random = make(kind, backend, 200)
  action = policy.sample(random)
  expected = make_reference(kind).log_prob(np.asarray(action, float))
  # Close to 1 and -1, actions of float32 have few digits of 1 - |a|.
  np.testing.assert_allclose(policy.log_prob(action), expected, atol=2e-3)
  if kind == "tanh_gaussian":
    action, log_prob = policy.sample_with_log_prob(random)
    expected = make_reference(kind).log_prob(np.asarray(action, float))
    np.testing.assert_allclose(log_prob, expected, atol=2e-3)


@pytest.mark.parametrize("kind", PARAMETERS)
def test_numpy_equals_tensorflow(kind):
  one, random = make(kind, "numpy", 20)
  other, _ = make(kind, "tensorflow", 20)
  action = one.sample(random)
  np.testing.assert_allclose(
    one.log_prob(action), other.log_prob(tf.constant(action)), rtol=1e-4
  )
  np.testing.assert_allclose(one.mode(), other.mode(), rtol=1e-5)
  if kind != "tanh_gaussian":
    np.testing.assert_allclose(one.entropy(), other.entropy(), rtol=1e-5)


def make_saturated(backend, mean, log_std, batch=1):
  """Makes tanh-Gaussians of one component, whose actions round to 1."""
  ops, array, random = BACKENDS[backend]
  parameters = np.full((batch, 2), [mean, log_std], np.float32)
  kind = "tanh_gaussian"
  return distributions.make_distribution(kind, ops, array(parameters)), random


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
  ("mean", "log_std"), [(7.0, -2.0), (7.0, 0.0), (-8.0, -1.0), (0.0, 2.0)]
)
def test_probability_ratios_of_saturated_actions(backend, mean, log_std):
  """The mean of pi(a) / mu(a) over actions of mu is 1 for any policy pi."""
  mu, random = make_saturated(backend, mean, log_std, SAMPLES)
  action = mu.sample(random)
  before = np.asarray(mu.log_prob(action))
  pi, _ = make_saturated(backend, mean * 0.99, log_std - 0.05, SAMPLES)
  ratios = np.exp(np.asarray(pi.log_prob(action)) - before)
  assert (np.abs(action) > 1 - 1e-5).mean() > 0.01
  # The ratios of x itself have a deviation of at most 0.6 here.
  np.testing.assert_allclose(ratios.mean(), 1.0, atol=0.015)
  assert ratios.max() < 20.0


def test_log_densities_of_saturated_actions_have_a_gradient():
  mean, log_std = tf.Variable([[30.0, -9.0]]), tf.Variable([[0.0, 0.0]])
  with tf.GradientTape() as tape:
    policy = distributions.TanhGaussian(tf_ops, mean, log_std)
    log_prob = policy.log_prob(tf.constant([[1.0, 1.0]]))
  found = tape.gradient(log_prob, [mean, log_std])
  assert np.isfinite(log_prob).all() and np.isfinite(found).all()
  # The first component is there already, the second one far below.
  assert abs(found[0][0, 0]) < 1e-6 and found[0][0, 1] > 10.0


def test_unknown_kinds_are_one_line():
  with pytest.raises(ValueError, match="kind='beta' is no distribution"):
    distributions.make_distribution("beta", numpy_ops, LOGITS)


def make_other(kind, ops, array):
  parameters = PARAMETERS[kind] + np.float32([[0.2, -0.3, 0.1, 0.4]])
  return distributions.make_distribution(kind, ops, array(parameters))


@pytest.mark.parametrize("kind", ["gaussian", "tanh_gaussian"])
def test_divergences_equal_the_integral(kind):
  one, other = make(kind)[0], make_other(kind, numpy_ops, lambda x: x)
  grid, area = make_grid(kind)
  p, q = (x.log_prob(grid).astype(float) for x in (one, other))
  expected = (np.exp(p) * (p - q)).sum() * area
  # The tanh-Gaussians' densities are steep near the edges of the grid.
  np.testing.assert_allclose(one.kl(other), [expected], rtol=2e-2)
  np.testing.assert_allclose(one.kl(one), [0.0], atol=1e-6)
  _, (mean, std) = distributions.kl_parts(one, other)
  assert mean > 0 and std > 0


def test_divergences_of_categorical_policies_equal_the_sum():
  one, other = (
    make("categorical")[0],
    make_other("categorical", tf_ops, tf.constant),
  )
  p, q = (numpy_ops.softmax(np.asarray(x.logits))[0] for x in (one, other))
  expected = (p * np.log(p / q)).sum()
  found = make("categorical", "tensorflow")[0].kl(other)
  np.testing.assert_allclose(found, [expected], rtol=1e-5)
  other = make_other("categorical", numpy_ops, lambda x: x)
  _, (part,) = distributions.kl_parts(one, other)
  np.testing.assert_allclose(part, [expected], rtol=1e-5)


def test_the_parts_of_a_gaussian_divergence():
  """The parts are the means' divergence and the deviations' divergence.

  The deviations are unchanged in the first part, the means in the second.
  """
  one, other = (
    make("gaussian")[0],
    make_other("gaussian", numpy_ops, lambda x: x),
  )
  std, other_std = np.exp(one.log_std), np.exp(other.log_std)
  mean = ((one.mean - other.mean) ** 2 / (2 * std**2)).sum(axis=1)
  ratio = std / other_std
  deviation = (0.5 * (ratio**2 - 1) - np.log(ratio)).sum(axis=1)
  _, found = distributions.kl_parts(one, other)
  np.testing.assert_allclose(found[0], mean, rtol=1e-5)
  np.testing.assert_allclose(found[1], deviation, rtol=1e-5)


def test_the_entropy_of_a_tanh_gaussian_is_estimated():
  grid, area = make_grid("tanh_gaussian")
  logs = make("tanh_gaussian")[0].log_prob(grid).astype(float)
  policy, random = make("tanh_gaussian", "tensorflow", SAMPLES)
  found = policy.entropy(random).numpy().mean()
  expected = -(np.exp(logs) * logs).sum() * area
  np.testing.assert_allclose(found, expected, atol=0.02)
