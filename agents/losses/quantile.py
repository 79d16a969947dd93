"""The quantile loss of QR-DQN and IQN, for a batch of n-step transitions."""

import tensorflow as tf

from slipway.agents.losses import output


def quantile_q_learning(
  quantiles_tm1: tf.Tensor,
  taus: tf.Tensor,
  a_tm1: tf.Tensor,
  r_t: tf.Tensor,
  discount_t: tf.Tensor,
  quantiles_t: tf.Tensor,
  q_t_selector: tf.Tensor,
  huber_delta: float,
) -> output.LossOutput:
  """Returns the quantile regression loss of QR-DQN and IQN.

    a*    = argmax_a q_t_selector[a]
    d_ij  = r_t + discount_t quantiles_t[a*, j] - quantiles_tm1[a_tm1, i]
    loss  = sum_i mean_j |tau_i - [d_ij < 0]| huber(d_ij) / huber_delta

  Dabney et al. 2018, "Distributional reinforcement learning with quantile
  regression" (https://arxiv.org/abs/1710.10044), equation 10 and algorithm 1,
  with fixed taus, the midpoints of N equal parts; Dabney et al. 2018, "Implicit
  quantile networks" (https://arxiv.org/abs/1806.06923), equation 3, with
  sampled taus.

  Args (others: see `output`):
    quantiles_tm1: [B, A, N], the online network's quantiles for o_tm1.
    taus: [B, N] or [N], fractions in (0, 1) of the online quantiles.
    quantiles_t: [B, A, M], the target network's quantiles for o_t.

  Returns:
    `LossOutput`. Its error is the mean target quantile minus the mean online
    quantile. Gradients flow into `quantiles_tm1` only.
  """
  output.check_ranks(3, quantiles_tm1=quantiles_tm1, quantiles_t=quantiles_t)
  output.check_ranks(1, a_tm1=a_tm1, r_t=r_t, discount_t=discount_t)
  output.check_ranks(2, q_t_selector=q_t_selector)
  a_t = tf.argmax(q_t_selector, axis=1, output_type=tf.int32)
  targets = tf.stop_gradient(
    r_t[:, None] + discount_t[:, None] * output.select_actions(quantiles_t, a_t)
  )  # [B, M]
  quantiles = output.select_actions(quantiles_tm1, a_tm1)  # [B, N]
  losses = regression_losses(quantiles, taus, targets, huber_delta)
  return output.LossOutput(
    loss=tf.reduce_sum(losses, axis=1),
    td_error=tf.reduce_mean(targets, 1) - tf.reduce_mean(quantiles, 1),
  )


def regression_losses(
  quantiles: tf.Tensor, taus: tf.Tensor, targets: tf.Tensor, huber_delta: float
) -> tf.Tensor:
  """Returns the loss of each quantile, the mean over the targets: [B, N].

  Args:
    quantiles: [B, N].
    taus: [B, N] or [N], fractions of the quantiles.
    targets: [B, M], samples of the distribution, without gradients.
  """
  errors = targets[:, None, :] - quantiles[:, :, None]  # [B, N, M]
  below = tf.cast(errors < 0, errors.dtype)
  weights = tf.abs(tf.expand_dims(taus, -1) - tf.stop_gradient(below))
  weighted = weights * output.huber(errors, huber_delta) / huber_delta
  return tf.reduce_mean(weighted, axis=2)
