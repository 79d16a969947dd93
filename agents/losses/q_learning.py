"""The loss of DQN and double DQN, for a batch of n-step transitions."""

import tensorflow as tf

from slipway.agents.losses import output


def q_learning(
  q_tm1: tf.Tensor,
  a_tm1: tf.Tensor,
  r_t: tf.Tensor,
  discount_t: tf.Tensor,
  q_t: tf.Tensor,
  q_t_selector: tf.Tensor,
  huber_delta: float,
) -> output.LossOutput:
  """Returns the Huber loss of Q-learning or double Q-learning errors.

    target = r_t + discount_t * q_t[argmax_a q_t_selector[a]]
    loss   = huber(target - q_tm1[a_tm1])

  With the target network's values as selector this is DQN (Mnih et al. 2015,
  https://doi.org/10.1038/nature14236, algorithm 1); with the online network's
  it is double DQN (van Hasselt et al. 2016, https://arxiv.org/abs/1509.06461,
  equation 4). The error is clipped at `huber_delta` as in Mnih, methods.

  Args (others: see `output`):
    q_tm1: [B, A] float32, the online network's action values of o_tm1.
    q_t: [B, A] float32, the target network's action values of o_t.

  Returns:
    `LossOutput`; gradients flow into `q_tm1` only.
  """
  output.check_ranks(2, q_tm1=q_tm1, q_t=q_t, q_t_selector=q_t_selector)
  output.check_ranks(1, a_tm1=a_tm1, r_t=r_t, discount_t=discount_t)
  best = tf.argmax(q_t_selector, axis=1, output_type=tf.int32)
  target = r_t + discount_t * output.select_actions(q_t, best)
  td_error = tf.stop_gradient(target) - output.select_actions(q_tm1, a_tm1)
  return output.LossOutput(output.huber(td_error, huber_delta), td_error)


def large_margin(
  q_tm1: tf.Tensor, a_tm1: tf.Tensor, margin: float
) -> tf.Tensor:
  """Returns the loss of a demonstrator's actions, [B].

    loss = max_a (q_tm1[a] + margin 1(a != a_tm1)) - q_tm1[a_tm1]

  It is 0 where the action's value is above all others by the margin.

  Hester et al. 2018, "Deep Q-learning from demonstrations"
  (https://arxiv.org/abs/1704.03732), section 4, J_E.

  Args (others: see `output`):
    q_tm1: [B, A] float32, the online network's action values of o_tm1.
  """
  output.check_ranks(2, q_tm1=q_tm1)
  values = output.select_actions(q_tm1, a_tm1)
  others = 1.0 - tf.one_hot(a_tm1, q_tm1.shape[1], dtype=q_tm1.dtype)
  return tf.reduce_max(q_tm1 + margin * others, axis=1) - values


def conservative(q_tm1: tf.Tensor, a_tm1: tf.Tensor) -> tf.Tensor:
  """Returns the penalty of CQL(H) [B], which lowers values of unseen actions.

    penalty = log sum_a exp(q_tm1[a]) - q_tm1[a_tm1]

  Kumar et al. 2020, "Conservative Q-learning for offline reinforcement
  learning" (https://arxiv.org/abs/2006.04779), equation 4, without alpha.

  Args (others: see `output`):
    q_tm1: [B, A] float32, the online network's action values of o_tm1.
  """
  output.check_ranks(2, q_tm1=q_tm1)
  values = output.select_actions(q_tm1, a_tm1)
  return tf.reduce_logsumexp(q_tm1, axis=1) - values
