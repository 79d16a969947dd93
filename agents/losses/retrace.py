"""Retrace: targets of action values from sequences of an older policy."""

import tensorflow as tf

from slipway.agents.losses import output, traces


def retrace_targets(
  reward: tf.Tensor,
  discount: tf.Tensor,
  ended: tf.Tensor,
  q: tf.Tensor,
  next_values: tf.Tensor,
  log_ratio: tf.Tensor,
  lambda_: float,
) -> tf.Tensor:
  """Returns Retrace's targets G_t [B, T] of q(o_t, a_t), without gradients.

  Retrace corrects sequences of a policy mu for the policy pi.

    c_t     = lambda min(1, pi(a_t | o_t) / mu(a_t | o_t))
    delta_t = r_{t+1} + d_{t+1} v_{t+1} - q_t
    G_t     = q_t + delta_t + d_{t+1} c_{t+1} (G_{t+1} - q_{t+1}), without the
              last term where the episode or the sequence ends in the step

  So G_t - q_t is the sum of delta_t and of the episode's later errors delta_s,
  weighted by the discounts and by the product of c_{t+1} to c_s. The ratio of
  a_t itself has no effect on G_t.

  A truncated episode bootstraps from its true last observation. The autoreset
  step after an episode belongs to no episode. Its target has no meaning, and
  learners mask it.

  Munos et al. 2016, "Safe and efficient off-policy reinforcement learning"
  (https://arxiv.org/abs/1606.02647), equations 3 and 4, and table 1.

  Args (others: see `output`):
    q: [B, T], target critics' values q_t of observations o_t and actions a_t.
    next_values: [B, T], expected values v_{t+1} of the observations after the
      steps, for actions of pi.
  """
  output.check_ranks(
    2,
    reward=reward,
    discount=discount,
    ended=ended,
    q=q,
    next_values=next_values,
    log_ratio=log_ratio,
  )
  # The minimum comes first, as the exponential of a large ratio is infinite.
  c = lambda_ * tf.exp(tf.minimum(log_ratio, 0.0))
  next_c = tf.pad(c[:, 1:], [[0, 0], [0, 1]])  # c_{t+1}
  errors = reward + discount * next_values - q
  factor = traces.zero_at_ends(discount, ended) * next_c
  return tf.stop_gradient(q + traces.discounted_sums(errors, factor))
