"""The result type of losses, and functions that several losses call.

Arguments that several losses have:

| argument | shape | meaning |
|---|---|---|
| a_tm1 | [B] int32 | actions taken at o_tm1 |
| r_t | [B] | discounted sums of the rewards of n steps |
| discount_t | [B] | factor of the bootstrap: gamma^n, or 0 if terminated |
| q_t_selector | [B, A] | values of o_t whose argmax is the next action |
| reward | [B, T] | rewards of the steps |
| discount | [B, T] | gamma, or 0 where terminated |
| ended | [B, T] bool | whether the step was the last one of its episode |
| log_ratio | [B, T] | log pi(a_t given o_t) - log mu(a_t given o_t) |
| lambda_ | | weight of longer returns, in [0, 1] |
| huber_delta | | absolute error above which the loss is linear |
"""

import typing

import tensorflow as tf


class OutsideSupport(typing.NamedTuple):
  """Probability of returns beyond the atoms of a categorical distribution.

  Attributes:
    below: [B], probability of returns below the lowest atom.
    above: [B], probability of returns above the highest atom.
  """

  below: tf.Tensor
  above: tf.Tensor

  def metrics(self) -> dict[str, tf.Tensor]:
    """Returns the batch's mean probabilities, [] each, by metric name."""
    return {
      "below_support": tf.reduce_mean(self.below),
      "above_support": tf.reduce_mean(self.above),
    }


class LossOutput(typing.NamedTuple):
  """Losses and TD errors of a batch of B elements.

  Attributes:
    loss: [B], loss of each element, before importance weights.
    td_error: [B], or [B, T] for sequences: target - q(o_tm1, a_tm1), or another
      error from which the paper of the loss computes priorities.
    outside_support: probability of the target returns that lie beyond the atoms
      of a categorical distribution; None for other losses.
  """

  loss: tf.Tensor
  td_error: tf.Tensor
  outside_support: OutsideSupport | None = None


def check_ranks(rank: int, **tensors: tf.Tensor) -> None:
  """Raises ValueError, with the tensor's name, if one has another rank."""
  for name, tensor in tensors.items():
    tf.debugging.assert_rank(tensor, rank, f"{name} must have rank {rank}")


def kl_penalty(
  mean_kl: tf.Tensor, multipliers: tf.Tensor, kl_bounds: tf.Tensor
) -> tf.Tensor:
  """Returns the loss [] by which KL divergences stay below their bounds.

    sum_k alpha_k (eps_k - sg(KL_k)) + sg(alpha_k) KL_k

  sg stops gradients: the first term moves the Lagrange multipliers alpha, and
  the second one the policy. Song et al. 2019, "V-MPO"
  (https://arxiv.org/abs/1909.12238), equation 5.

  Args:
    mean_kl: [K], mean divergences of K constraints.
    multipliers: [K], alpha, above 0.
    kl_bounds: [K], eps, the upper bounds of the divergences.
  """
  return tf.reduce_sum(
    multipliers * (kl_bounds - tf.stop_gradient(mean_kl))
    + tf.stop_gradient(multipliers) * mean_kl
  )


def select_actions(values: tf.Tensor, actions: tf.Tensor) -> tf.Tensor:
  """Returns the chosen actions' values [B, ...], values[b, actions[b]].

  Args:
    values: [B, A, ...], values of all actions.
    actions: [B] int, chosen actions.
  """
  return tf.gather(values, actions, axis=1, batch_dims=1)


def huber(error: tf.Tensor, delta: float) -> tf.Tensor:
  """Returns the Huber loss of errors, elementwise.

    loss = error^2 / 2                      where |error| <= delta,
           delta (|error| - delta / 2)      elsewhere

  Huber 1964 (https://doi.org/10.1214/aoms/1177703732), as in Mnih et al. 2015,
  methods, where its gradient is called error clipping.

  Args:
    delta: absolute error above which the loss is linear, not quadratic.
  """
  size = tf.abs(error)
  inside = tf.minimum(size, delta)
  return inside * (size - 0.5 * inside)
