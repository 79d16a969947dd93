"""The losses of soft actor-critic."""

import typing

import tensorflow as tf

from slipway.agents.losses import output


def soft_target(
  r_t: tf.Tensor,
  discount_t: tf.Tensor,
  q_t: tf.Tensor,
  log_prob_t: tf.Tensor,
  temperature: tf.Tensor,
) -> tf.Tensor:
  """The target of the critics, without a gradient, [B].

    y = r_t + discount_t (min_i q_i(o_t, a_t) - alpha log pi(a_t | o_t))

  Haarnoja et al. 2018, "Soft actor-critic algorithms and applications"
  (https://arxiv.org/abs/1812.05905), equations 5 and 8; the minimum over two
  critics: section 6.

  Args:
    r_t: [B], n-step reward.
    discount_t: [B], factor before the bootstrap.
    q_t: [B, C], target critics' values of o_t and actions a_t ~ pi(o_t).
    log_prob_t: [B], of these actions.
    temperature: [] alpha.
  """
  output.check_ranks(
    r_t=(r_t, 1),
    discount_t=(discount_t, 1),
    q_t=(q_t, 2),
    log_prob_t=(log_prob_t, 1),
  )
  soft_value = tf.reduce_min(q_t, axis=1) - temperature * log_prob_t
  return tf.stop_gradient(r_t + discount_t * soft_value)


def critic_loss(q_tm1: tf.Tensor, target: tf.Tensor) -> output.LossOutput:
  """Half the squared errors, summed over the critics: equation 5.

  Args:
    q_tm1: [B, C], of o_tm1 and a_tm1.
    target: [B], from `soft_target`.

  Returns:
    `LossOutput`; its error is the mean of the critics'. Gradients flow into
    `q_tm1` only.
  """
  output.check_ranks(q_tm1=(q_tm1, 2), target=(target, 1))
  errors = tf.stop_gradient(target)[:, None] - q_tm1
  loss = 0.5 * tf.reduce_sum(errors**2, axis=1)
  return output.LossOutput(loss, tf.reduce_mean(errors, axis=1))


def policy_loss(
  q: tf.Tensor, log_prob: tf.Tensor, temperature: tf.Tensor
) -> tf.Tensor:
  """alpha log pi(a | o) - min_i q_i(o, a), a ~ pi(o), [B]: equation 7.

  Args:
    q: [B, C], of reparameterised actions; gradients flow through the actions.
    log_prob: [B], of these actions.
    temperature: [] alpha, without a gradient.
  """
  output.check_ranks(q=(q, 2), log_prob=(log_prob, 1))
  temperature = tf.stop_gradient(temperature)
  return temperature * log_prob - tf.reduce_min(q, axis=1)


def temperature_loss(
  log_temperature: typing.Any, log_prob: tf.Tensor, target_entropy: float
) -> tf.Tensor:
  """-log alpha (log pi(a | o) + target entropy), [B]: equation 18.

  By the logarithm, as the authors' own code has it, which keeps alpha above 0.

  Args:
    log_temperature: [], which learns.
    log_prob: [B], without a gradient.
    target_entropy: of the policy, in nats.
  """
  output.check_ranks(log_prob=(log_prob, 1))
  return -log_temperature * tf.stop_gradient(log_prob + target_entropy)
