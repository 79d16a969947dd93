"""The losses of soft actor-critic (SAC): critics, policy and temperature.

Equations are those of Haarnoja et al. 2018, "Soft actor-critic algorithms and
applications" (https://arxiv.org/abs/1812.05905).
"""

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
  """Returns the critics' target values [B], without gradients.

    y = r_t + discount_t (min_i q_i(o_t, a_t) - alpha log pi(a_t | o_t))

  Haarnoja et al. 2018, "Soft actor-critic algorithms and applications"
  (https://arxiv.org/abs/1812.05905), equations 5 and 8; the minimum over two
  critics: section 6.

  Args:
    r_t: [B], discounted sums of the rewards of n steps.
    discount_t: [B], discount of the bootstrap: gamma^n, or 0 if terminated.
    q_t: [B, C], C target critics' values of o_t and sampled actions a_t ~ pi.
    log_prob_t: [B], log-probabilities of the actions a_t.
    temperature: [], alpha, the weight of the entropy.
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
  """Returns the critics' loss, half the squared errors summed over critics.

    loss = sum_i (target - q_i(o_tm1, a_tm1))^2 / 2

  Haarnoja et al. 2018 (https://arxiv.org/abs/1812.05905), equation 5.

  Args:
    q_tm1: [B, C], C critics' values of o_tm1 and a_tm1.
    target: [B], target values, the result of `soft_target`.

  Returns:
    `LossOutput`, whose error is the mean over the critics. Gradients flow into
    `q_tm1` only.
  """
  output.check_ranks(q_tm1=(q_tm1, 2), target=(target, 1))
  errors = tf.stop_gradient(target)[:, None] - q_tm1
  loss = 0.5 * tf.reduce_sum(errors**2, axis=1)
  return output.LossOutput(loss, tf.reduce_mean(errors, axis=1))


def policy_loss(
  q: tf.Tensor, log_prob: tf.Tensor, temperature: tf.Tensor
) -> tf.Tensor:
  """Returns the policy's losses [B].

    loss = alpha log pi(a | o) - min_i q_i(o, a),  a ~ pi(. | o)

  Haarnoja et al. 2018 (https://arxiv.org/abs/1812.05905), equation 7.

  Args:
    q: [B, C], C critics' values of reparameterised actions a. Gradients flow
      through the actions into the policy.
    log_prob: [B], log-probabilities of the actions a.
    temperature: [], alpha, which gets no gradient.
  """
  output.check_ranks(q=(q, 2), log_prob=(log_prob, 1))
  temperature = tf.stop_gradient(temperature)
  return temperature * log_prob - tf.reduce_min(q, axis=1)


def temperature_loss(
  log_temperature: typing.Any, log_prob: tf.Tensor, target_entropy: float
) -> tf.Tensor:
  """Returns the losses [B] of the temperature alpha.

    loss = -log alpha (log pi(a | o) + target_entropy)

  Haarnoja et al. 2018 (https://arxiv.org/abs/1812.05905), equation 18. The
  variable is log alpha, as in the authors' code, so alpha stays above 0.

  Args:
    log_temperature: [], log alpha, the variable that learns.
    log_prob: [B], log-probabilities of sampled actions, which get no gradient.
    target_entropy: desired entropy of the policy, in nats.
  """
  output.check_ranks(log_prob=(log_prob, 1))
  return -log_temperature * tf.stop_gradient(log_prob + target_entropy)
