"""R2D2's loss: n-step double Q-learning on sequences, with rescaled values."""

import tensorflow as tf

from slipway.agents.losses import n_step, output, rescaling


def sequence_q_learning(
  q: tf.Tensor,
  action: tf.Tensor,
  reward: tf.Tensor,
  discount: tf.Tensor,
  ended: tf.Tensor,
  learned: tf.Tensor,
  q_target: tf.Tensor,
  q_selector: tf.Tensor,
  n: int,
  huber_delta: float,
) -> output.LossOutput:
  """Returns R2D2's Huber loss of n-step double Q-learning errors.

    v_t      = h^-1(q_target_t[argmax_a q_selector_t[a]])
    G_t(n)   = the n-step return with values v; see `n_step.compute_returns`
    delta_t  = h(G_t(n)) - q_t[action_t]

  Kapturowski et al. 2019, "Recurrent experience replay in distributed
  reinforcement learning", equation 1; h is `rescaling.rescale`.

  Args (others: see `output`):
    q: [B, T + 1, A], the online network's action values.
    action: [B, T] int32, actions taken.
    learned: [B, T], 1 for steps to learn from, 0 for autoresets.
    q_target: [B, T + 1, A], the target network's action values.
    q_selector: [B, T + 1, A], action values; their argmax is the bootstrap's
      action.
    n: number of rewards in a return, fewer where the episode or the sequence
      ends before.

  Returns:
    `LossOutput` with losses [B], summed over the steps, and errors delta_t
    [B, T], which are 0 where `learned` is 0. Gradients flow into
    `q` only.
  """
  output.check_ranks(3, q=q, q_target=q_target, q_selector=q_selector)
  output.check_ranks(
    2,
    action=action,
    reward=reward,
    discount=discount,
    ended=ended,
    learned=learned,
  )
  best = tf.argmax(q_selector, axis=2, output_type=tf.int32)
  values = rescaling.unscale(
    tf.gather(q_target, best, axis=2, batch_dims=2)[:, 1:]
  )  # [B, T]
  targets = n_step.compute_returns(
    reward, discount, ended, values, n, tf.concat, tf.where
  )
  chosen = tf.gather(q[:, :-1], action, axis=2, batch_dims=2)  # [B, T]
  errors = tf.stop_gradient(rescaling.rescale(targets)) - chosen
  errors *= learned
  loss = tf.reduce_sum(output.huber(errors, huber_delta), axis=1)
  return output.LossOutput(loss, errors)
