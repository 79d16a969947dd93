"""Tests of actor-critic losses against the papers' sums, item by item."""

import numpy as np
import pytest
import tensorflow as tf

from slipway.agents.losses import actor_critic
from slipway.agents.networks import distributions, tf_ops
from tests.agents.losses import checks

BATCH, CRITICS = 9, 2
TEMPERATURE = 0.3


def make_inputs(seed):
  random = np.random.default_rng(seed)
  terminated = random.random(BATCH) < 0.4
  return {
    "r_t": random.normal(size=BATCH),
    "discount_t": 0.9 * ~terminated,
    "q_t": random.normal(size=(BATCH, CRITICS)),
    "entropy_cost_t": TEMPERATURE * random.normal(size=BATCH),
    "q_tm1": random.normal(size=(BATCH, CRITICS)),
  }


TARGET = ("r_t", "discount_t", "q_t", "entropy_cost_t")


def slow_target(inputs):
  """Returns the critics' targets: Haarnoja et al. 2018, equations 5 and 8."""
  targets = []
  for i in range(BATCH):
    soft = min(inputs["q_t"][i]) - inputs["entropy_cost_t"][i]
    targets.append(inputs["r_t"][i] + inputs["discount_t"][i] * soft)
  return np.array(targets)


def critic_loss(inputs, slow):
  if slow:
    targets = slow_target(inputs)
    return np.array(
      [
        sum(0.5 * (q - targets[i]) ** 2 for q in inputs["q_tm1"][i])
        for i in range(BATCH)
      ]
    )
  target = actor_critic.soft_target(**{x: inputs[x] for x in TARGET})
  return actor_critic.critic_loss(inputs["q_tm1"], target).loss


# Without an entropy cost, the target is TD3's.
@pytest.mark.parametrize("entropy_cost", [False, True])
def test_the_critics_targets_and_loss_equal_the_slow_ones(entropy_cost):
  inputs = make_inputs(0)
  inputs["entropy_cost_t"] *= entropy_cost
  tensors = checks.to_tensors(inputs)
  names = TARGET if entropy_cost else TARGET[:3]
  target = actor_critic.soft_target(**{x: tensors[x] for x in names})
  np.testing.assert_allclose(target, slow_target(inputs), rtol=1e-9)
  found = actor_critic.critic_loss(tensors["q_tm1"], target)
  np.testing.assert_allclose(found.loss, critic_loss(inputs, slow=True))
  errors = slow_target(inputs)[:, None] - inputs["q_tm1"]
  np.testing.assert_allclose(found.td_error, np.abs(errors).mean(axis=1))


def test_only_the_critics_have_a_gradient():
  checks.check_gradients(critic_loss, make_inputs(0), "q_tm1")
  inputs = {x: make_inputs(0)[x] for x in TARGET}
  checks.check_ranks(actor_critic.soft_target, inputs)


QUANTILES, DROPPED = 4, 1
TAUS = (np.arange(QUANTILES) + 0.5) / QUANTILES


def quantile_inputs(seed):
  random = np.random.default_rng(seed)
  shape = (BATCH, CRITICS, QUANTILES)
  return {
    "quantiles_tm1": 2.0 * random.normal(size=shape),
    **{x: make_inputs(seed)[x] for x in ("r_t", "discount_t")},
    "quantiles_t": 2.0 * random.normal(size=shape),
    "entropy_cost_t": make_inputs(seed)["entropy_cost_t"],
  }


def slow_quantile_loss(inputs):
  """Kuznetsov et al. 2020, equations 9 to 13, for each quantile and target."""
  losses, errors = [], []
  for b in range(BATCH):
    pooled = sorted(inputs["quantiles_t"][b].ravel())
    kept = pooled[: CRITICS * (QUANTILES - DROPPED)]
    targets = [
      inputs["r_t"][b]
      + inputs["discount_t"][b] * (z - inputs["entropy_cost_t"][b])
      for z in kept
    ]
    loss = 0.0
    for c in range(CRITICS):
      for tau, q in zip(TAUS, inputs["quantiles_tm1"][b, c], strict=True):
        for y in targets:
          u = y - q
          huber = 0.5 * u**2 if abs(u) <= 1 else abs(u) - 0.5
          loss += abs(tau - (u < 0)) * huber / (len(targets) * QUANTILES)
    losses.append(loss)
    errors.append(np.mean(targets) - inputs["quantiles_tm1"][b].mean())
  return np.array(losses), np.array(errors)


def quantile_loss(inputs, slow):
  if slow:
    return slow_quantile_loss(inputs)[0]
  taus = tf.constant(TAUS)
  return actor_critic.truncated_quantile_loss(
    **inputs, taus=taus, dropped=DROPPED
  ).loss


