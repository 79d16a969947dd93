"""Tests of importance weights against Schaul et al. 2016, section 3.4."""

import ml_collections
import numpy as np
import pytest
import tensorflow as tf

from slipway.agents import batch_weights
from slipway.replay.items import priorities
from slipway.replay.tables import dataset


def by_hand(probabilities, table_size, beta):
  weights = [
    (1 / (n * p)) ** beta
    for n, p in zip(table_size, probabilities, strict=True)
  ]
  return np.array(weights) / max(weights)


@pytest.mark.parametrize("beta", [0.0, 0.4, 0.7, 1.0])
def test_weights_equal_numpys(beta):
  random = np.random.default_rng(0)
  probabilities = random.dirichlet(np.ones(1_000) * 0.5)[:64] + 1e-9
  table_size = random.integers(500, 1_000_000, 64)
  weights = batch_weights.importance_weights(
    tf.constant(probabilities), tf.constant(table_size), tf.constant(beta)
  )
  assert weights.dtype == tf.float32
  np.testing.assert_allclose(
    weights, by_hand(probabilities, table_size, beta), rtol=1e-5
  )
  np.testing.assert_allclose(tf.reduce_max(weights), 1.0)


# Fraction of the batches from each shard.
@pytest.mark.parametrize("fractions", [(1 / 3, 1 / 3, 1 / 3), (0.6, 0.1, 0.3)])
@pytest.mark.parametrize("beta", [0.0, 0.4, 1.0])
def test_weights_over_shards_equal_those_over_all_items(beta, fractions):
  # The weights equal those of one table of all items, whose batches have these
  # fractions of each shard's items.
  random = np.random.default_rng(0)
  sizes = (700, 20, 300)
  total = sum(sizes)
  largest = max(n / f for n, f in zip(sizes, fractions, strict=True))
  ratios = []
  for size, fraction in zip(sizes, fractions, strict=True):
    own = random.dirichlet(np.ones(size) * 0.5) + 1e-9
    weights = batch_weights.importance_weights(
      tf.constant(own),
      tf.constant([size] * size),
      tf.constant(beta),
      tf.constant(size / fraction / largest, tf.float32),
    )
    of_all = (total * own * fraction) ** -beta
    # A batch's weights are divided by their maximum, here that of the shard.
    maximum = np.max((size * own) ** -beta)
    ratios.append(weights.numpy() * maximum / of_all)
  ratios = np.concatenate(ratios)
  np.testing.assert_allclose(ratios, ratios[0], rtol=1e-4)
  np.testing.assert_allclose(ratios[0], (total / largest) ** beta, 1e-4)


def test_weights_are_finite_for_probability_0_and_table_size_0():
  weights = batch_weights.importance_weights(
    tf.constant([0.0, 0.5], tf.float64), tf.constant([0, 4]), tf.constant(1.0)
  )
  assert np.isfinite(weights).all()
  assert np.max(weights) == 1


def test_priorities_are_absolute_errors_and_never_zero():
  for errors in (np.float32([-2, 0, 3]), tf.constant([-2.0, 0.0, 3.0])):
    found = np.asarray(priorities.from_td_errors(errors))
    np.testing.assert_allclose(found, [2 + 1e-6, 1e-6, 3 + 1e-6], rtol=1e-6)


# td_errors, learned, eta, and priorities computed by hand.
WINDOWS = [
  ([[0, 0, 0]], [[1, 1, 1]], 0.9, [0.0]),  # all errors are 0
  ([[0, 0, 0]], [[0, 0, 0]], 0.9, [0.0]),  # no step is learned from
  ([[-3, 0, 1], [0, 5, 0]], [[1, 1, 1], [0, 1, 0]], 0.75, [31 / 12, 5.0]),
  ([[-3, 0, 1]], [[1, 0, 1]], 0.0, [2.0]),
  ([[-3, 0, 1]], [[1, 0, 1]], 1.0, [3.0]),
]


@pytest.mark.parametrize(("td_errors", "learned", "eta", "expected"), WINDOWS)
def test_priorities_of_sequences(td_errors, learned, eta, expected):
  """Priorities in NumPy (workers) equal those in TensorFlow (learners)."""
  arrays = np.float32(td_errors), np.float32(learned)
  found = priorities.from_sequences(*arrays, eta)
  tensors = priorities.from_sequences(*map(tf.constant, arrays), eta)
  assert found.dtype == tensors.numpy().dtype == np.float32
  np.testing.assert_allclose(found, np.array(expected) + 1e-6, rtol=1e-6)
  np.testing.assert_allclose(found, tensors, rtol=1e-6)
  assert (found > 0).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, -0.5])
def test_priority_that_stops_a_table_is_rejected(bad):
  with pytest.raises(ValueError, match=r"priorities\[1\]=\S+ must be finite"):
    priorities.check(np.array([1.0, bad, bad]))
  priorities.check(np.array([0.0, 1e-9, 1e9]))


@pytest.mark.parametrize("sampler", ["uniform", "prioritized"])
@pytest.mark.parametrize("shard_weight", [None, 0.5])
def test_recorded_elements_have_weight_1(sampler, shard_weight):
  replay = ml_collections.ConfigDict(
    {
      "sampler": sampler,
      "importance_exponent_start": 1.0,
      "importance_exponent_end": 1.0,
      "importance_steps": 1,
    }
  )
  batch = dataset.Batch(
    None,
    probabilities=tf.constant([0.1, 0.2, 0.4], tf.float64),
    table_size=tf.constant([10, 10, 10], tf.int64),
    shard_weight=shard_weight and tf.constant(shard_weight),
  )
  mixed = batch._replace(recorded=2)
  for compute in (
    lambda x: batch_weights.compute(replay, x, tf.Variable(0)),
    lambda x: batch_weights.compute_inverse_rates(replay, x),
  ):
    alone, both = compute(batch), compute(mixed)
    if alone is None:
      assert both is None
    else:
      np.testing.assert_array_equal(both[:3], alone)
      np.testing.assert_array_equal(both[3:], [1.0, 1.0])
