"""n-step returns within sequences, for NumPy arrays and TensorFlow tensors."""

import typing


def compute_returns(
  reward: typing.Any,
  discount: typing.Any,
  ended: typing.Any,
  values: typing.Any,
  n: int,
  concat: typing.Any,
  where: typing.Any,
) -> typing.Any:
  """Returns the n-step returns G(n) of all steps, within a sequence, [B, T].

    G_t(n) = R_{t+1} + d_{t+1} (v_{t+1} if n = 1 or t + 1 ends the episode or
             the sequence, else G_{t+1}(n - 1))

  A return is shorter than n steps where the episode or the sequence ends.

  Args:
    reward: rewards, [B, T].
    discount: gamma per step, 0 where terminated, [B, T].
    ended: whether the step was the last one of its episode, bool [B, T].
    values: value v of the observation after each step, [B, T].
    n: steps, at least 1.
    concat: the function `np.concatenate` or `tf.concat`.
    where: the function `np.where` or `tf.where`.
  """
  targets = reward + discount * values
  for _ in range(n - 1):
    later = concat([targets[:, 1:], values[:, -1:]], 1)
    targets = reward + discount * where(ended, values, later)
  return targets
