"""Losses of policies: REINFORCE's policy gradient, PPO's and V-MPO's."""

import typing

import tensorflow as tf

from slipway.agents.losses import output


def policy_gradient(log_prob: tf.Tensor, advantage: tf.Tensor) -> tf.Tensor:
  """Returns the policy gradient's losses -A log pi(a | o) of N steps, [N].

  Williams 1992 (https://doi.org/10.1007/BF00992696), theorem 1; Mnih et al.
  2016 (https://arxiv.org/abs/1602.01783), section 4.

  Args:
    log_prob: [N], log-probabilities of the actions by the learned policy.
    advantage: [N], advantages of the actions, which get no gradient.
  """
  output.check_ranks(1, log_prob=log_prob, advantage=advantage)
  return -tf.stop_gradient(advantage) * log_prob


class ClippedOutput(typing.NamedTuple):
  """PPO's losses of N steps.

  Attributes:
    loss: [N], loss of each step.
    clipped: [N] float, 1 where the probability ratio is out of its bounds, else
      0.
  """

  loss: tf.Tensor
  clipped: tf.Tensor


def clipped_policy(
  log_prob: tf.Tensor,
  old_log_prob: tf.Tensor,
  advantage: tf.Tensor,
  clip: float | tf.Tensor,
) -> ClippedOutput:
  """Returns the losses of PPO's clipped surrogate objective for N steps.

    ratio = pi(a | o) / pi_old(a | o)
    loss  = -min(ratio A, clip(ratio, 1 - epsilon, 1 + epsilon) A)

  Schulman et al. 2017, "Proximal policy optimization algorithms"
  (https://arxiv.org/abs/1707.06347), equation 7.

  Args:
    log_prob: [N], log-probabilities of the actions by the learned policy.
    old_log_prob: [N], log-probabilities of the actions by the old policy.
    advantage: [N], advantages of the actions.
    clip: epsilon, the distance from 1 at which the ratio is clipped.

  Returns:
    `ClippedOutput`; gradients flow into `log_prob` only.
  """
  output.check_ranks(
    1, log_prob=log_prob, old_log_prob=old_log_prob, advantage=advantage
  )
  advantage = tf.stop_gradient(advantage)
  ratio = tf.exp(log_prob - tf.stop_gradient(old_log_prob))
  bounded = tf.clip_by_value(ratio, 1.0 - clip, 1.0 + clip)
  loss = -tf.minimum(ratio * advantage, bounded * advantage)
  clipped = tf.cast(tf.abs(ratio - 1.0) > clip, ratio.dtype)
  return ClippedOutput(loss, clipped)


class VMPOOutput(typing.NamedTuple):
  """V-MPO's losses of a minibatch of N steps.

  Attributes:
    policy_loss: [], weighted negative log-likelihood of the actions.
    temperature_loss: [], loss of the temperature eta.
    kl_loss: [], KL penalty of the policy, and loss of the multipliers alpha.
    weights: [N], weights psi of the steps, 0 outside the top half.
  """

  policy_loss: tf.Tensor
  temperature_loss: tf.Tensor
  kl_loss: tf.Tensor
  weights: tf.Tensor


def vmpo(
  log_prob: tf.Tensor,
  advantage: tf.Tensor,
  kl: tf.Tensor,
  learned: tf.Tensor,
  temperature: tf.Tensor,
  multipliers: tf.Tensor,
  temperature_bound: float,
  kl_bounds: tf.Tensor,
) -> VMPOOutput:
  """Returns V-MPO's losses of the policy, the temperature and the KL bounds.

  The policy learns from the half of the steps with the highest advantages.

    psi_i         = exp(A_i / eta) / sum_j exp(A_j / eta), over the top half
    L_policy      = -sum_i psi_i log pi(a_i | o_i)
    L_temperature = eta eps_eta + eta log mean_i exp(A_i / eta)
    L_kl          = mean over all steps of
                    alpha (eps_alpha - sg(KL)) + sg(alpha) KL

  sg stops gradients, and KL = KL(old policy || learned policy).

  Song et al. 2019, "V-MPO" (https://arxiv.org/abs/1909.12238), equations 3-5.

  Args:
    log_prob: [N], log-probabilities of the actions by the learned policy.
    advantage: [N], advantages of the actions.
    kl: [N, K], divergences KL for K constraints. A Gaussian has K = 2, for its
      mean and its deviation (appendix D).
    learned: [N], 1 for the steps that count, 0 for others.
    temperature: [], eta, above 0.
    multipliers: [K], alpha, the Lagrange multipliers of the KL bounds, above 0.
    temperature_bound: eps_eta, the bound of the temperature's loss.
    kl_bounds: [K], eps_alpha, the upper bounds of the mean KL.

  Returns:
    `VMPOOutput`. Gradients of `policy_loss` flow into `log_prob` only, those of
    `temperature_loss` into `temperature`, and those of `kl_loss` into `kl` and
    `multipliers`.
  """
  output.check_ranks(1, log_prob=log_prob, advantage=advantage, learned=learned)
  output.check_ranks(2, kl=kl)
  lowest = advantage.dtype.min
  advantage = tf.stop_gradient(tf.where(learned > 0, advantage, lowest))
  count = tf.reduce_sum(tf.cast(learned > 0, tf.int32))
  rank = tf.argsort(tf.argsort(advantage, direction="DESCENDING", stable=True))
  top = rank < count // 2
  # The inner `where` keeps gradients of the steps that are left out finite.
  kept = tf.where(top, advantage, tf.zeros_like(advantage))
  scaled = tf.where(top, kept / temperature, lowest)
  weights = tf.stop_gradient(tf.where(top, tf.nn.softmax(scaled), 0.0))
  policy_loss = -tf.reduce_sum(weights * log_prob)
  half = tf.cast(tf.maximum(count // 2, 1), advantage.dtype)
  mean = tf.reduce_logsumexp(scaled) - tf.math.log(half)
  # Of fewer than two steps there is no half, and no temperature to learn.
  temperature_loss = tf.where(
    count >= 2, temperature * (temperature_bound + mean), 0.0
  )
  share = learned / tf.maximum(tf.reduce_sum(learned), 1.0)
  mean_kl = tf.reduce_sum(share[:, None] * kl, axis=0)  # [K]
  kl_loss = output.kl_penalty(mean_kl, multipliers, kl_bounds)
  return VMPOOutput(policy_loss, temperature_loss, kl_loss, weights)