def test_the_quantile_loss_equals_the_papers():
  inputs = quantile_inputs(0)
  found = actor_critic.truncated_quantile_loss(
    **checks.to_tensors(inputs), taus=tf.constant(TAUS), dropped=DROPPED
  )
  losses, errors = slow_quantile_loss(inputs)
  np.testing.assert_allclose(found.loss, losses, rtol=1e-9)
  np.testing.assert_allclose(found.td_error, errors, rtol=1e-9)
  checks.check_gradients(quantile_loss, quantile_inputs(1), "quantiles_tm1")


ATOMS = np.linspace(-2.0, 3.0, 6)


def categorical_inputs(seed, critics=CRITICS):
  random = np.random.default_rng(seed)
  inputs = make_inputs(seed)
  return {
    "logits_tm1": random.normal(size=(BATCH, critics, len(ATOMS))),
    "logits_t": random.normal(size=(BATCH, critics, len(ATOMS))),
    **{x: inputs[x] for x in ("r_t", "discount_t", "entropy_cost_t")},
  }


def softmax(x):
  weights = np.exp(x - x.max())
  return weights / weights.sum()


def slow_distribution(inputs, i):
  """Returns the target distribution: Barth-Maron et al. 2018, appendix A.

  It is that of the critic with the lowest mean.
  """
  each = [softmax(logits) for logits in inputs["logits_t"][i]]
  chosen = min(each, key=lambda p: (p * ATOMS).sum())
  target = np.zeros(len(ATOMS))
  gap = ATOMS[1] - ATOMS[0]
  for p, z in zip(chosen, ATOMS, strict=True):
    z = z - inputs["entropy_cost_t"][i]
    z = inputs["r_t"][i] + inputs["discount_t"][i] * z
    place = (min(max(z, ATOMS[0]), ATOMS[-1]) - ATOMS[0]) / gap
    below = int(np.floor(place))
    above = min(below + 1, len(ATOMS) - 1)
    target[below] += p * (1 - (place - below))
    target[above] += p * (place - below)
  return target


def categorical_loss(inputs, slow):
  if slow:
    return np.array(
      [
        sum(
          -(slow_distribution(inputs, i) * np.log(softmax(logits))).sum()
          for logits in inputs["logits_tm1"][i]
        )
        for i in range(BATCH)
      ]
    )
  atoms = tf.constant(ATOMS)
  return actor_critic.categorical_critic_loss(**inputs, atoms=atoms).loss


@pytest.mark.parametrize("critics", [1, 2])
def test_the_categorical_loss_equals_the_slow_one(critics):
  inputs = categorical_inputs(3, critics)
  found = actor_critic.categorical_critic_loss(
    **checks.to_tensors(inputs), atoms=tf.constant(ATOMS)
  )
  slow = categorical_loss(inputs, slow=True)
  np.testing.assert_allclose(found.loss, slow, rtol=1e-6)
  entropy = []
  for i in range(BATCH):
    target = slow_distribution(inputs, i)
    entropy.append(-sum(m * np.log(m) for m in target if m > 0))
  np.testing.assert_allclose(found.td_error, slow / critics - entropy)


def test_only_the_online_logits_have_a_gradient():
  inputs = categorical_inputs(0)
  checks.check_gradients(categorical_loss, inputs, "logits_tm1")


def test_a_smoothed_action_equals_the_slow_one():
  random = np.random.default_rng(0)
  action = random.uniform(-1, 1, size=(BATCH, 3))
  noise = random.normal(size=(BATCH, 3))
  expected = [
    [
      min(1.0, max(-1.0, a + min(0.5, max(-0.5, 0.4 * e))))
      for a, e in zip(actions, noises, strict=True)
    ]
    for actions, noises in zip(action, noise, strict=True)
  ]
  found = actor_critic.smooth_action(
    tf.constant(action), tf.constant(noise), std=0.4, clip=0.5
  )
  np.testing.assert_allclose(found, expected)


def policy_loss(inputs, slow):
  if slow:
    return np.array(
      [
        TEMPERATURE * inputs["log_prob"][i] - inputs["value"][i]
        for i in range(BATCH)
      ]
    )
  return actor_critic.soft_policy_loss(**inputs)


def test_the_policys_loss_and_its_gradients():
  """It does not change the temperature."""
  random = np.random.default_rng(0)
  inputs = {
    "value": random.normal(size=BATCH),
    "log_prob": random.normal(size=BATCH),
    "temperature": np.array(TEMPERATURE),
  }
  found = policy_loss(checks.to_tensors(inputs), slow=False)
  np.testing.assert_allclose(found, policy_loss(inputs, slow=True))
  checks.check_gradients(policy_loss, inputs, "value", "log_prob")


def test_only_the_temperature_has_a_gradient_of_its_loss():
  def loss_of(inputs, slow):
    if slow:
      return -inputs["log_temperature"] * (inputs["log_prob"] + 1.0)
    return actor_critic.temperature_loss(**inputs, target_entropy=1.0)

  inputs = {"log_temperature": np.array(0.2), "log_prob": np.array([-6.0, 2.0])}
  checks.check_gradients(loss_of, inputs, "log_temperature")


