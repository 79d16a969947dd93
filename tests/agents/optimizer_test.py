"""Tests of the optimizers against their papers' algorithms, in NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from slipway.agents import optimizer
from slipway.configs import dqn

SHAPES = ((3, 2), (2,))


class Adam:
  """Adam: Kingma and Ba 2015, algorithm 1, with epsilon hat of section 2."""

  def __init__(self, values, epsilon):
    self.values, self._epsilon = [x.astype(float) for x in values], epsilon
    self._m = [np.zeros_like(x) for x in self.values]
    self._v = [np.zeros_like(x) for x in self.values]
    self._t = 0

  def step(self, gradients, rate):
    self._t += 1
    alpha = rate * np.sqrt(1 - 0.999**self._t) / (1 - 0.9**self._t)
    for i, g in enumerate(gradients):
      self._m[i] = 0.9 * self._m[i] + 0.1 * g
      self._v[i] = 0.999 * self._v[i] + 0.001 * g**2
      change = alpha * self._m[i] / (np.sqrt(self._v[i]) + self._epsilon)
      self.values[i] = self.values[i] - change


def make_variables(seed=0):
  random = np.random.default_rng(seed)
  return [
    tf.Variable(random.normal(size=shape), dtype=tf.float32) for shape in SHAPES
  ]


def make_step(variables, **settings):
  """Returns a traced step whose gradients are arguments, and its optimizer."""
  own = optimizer.Optimizer(variables, optimizer.Settings(**settings))

  @tf.function(autograph=False)
  def step(rate, *gradients):
    with tf.GradientTape() as tape:
      loss = tf.add_n(
        [
          tf.reduce_sum(g * v)
          for g, v in zip(gradients, variables, strict=True)
        ]
      )
    return own.minimize(loss, tape, rate)

  return step, own


def make_gradients(random):
  return [random.normal(size=shape).astype(np.float32) for shape in SHAPES]


@pytest.mark.parametrize(
  ("epsilon", "max_norm", "scales", "broken"),
  [
    (1e-8, 1e6, [1.0] * 10, None),
    (1e-2, 1e6, [1.0] * 10, None),
    # All gradients are clipped by their norm together.
    (1e-3, 0.5, [1.0, 0.01, 100.0], None),
    # A gradient that is not finite skips the step. The squares of 1e30 are
    # infinite in float32, and so is the norm.
    *(
      (1e-3, max_norm, [0.01] * 3, broken)
      for max_norm in (0.5, np.inf)
      for broken in (np.nan, np.inf, -np.inf, 1e30)
    ),
  ],
)
def test_steps_equal_the_papers(epsilon, max_norm, scales, broken):
  variables, random = make_variables(), np.random.default_rng(1)
  expected = Adam([v.numpy() for v in variables], epsilon)
  step, _ = make_step(variables, epsilon=epsilon, max_gradient_norm=max_norm)
  for i, scale in enumerate(scales):
    rate = 0.1 / (i + 1)
    gradients = [np.float32(scale) * g for g in make_gradients(random)]
    total = np.sqrt(sum((g**2).sum() for g in gradients))
    applied = [g * min(1.0, max_norm / total) for g in gradients]
    if broken is not None and i == 1:
      gradients[1][0] = broken
      assert not np.isfinite(step(tf.constant(rate), *gradients))
    else:
      norm = step(tf.constant(rate), *gradients)
      np.testing.assert_allclose(norm, total, rtol=1e-5)
      expected.step(applied, rate)
    for found, wanted in zip(variables, expected.values, strict=True):
      np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def adamw(value, gradients, rate):
  """Loshchilov and Hutter 2019, algorithm 2, lines 5 to 12, for one weight."""
  m = v = 0.0
  for t, g in enumerate(gradients, 1):
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
    m_hat, v_hat = m / (1 - 0.9**t), v / (1 - 0.999**t)
    value = value - rate * (m_hat / (np.sqrt(v_hat) + 1e-12) + 0.1 * value)
  return value


def rmsprop(value, gradients, rate):
  """Mnih et al. 2016, equation 3, for one weight."""
  square = 0.0
  for g in gradients:
    square = 0.99 * square + 0.01 * g**2
    value = value - rate * g / np.sqrt(square + 0.1)
  return value


def sgd(value, gradients, rate):
  return value - rate * sum(gradients)


class Signs(tf.Module):
  """A user's optimizer, whose steps have one size."""

  def __init__(self, variables):
    super().__init__()
    self._variables = variables

  def apply(self, gradients, learning_rate):
    for gradient, variable in zip(gradients, self._variables, strict=True):
      variable.assign_sub(learning_rate * tf.sign(gradient))


class Late(Signs):
  """A user's optimizer that makes its state in the first step."""

  def apply(self, gradients, learning_rate):
    self._moments = [tf.Variable(tf.zeros_like(x)) for x in gradients]


class Plain:
  """A user's optimizer whose state no checkpoint would have."""

  apply = Signs.apply


class Still(tf.Module):
  """A user's optimizer that lacks its method."""


def signs(value, gradients, rate):
  return value - rate * sum(map(np.sign, gradients))


