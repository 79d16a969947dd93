"""C51's categorical loss, for a batch of n-step transitions."""

import typing
from collections.abc import Callable

import tensorflow as tf

from slipway.agents.losses import output

# A monotonic function of returns, elementwise.
Scale = Callable[[tf.Tensor], tf.Tensor]


def make_scale(has_support: bool) -> Scale:
  """Returns the scale on which atoms are equally spaced; see `make_atoms`.

  Without a support, it is symlog(x) = sign(x) log(|x| + 1).
  """
  if has_support:
    return tf.identity
  return lambda x: tf.sign(x) * tf.math.log1p(tf.abs(x))


def categorical_q_learning(
  logits_tm1: tf.Tensor,
  a_tm1: tf.Tensor,
  r_t: tf.Tensor,
  discount_t: tf.Tensor,
  logits_t: tf.Tensor,
  q_t_selector: tf.Tensor,
  atoms: tf.Tensor,
  scale: Scale = tf.identity,
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
    scale: scale of returns on which the atoms are equally spaced.

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
  target = tf.stop_gradient(project(returns, p_t, atoms, scale))
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
  returns: tf.Tensor,
  probabilities: tf.Tensor,
  atoms: tf.Tensor,
  scale: Scale = tf.identity,
) -> tf.Tensor:
  """Projects distributions of returns onto the atoms, as in C51.

  Splits the probability of each return between the two nearest atoms, so that
  the mean stays the same, unless returns are beyond the atoms.

  Bellemare et al. 2017, equation 7, with tensors of B * K numbers. trfl uses
  B * K * K, which took more than half of a small network's update. B is the
  batch size and K the number of atoms.

  Args:
    returns: [B, K], returns; those beyond the atoms count for the first or last
      atom.
    probabilities: [B, K], probability of each return.
    atoms: [K], returns of the atoms in ascending order.
    scale: scale of returns on which the atoms are equally spaced.

  Returns:
    Probabilities of the atoms, [B, K].
  """
  batch_size = tf.shape(returns)[0]
  size: typing.Any = atoms.shape[0]
  # A search takes 4 times as long as the arithmetic of the whole function.
  first, last = scale(atoms[0]), scale(atoms[-1])
  position = (scale(returns) - first) * ((size - 1) / (last - first))
  below = tf.cast(tf.clip_by_value(position, 0.0, size - 2.0), tf.int32)
  start = tf.gather(atoms, below)
  above_part = (returns - start) / (tf.gather(atoms, below + 1) - start)
  above_part = tf.clip_by_value(above_part, 0.0, 1.0)
  index = size * tf.range(batch_size)[:, None] + below
  shares = tf.math.unsorted_segment_sum(
    tf.concat(
      [probabilities * (1.0 - above_part), probabilities * above_part], 1
    ),
    tf.concat([index, index + 1], 1),
    size * batch_size,
  )
  return tf.reshape(shares, tf.shape(returns))
