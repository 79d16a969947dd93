"""Tests of C51's loss against the paper's algorithm, one atom at a time."""

import numpy as np
import pytest
import tensorflow as tf

from slipway.agents.losses import categorical
from slipway.agents.networks import heads
from slipway.configs import c51
from tests.agents.losses import checks

BATCH, ACTIONS = 6, 3
# Atoms, evenly spaced as in the paper, or on a scale of logarithms.
EVEN = np.linspace(-2.0, 4.0, 7)
SYMEXP = np.array([-7.0, -3.0, -1.0, 0.0, 1.0, 3.0, 7.0])


def make_inputs(seed, atoms=EVEN):
  random = np.random.default_rng(seed)
  return {
    "logits_tm1": random.normal(size=(BATCH, ACTIONS, len(atoms))),
    "a_tm1": random.integers(0, ACTIONS, BATCH),
    "r_t": 2 * random.normal(size=BATCH),  # some are outside the support
    "discount_t": np.where(random.random(BATCH) < 0.3, 0.0, 0.97),
    "logits_t": 2 * random.normal(size=(BATCH, ACTIONS, len(atoms))),
    "q_t_selector": random.normal(size=(BATCH, ACTIONS)),
    "atoms": atoms,
  }


def softmax(x):
  e = np.exp(x - x.max())
  return e / e.sum()


def project(probabilities, r, discount, atoms):
  """Projects onto the atoms: Bellemare et al. 2017, algorithm 1.

  b is the return's position among the atoms, which the paper has evenly spaced.
  """
  count = len(atoms)
  m = np.zeros(count)
  for j in range(count):
    b = np.interp(r + discount * atoms[j], atoms, range(count))
    lower, upper = int(np.floor(b)), int(np.ceil(b))
    if lower == upper:  # the paper's sums lose this probability
      m[lower] += probabilities[j]
    else:
      m[lower] += probabilities[j] * (upper - b)
      m[upper] += probabilities[j] * (b - lower)
  return m


def slow_loss(inputs):
  losses, divergences = [], []
  for i in range(BATCH):
    best = int(np.argmax(inputs["q_t_selector"][i]))
    m = project(
      softmax(inputs["logits_t"][i, best]),
      inputs["r_t"][i],
      inputs["discount_t"][i],
      inputs["atoms"],
    )
    p = softmax(inputs["logits_tm1"][i, inputs["a_tm1"][i]])
    losses.append(-sum(m[k] * np.log(p[k]) for k in range(len(m))))
    divergences.append(
      sum(m[k] * np.log(m[k] / p[k]) for k in range(len(m)) if m[k] > 0)
    )
  return np.array(losses), np.array(divergences)


def loss_of(inputs, slow):
  if slow:
    return slow_loss(inputs)[0]
  return categorical.categorical_q_learning(**inputs).loss


@pytest.mark.parametrize("atoms", [EVEN, SYMEXP, EVEN[:2]])
def test_loss_and_divergence_equal_the_slow_sum(atoms):
  inputs = make_inputs(0, atoms)
  output = categorical.categorical_q_learning(
    **checks.to_tensors(inputs),
    scale=categorical.make_scale(has_support=atoms is not SYMEXP),
  )
  loss, divergence = slow_loss(inputs)
  np.testing.assert_allclose(output.loss, loss, atol=1e-6)
  np.testing.assert_allclose(output.td_error, divergence, atol=1e-6)


@pytest.mark.parametrize(
  ("r", "discount", "p", "expected"),
  [
    # Terminated, with a reward halfway between the atoms 0 and 1.
    (0.5, 0.0, [0.2, 0.5, 0.3], [0.0, 0.5, 0.5]),
    (1.0, 0.0, [0.2, 0.5, 0.3], [0.0, 0.0, 1.0]),  # the reward is an atom
    # All returns are outside the support: the nearest atom has all.
    (7.0, 1.0, [0.2, 0.5, 0.3], [0.0, 0.0, 1.0]),
    (-7.0, 1.0, [0.2, 0.5, 0.3], [1.0, 0.0, 0.0]),
    # Shifted by 1/4: each atom keeps 3/4, and the last one keeps all.
    (0.25, 1.0, [0.2, 0.4, 0.4], [0.15, 0.35, 0.5]),
    (0.0, 0.5, [0.2, 0.4, 0.4], [0.1, 0.7, 0.2]),  # scaled by 1/2 around 0
  ],
)
def test_projection_by_hand(r, discount, p, expected):
  atoms = np.array([-1.0, 0.0, 1.0])
  np.testing.assert_allclose(
    project(np.array(p), r, discount, atoms), expected, atol=1e-12
  )
  returns = tf.constant([r + discount * atoms])
  found = categorical.project(returns, tf.constant([p], tf.float64), atoms)
  np.testing.assert_allclose(found[0], expected, atol=1e-12)


def test_projection_keeps_the_mean_of_returns_of_any_size():
  """As far as float32 can: the atoms of a head without a support."""
  config = c51.get_config().network
  config.update(lowest_return=-np.inf, highest_return=np.inf)
  atoms = heads.make_head(config).atoms
  assert len(atoms) == 255 and atoms[127] == 0.0 and atoms[-1] > 4e8
  np.testing.assert_array_equal(atoms, -atoms[::-1])
  steps = np.diff(np.log1p(atoms[127:].astype(float)))  # symlog
  np.testing.assert_allclose(steps, 40 / 254, rtol=1e-4)
  size = 10.0 ** np.arange(-2, 9)
  returns = np.stack([size, -size, 0.3 * size], 1).astype(np.float32)
  p = np.tile(np.float32([0.5, 0.2, 0.3]), (len(size), 1))
  padding = ((0, 0), (0, len(atoms) - 3))
  found = categorical.project(
    tf.constant(np.pad(returns, padding)),
    tf.constant(np.pad(p, padding)),
    tf.constant(atoms),
    categorical.make_scale(has_support=False),
  )
  mean = (found.numpy().astype(float) * atoms).sum(1)
  np.testing.assert_allclose(mean, (p * returns).sum(1), rtol=1e-5)


def test_only_the_online_logits_have_a_gradient():
  checks.check_gradients(loss_of, make_inputs(0), "logits_tm1")


def test_a_distribution_that_is_its_own_target_has_no_error():
  inputs = make_inputs(2)
  inputs["logits_t"] = inputs["logits_tm1"]
  inputs["r_t"][:], inputs["discount_t"][:] = 0.0, 1.0
  inputs["a_tm1"] = inputs["q_t_selector"].argmax(axis=1)
  output = categorical.categorical_q_learning(**checks.to_tensors(inputs))
  np.testing.assert_allclose(output.td_error, 0.0, atol=1e-6)
  assert (output.td_error.numpy() >= 0).all()


def test_the_probability_outside_the_support():
  atoms = tf.linspace(0.0, 10.0, 3)
  returns = tf.constant([[0.0, 5.0, 10.005], [-1.0, 4.0, 9.0], [1.0, 9.0, 11]])
  probabilities = tf.constant([[0.2, 0.3, 0.5]] * 3)
  found = categorical.compute_outside_support(returns, probabilities, atoms)
  np.testing.assert_allclose(found.below, [0.0, 0.2, 0.0])
  np.testing.assert_allclose(found.above, [0.0, 0.0, 0.5])