@pytest.mark.parametrize(
  ("reference", "settings"),
  [
    (adamw, {"kind": "adamw", "epsilon": 1e-12, "weight_decay": 0.1}),
    (rmsprop, {"kind": "rmsprop", "epsilon": 0.1}),
    (sgd, {"kind": "sgd"}),
    (signs, {"kind": f"{__name__}:Signs"}),
  ],
)
def test_other_optimizers_equal_their_papers(reference, settings):
  variables, random = make_variables(), np.random.default_rng(1)
  before = variables[0].numpy().astype(float)
  step, _ = make_step(variables, **settings)
  gradients = [make_gradients(random) for _ in range(7)]
  for pair in gradients:
    step(tf.constant(0.05), *pair)
  expected = [
    [
      reference(before[i, j], [g[0][i, j] for g in gradients], 0.05)
      for j in (0, 1)
    ]
    for i in range(3)
  ]
  np.testing.assert_allclose(variables[0], expected, rtol=1e-4)


def test_weight_decay_leaves_biases():
  one, other = make_variables(), make_variables()
  for variables, decay in ((one, 0.5), (other, 0.0)):
    step, _ = make_step(variables, kind="adamw", weight_decay=decay)
    step(tf.constant(0.1), *make_gradients(np.random.default_rng(1)))
  np.testing.assert_array_equal(one[1], other[1])
  assert (np.abs(one[0].numpy()) < np.abs(other[0].numpy())).all()


@pytest.mark.parametrize(
  ("fields", "expected"),
  [
    ({}, [1.0, 1.0, 1.0, 1.0, 1.0, 1.0]),
    ({"decay_steps": 4}, [1.0, 0.75, 0.5, 0.25, 0.05, 0.05]),
    (
      {"decay_steps": 4, "schedule": "cosine"},
      [1.0, 0.8536, 0.5, 0.1464, 0.05, 0.05],
    ),
    ({"warmup_steps": 4}, [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]),
    ({"warmup_steps": 2, "decay_steps": 4}, [0.5, 0.75, 0.5, 0.25, 0.05, 0.05]),
  ],
)
def test_rates_follow_the_schedule(fields, expected):
  learner = dqn.get_config().learner
  learner.decay_steps = 0
  learner.update(fields)
  factors = [
    optimizer.rate_factor(learner, tf.Variable(tf.constant(i, tf.int64)))
    for i in range(6)
  ]
  np.testing.assert_allclose(factors, expected, atol=1e-4)


def test_a_checkpoint_restores_the_moments(tmp_path):
  random = np.random.default_rng(1)
  one, other = make_variables(0), make_variables(5)
  (step, state), (other_step, other_state) = (
    make_step(variables, max_gradient_norm=1.0) for variables in (one, other)
  )
  for _ in range(3):
    step(tf.constant(0.1), *make_gradients(random))

  def checkpoint(variables, state):
    return tf.train.Checkpoint(variables=variables, optimizer=state)

  path = checkpoint(one, state).save(str(tmp_path / "c"))
  checkpoint(other, other_state).restore(path).assert_consumed()
  gradients = make_gradients(random)
  step(tf.constant(0.1), *gradients)
  other_step(tf.constant(0.1), *gradients)
  for found, wanted in zip(other, one, strict=True):
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("name", ["Plain", "Still", "signs"])
def test_own_optimizers_that_could_not_learn_are_rejected(name):
  with pytest.raises(ValueError, match=f"{name}' is not a tf.Module whose"):
    optimizer.Optimizer([], optimizer.Settings(f"{__name__}:{name}"))


def test_an_own_optimizer_makes_its_variables_in_its_constructor():
  step, _ = make_step(make_variables(0), kind=f"{__name__}:Late")
  with pytest.raises(ValueError, match="makes a variable in apply"):
    step(tf.constant(0.1), *make_gradients(np.random.default_rng(1)))


def make_dual_step(dual, learning_rate):
  """Returns a function that steps dual variables against a gradient.

  The gradient is that of their `variable`, and not of themselves.
  """
  own = optimizer.Optimizer([dual.variable], optimizer.Settings())

  @tf.function(autograph=False)
  def step(gradient):
    with tf.GradientTape() as tape:
      loss = tf.reduce_sum(gradient * dual.variable)
    own.minimize(loss, tape, learning_rate)

  return step


@pytest.mark.parametrize("is_logarithm", [False, True])
def test_dual_variables_start_at_their_values(is_logarithm):
  values = [1e-6, 1e-3, 1.0, 10.0, 1_000.0]
  dual = optimizer.Dual(values, is_logarithm)
  np.testing.assert_allclose(dual(), values, rtol=2e-6)


@pytest.mark.parametrize(
  ("is_logarithm", "large"), [(False, 1_001.0), (True, 1_000.0 * np.e)]
)
def test_steps_change_dual_variables_by_a_factor_but_softplus_large_ones_not(
  is_logarithm, large
):
  dual = optimizer.Dual([1_000.0, 0.01], is_logarithm)
  step = make_dual_step(dual, 0.1)
  for _ in range(10):
    step(tf.constant([-1.0, -1.0]))
  np.testing.assert_allclose(dual(), [large, 0.01 * np.e], rtol=0.02)


@pytest.mark.parametrize("is_logarithm", [False, True])
def test_a_dual_variable_falls_no_further_than_its_lowest_value(is_logarithm):
  """So once its gradient turns, it is soon back."""
  dual = optimizer.Dual([10.0, 1.0], is_logarithm)
  step = make_dual_step(dual, 1.0)
  for _ in range(50):
    step(tf.constant([1.0, -1.0]))
  np.testing.assert_allclose(dual()[0], 1e-6, rtol=1e-4)
  assert dual.variable[1] > 40.0
  for _ in range(50):
    step(tf.constant([-1.0, -1.0]))
  assert dual()[0] > 1.0
