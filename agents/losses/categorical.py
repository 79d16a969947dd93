"""C51's categorical loss, for a batch of n-step transitions."""

import typing

import tensorflow as tf

from slipway.agents.losses import output


def categorical_q_learning(
  logits_tm1: tf.Tensor,
  a_tm1: tf.Tensor,
  r_t: tf.Tensor,
  discount_t: tf.Tensor,
  logits_t: tf.Tensor,
  q_t_selector: tf.Tensor,
  atoms: tf.Tensor,
) -> output.LossOutput:
  """Returns C51's loss, the cross entropy to the projected target distribution.

    a*   = argmax_a q_t_selector[a]
    m    = projection onto `atoms` of r_t + discount_t z, z ~ p(o_t, a*)
    loss = -sum_i m_i log p_i(o_tm1, a_tm1)

  Bellemare et al. 2017, "A distributional perspective on reinforcement
  learning" (https://arxiv.org/abs/1707.06887), algorithm 1. With the online
  network's values as selector it is the loss of Rainbow (Hessel et al. 2018,
  https://arxiv.org/abs/1710.02298, "The integrated agent").

  Args (others: see `output`):
    logits_tm1: [B, A, K], the online network's logits of the atoms for o_tm1.
    logits_t: [B, A, K], the target network's logits of the atoms for o_t.
    atoms: [K], returns of the atoms in ascending order.

  Returns:
    `LossOutput`, whose error is the divergence KL(m || p), Rainbow's priority.
    Gradients flow into `logits_tm1` only.
  """
  output.check_ranks(3, logits_tm1=logits_tm1, logits_t=logits_t)
  output.check_ranks(
    1, a_tm1=a_tm1, r_t=r_t, discount_t=discount_t, atoms=atoms
  )
  output.check_ranks(2, q_t_selector=q_t_selector)
  a_t = tf.argmax(q_t_selector, axis=1, output_type=tf.int32)
  p_t = tf.nn.softmax(output.select_actions(logits_t, a_t))
  returns = r_t[:, None] + discount_t[:, None] * atoms
  target = tf.stop_gradient(project(returns, p_t, atoms))
  loss = tf.nn.softmax_cross_entropy_with_logits(
    target, output.select_actions(logits_tm1, a_tm1)
  )
  entropy = -tf.reduce_sum(tf.math.xlogy(target, target), axis=1)
  # Rounding may give values below 0, which are invalid as priorities.
  error = tf.maximum(loss - entropy, 0.0)
  outside = compute_outside_support(returns, p_t, atoms)
  return output.LossOutput(loss, error, outside)


def compute_outside_support(
  returns: tf.Tensor, probabilities: tf.Tensor, atoms: tf.Tensor
) -> output.OutsideSupport:
  """Returns the probability of the returns beyond the atoms.

  `project` counts these returns for the first or the last atom. If they are
  many, the network can't represent the values of the task. Returns that lie
  beyond the atoms by less than 0.1 % of their range don't count.

  Args:
    returns: [B, K], returns.
    probabilities: [B, K], probability of each return.
    atoms: [K], returns of the atoms in ascending order.
  """
  tolerance = 1e-3 * (atoms[-1] - atoms[0])

  def probability(outside: tf.Tensor) -> tf.Tensor:
    """Returns the probability [B] of the returns where `outside` is True."""
    return tf.reduce_sum(
      tf.where(outside, probabilities, tf.zeros_like(probabilities)), axis=1
    )

  return output.OutsideSupport(
    below=probability(returns < atoms[0] - tolerance),
    above=probability(returns > atoms[-1] + tolerance),
  )


def project(
  returns: tf.Tensor, probabilities: tf.Tensor, atoms: tf.Tensor
) -> tf.Tensor:
  """Projects distributions of returns onto the atoms, as in C51.

  Splits the probability of each return between the two nearest atoms.

  Bellemare et al. 2017, equation 7, with tensors of B * K numbers. trfl uses
  B * K * K, which took more than half of a small network's update. B is the
  batch size and K the number of atoms.

  Args:
    returns: [B, K], returns; those beyond the atoms count for the first or last
      atom.
    probabilities: [B, K], probability of each return.
    atoms: [K], equally spaced returns in ascending order.

  Returns:
    Probabilities of the atoms, [B, K].
  """
  batch_size = tf.shape(returns)[0]
  size: typing.Any = atoms.shape[0]
  last = size - 1
  position = (returns - atoms[0]) * (last / (atoms[-1] - atoms[0]))
  position = tf.clip_by_value(position, 0.0, last)
  below = tf.floor(position)
  above_part = position - below
  row = size * tf.range(batch_size)[:, None]
  index = row + tf.cast(below, tf.int32)
  next_index = tf.minimum(index + 1, row + last)
  shares = tf.math.unsorted_segment_sum(
    tf.concat(
      [probabilities * (1.0 - above_part), probabilities * above_part], 1
    ),
    tf.concat([index, next_index], 1),
    size * batch_size,
  )
  return tf.reshape(shares, tf.shape(returns))
