"""Weighted importance sampling: a policy's value from another's episodes."""

import numpy as np


def estimate(
  log_ratios: np.ndarray,
  rewards: np.ndarray,
  lengths: np.ndarray,
  discount: float,
) -> tuple[float, np.ndarray]:
  """Returns the per-decision weighted importance sampling estimate.

    value = sum_t gamma^t sum_e w_et r_et / sum_e w_et
    w_et = prod_{k <= t} pi(a_ek given o_ek) / mu(a_ek given o_ek)

  After an episode's end, its reward is 0 and its weight stays. A truncated
  episode ends so, too: its later rewards are not estimated.

  Precup et al. 2000, "Eligibility traces for off-policy policy evaluation",
  section 4: a reward has the weight of the decisions before it only. Weights
  are normalized at each step, as in Thomas 2015, "Safe reinforcement
  learning", consistent weighted per-decision importance sampling.

  Args:
    log_ratios: log pi - log mu of each of N steps, -inf where pi is 0.  # [N]
    rewards: rewards of the steps.  # [N]
    lengths: steps of each of E episodes, which follow one another.  # [E]
    discount: gamma, in [0, 1].

  Returns:
    The value, nan if from some step on all weights are 0; and the effective
    number of episodes at each step, (sum w)^2 / sum w^2, float64 [T].
  """
  log_weights = np.cumsum(pad(log_ratios, lengths), axis=1)
  highest = log_weights.max(axis=0)
  weights = np.exp(log_weights - np.where(np.isneginf(highest), 0.0, highest))
  total, squares = weights.sum(axis=0), (weights**2).sum(axis=0)
  with np.errstate(invalid="ignore"):
    means = (weights * pad(rewards, lengths)).sum(axis=0) / total
    effective = np.nan_to_num(total**2 / squares)
  return float(discount ** np.arange(len(means)) @ means), effective


def pad(values: np.ndarray, lengths: np.ndarray) -> np.ndarray:
  """Returns values [N] of the steps of E episodes as float64 [E, T].

  T is the largest of the lengths [E]; 0 follows the end of a shorter episode.
  """
  is_step = np.arange(max(lengths)) < lengths[:, None]
  padded = np.zeros(is_step.shape)
  padded[is_step] = values
  return padded
