"""Priorities of items, computed from TD errors by workers and learners.

Schaul et al. 2016, "Prioritized experience replay", section 3.3: p = |delta|
+ epsilon; the table raises p to the power alpha when it samples.
"""

import typing

import numpy as np

# The epsilon in p = |delta| + epsilon: transitions with a TD error of 0 keep a
# small probability of being sampled (Schaul et al. 2016, section 3.3).
OFFSET = 1e-6

# Name of a learner's variable, float32 []: the first priority of all items, for
# learners whose workers can't compute one.
HIGHEST = "highest_priority"


def from_td_errors(td_errors: typing.Any) -> typing.Any:
  """Returns priorities [B], |TD error| + OFFSET, of transitions.

  Args:
    td_errors: [B], a NumPy array or a tensor.
  """
  return abs(td_errors) + OFFSET


def from_sequences(
  td_errors: typing.Any, learned: typing.Any, eta: float
) -> typing.Any:
  """Returns priorities, float32 [B], from the TD errors of sequences' steps.

    p = eta max_t |delta_t| + (1 - eta) mean_t |delta_t| + epsilon

  Kapturowski et al. 2019, "Recurrent experience replay in distributed
  reinforcement learning", section 2.3. The mean is over steps that are not
  masked in the loss.

  Args:
    td_errors: float32 [B, T], a NumPy array or a tensor; 0 for steps that are
      masked in the loss.
    learned: float32 [B, T], 0 for steps that are masked in the loss, else 1.
    eta: weight of the maximum, in [0, 1].
  """
  size = abs(td_errors)
  if isinstance(size, np.ndarray):
    mean = size.sum(axis=1) / np.maximum(learned.sum(axis=1), 1.0)
    largest = size.max(axis=1)
  else:
    import tensorflow as tf  # not at the top: workers need no TensorFlow

    count = tf.maximum(tf.reduce_sum(learned, axis=1), 1.0)
    mean = tf.reduce_sum(size, axis=1) / count
    largest = tf.reduce_max(size, axis=1)
  return eta * largest + (1.0 - eta) * mean + OFFSET


def mean_per_item(priorities: typing.Any, items: int) -> typing.Any:
  """Returns the mean priority of each item's transitions, [I].

  Args:
    priorities: priorities of B transitions, [B], a NumPy array or a tensor; the
      transitions of one item are adjacent.
    items: I, the number of items, a divisor of B.
  """
  if priorities.shape[0] == items:
    return priorities
  group_size = priorities.shape[0] // items
  # A matrix product, which both support: a mean by slices costs a graph 0.1 ms.
  mean = np.kron(np.eye(items), np.ones((group_size, 1)) / group_size)  # [B, I]
  return (priorities[None] @ mean.astype(np.float32))[0]


def is_valid(priorities: np.ndarray) -> np.ndarray:
  """Returns whether each of N priorities is finite and at least 0, bool [N]."""
  return np.isfinite(priorities) & (priorities >= 0)


def check(priorities: np.ndarray) -> None:
  """Raises ValueError if a priority is invalid for a Reverb table.

  An invalid priority ends the thread of a Reverb table. From then on, all
  readers and writers of the table block for ever, without an error.

  Args:
    priorities: float [N].

  Raises:
    ValueError: a priority is negative, infinite or not a number.
  """
  wrong = ~is_valid(priorities)
  if wrong.any():
    raise ValueError(
      f"priorities[{wrong.argmax()}]={priorities[wrong.argmax()]} must be "
      "finite and at least 0, or the table would stop serving: look for "
      "rewards or variables that are not finite"
    )