@pytest.mark.parametrize("start", [-2.0, 2.0])
def test_the_temperature_converges_to_the_target_entropy(start):
  """At each step, the policy is the soft optimum, pi = softmax(q / alpha)."""
  values = tf.constant([0.0, 1.0, 3.0], tf.float64)
  log_temperature = tf.Variable(start, dtype=tf.float64)
  entropies = []
  for _ in range(200):
    with tf.GradientTape() as tape:
      log_p = tf.nn.log_softmax(values / tf.exp(log_temperature))
      log_prob = tf.reduce_sum(tf.exp(log_p) * log_p, keepdims=True)
      loss = actor_critic.temperature_loss(
        log_temperature, log_prob, target_entropy=0.5
      )
    gradient = tape.gradient(loss, log_temperature).numpy()
    log_temperature.assign_sub(0.5 * gradient)
    entropies.append(-float(log_prob[0]))
  assert (entropies[0] > 0.5) == (start > 0)
  assert entropies[-1] == pytest.approx(0.5, abs=1e-6)


SAMPLES, COMPONENTS = 5, 3
ETA, ALPHA = 0.7, np.array([2.0, 0.5])
ETA_BOUND, KL_BOUNDS = 0.1, np.array([0.02, 0.003])


def make_mpo(seed):
  random = np.random.default_rng(seed)
  return {
    "value": random.normal(size=(SAMPLES, BATCH)),
    "log_prob": random.normal(size=(SAMPLES, BATCH, 2)),
    "kl": random.random(size=(BATCH, 2)),
    "temperature": np.array(ETA),
    "multipliers": ALPHA.copy(),
  }


MPO_KL = make_mpo(1)["kl"]


def slow_mpo(inputs):
  """Returns the sum of the three losses of Abdolmaleki et al. 2018."""
  total, eta = 0.0, inputs["temperature"]
  for j in range(BATCH):
    values = inputs["value"][:, j]
    fixed = [np.exp(q / ETA) for q in values]
    for i in range(SAMPLES):
      for k in range(2):
        total -= fixed[i] / sum(fixed) * inputs["log_prob"][i, j, k]
    mean = sum(np.exp(q / eta) for q in values) / SAMPLES
    total += eta * ETA_BOUND + eta * np.log(mean)
    for k in range(2):
      total += ALPHA[k] * inputs["kl"][j, k]
      total += inputs["multipliers"][k] * (KL_BOUNDS[k] - MPO_KL[j, k])
  return total / BATCH


def mpo_loss(inputs, slow):
  if slow:
    return np.array([slow_mpo(inputs)])
  found = actor_critic.mpo(
    **inputs, temperature_bound=ETA_BOUND, kl_bounds=tf.constant(KL_BOUNDS)
  )
  return found.policy_loss + found.temperature_loss + found.kl_loss


def test_mpo_equals_the_slow_sum():
  inputs = make_mpo(1)
  found = mpo_loss(checks.to_tensors(inputs), slow=False)
  np.testing.assert_allclose(found, slow_mpo(inputs), rtol=1e-9)
  names = ("log_prob", "temperature", "multipliers", "kl")
  checks.check_gradients(mpo_loss, inputs, *names)


def test_mpo_equals_acmes_loss():
  from acme.tf.losses import mpo
  from tensorflow_probability import distributions as tfd

  random = np.random.default_rng(3)
  target, online = (
    distributions.Gaussian(
      tf_ops,
      tf.constant(random.normal(size=(BATCH, COMPONENTS)), tf.float32),
      tf.constant(random.normal(size=(BATCH, COMPONENTS)) / 4, tf.float32),
    )
    for _ in range(2)
  )
  samples = [target.sample(tf.constant([7, i])) for i in range(SAMPLES)]
  action = tf.stack(samples)
  value = tf.constant(random.normal(size=(SAMPLES, BATCH)), tf.float32)
  parts, kl = distributions.kl_parts(target, online)
  found = actor_critic.mpo(
    value,
    tf.stack([part.log_prob(action) for part in parts], axis=-1),
    tf.stack(kl, axis=-1),
    tf.constant(ETA),
    tf.constant(ALPHA, tf.float32),
    ETA_BOUND,
    tf.constant(KL_BOUNDS, tf.float32),
  )
  acme = mpo.MPO(
    ETA_BOUND,
    *KL_BOUNDS.tolist(),
    # Acme applies softplus to these initial values.
    *np.log(np.expm1([ETA, *ALPHA])).astype(np.float32),
    per_dim_constraining=False,
    action_penalization=False,
  )
  expected, _ = acme(
    *(
      tfd.MultivariateNormalDiag(x.mean, tf.exp(x.log_std))
      for x in (online, target)
    ),
    action,
    value,
  )
  total = found.policy_loss + found.temperature_loss + found.kl_loss
  np.testing.assert_allclose(total, expected, rtol=1e-5)
