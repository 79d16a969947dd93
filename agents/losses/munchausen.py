"""The Munchausen DQN loss, for a batch of transitions."""

import tensorflow as tf

from slipway.agents.losses import output


def munchausen_q_learning(
  q_tm1: tf.Tensor,
  a_tm1: tf.Tensor,
  r_t: tf.Tensor,
  discount_t: tf.Tensor,
  q_tm1_target: tf.Tensor,
  q_t: tf.Tensor,
  temperature: float,
  scale: float,
  lowest: float,
  huber_delta: float,
) -> output.LossOutput:
  """Returns the Munchausen DQN loss, with a log-policy bonus in the reward.

    pi      = softmax(q_target / temperature)
    bonus   = scale * clip(temperature log pi(a_tm1 | o_tm1), lowest, 0)
    soft    = sum_a pi(a | o_t) (q_t[a] - temperature log pi(a | o_t))
    target  = r_t + bonus + discount_t soft
    loss    = huber(target - q_tm1[a_tm1])

  Vieillard et al. 2020, "Munchausen reinforcement learning"
  (https://arxiv.org/abs/2007.14430), equation 1 and section 4. The bonus of a
  transition of several steps is that of its first action, as in the authors'
  code (google-research, munchausen_rl/agents/m_iqn.py).

  Args (others: see `output`):
    q_tm1: [B, A], the online network's action values of o_tm1.
    q_tm1_target: [B, A], the target network's action values of o_tm1.
    q_t: [B, A], the target network's action values of o_t.
    lowest: l_0, the lower bound of temperature * log-policy, below 0.

  Returns:
    `LossOutput`; gradients flow into `q_tm1` only.
  """
  output.check_ranks(2, q_tm1=q_tm1, q_tm1_target=q_tm1_target, q_t=q_t)
  output.check_ranks(1, a_tm1=a_tm1, r_t=r_t, discount_t=discount_t)
  log_pi_tm1 = temperature * tf.nn.log_softmax(q_tm1_target / temperature)
  log_pi_t = temperature * tf.nn.log_softmax(q_t / temperature)
  bonus = scale * tf.clip_by_value(
    output.select_actions(log_pi_tm1, a_tm1), lowest, 0.0
  )
  soft = tf.reduce_sum(tf.nn.softmax(q_t / temperature) * (q_t - log_pi_t), 1)
  target = tf.stop_gradient(r_t + bonus + discount_t * soft)
  td_error = target - output.select_actions(q_tm1, a_tm1)
  return output.LossOutput(output.huber(td_error, huber_delta), td_error)
