"""Advantages of rollouts, and the losses of policies that learn from them."""

import typing

import tensorflow as tf

from slipway.agents.losses import output


class Advantages(typing.NamedTuple):
  """Of each step of a rollout; both without gradients."""

  advantages: tf.Tensor  # [B, T]
  returns: tf.Tensor  # [B, T], lambda-returns: the targets of the values


def generalized_advantages(
  reward: tf.Tensor,
  discount: tf.Tensor,
  ended: tf.Tensor,
  values: tf.Tensor,
  lambda_: float,
) -> Advantages:
  """Generalized advantage estimation.

    delta_t = r_{t+1} + d_{t+1} v_{t+1} - v_t
    A_t     = delta_t + d_{t+1} lambda A_{t+1}, without the second term where
              the episode ended in the step
    G_t     = A_t + v_t

  Schulman et al. 2016, "High-dimensional continuous control using generalized
  advantage estimation" (https://arxiv.org/abs/1506.02438), equations 11 and 16.
  A truncated episode bootstraps from the value of its true last observation,
  for which `values` has a place; the step in which the environment then resets
  itself is no step of an episode, and its results are to be ignored.

  Args:
    reward: [B, T].
    discount: [B, T], gamma, or 0 where terminated.
    ended: [B, T] bool, the step was the last one of its episode.
    values: [B, T + 1], of the observations.
    lambda_: in [0, 1], the weight of longer returns.
  """
  output.check_ranks(
    reward=(reward, 2),
    discount=(discount, 2),
    ended=(ended, 2),
    values=(values, 2),
  )
  values = tf.stop_gradient(values)
  deltas = reward + discount * values[:, 1:] - values[:, :-1]
  traces = lambda_ * discount * (1.0 - tf.cast(ended, discount.dtype))
  steps: typing.Any = reward.shape[1]
  advantage = tf.zeros_like(values[:, 0])
  advantages = []
  # Unrolled: a scan costs several times as much at usual lengths.
  for t in reversed(range(steps)):
    advantage = deltas[:, t] + traces[:, t] * advantage
    advantages.append(advantage)
  stacked = tf.stack(advantages[::-1], axis=1)
  return Advantages(stacked, stacked + values[:, :-1])


class ClippedOutput(typing.NamedTuple):
  """A loss per step, and how far the policy has moved."""

  loss: tf.Tensor  # [N]
  clipped: tf.Tensor  # [N] float, 1 where the ratio is out of its bounds
  kl: tf.Tensor  # [N], an estimate of KL(behaviour || policy), at least 0


def clipped_policy(
  log_prob: tf.Tensor,
  behaviour_log_prob: tf.Tensor,
  advantage: tf.Tensor,
  clip: float | tf.Tensor,
) -> ClippedOutput:
  """Clipped surrogate objective, as a loss.

    ratio = pi(a | o) / mu(a | o)
    loss  = -min(ratio A, clip(ratio, 1 - epsilon, 1 + epsilon) A)

  Schulman et al. 2017, "Proximal policy optimization algorithms"
  (https://arxiv.org/abs/1707.06347), equation 7. The divergence is estimated
  by ratio - 1 - log ratio.

  Args:
    log_prob: [N], of the actions by the policy that learns.
    behaviour_log_prob: [N], by the policy that acted.
    advantage: [N].
    clip: epsilon.

  Returns:
    `ClippedOutput`; gradients flow into `log_prob` only.
  """
  output.check_ranks(
    log_prob=(log_prob, 1),
    behaviour_log_prob=(behaviour_log_prob, 1),
    advantage=(advantage, 1),
  )
  advantage = tf.stop_gradient(advantage)
  log_ratio = log_prob - tf.stop_gradient(behaviour_log_prob)
  ratio = tf.exp(log_ratio)
  bounded = tf.clip_by_value(ratio, 1.0 - clip, 1.0 + clip)
  loss = -tf.minimum(ratio * advantage, bounded * advantage)
  clipped = tf.cast(tf.abs(ratio - 1.0) > clip, ratio.dtype)
  kl = tf.stop_gradient(ratio - 1.0 - log_ratio)
  return ClippedOutput(loss, clipped, kl)
