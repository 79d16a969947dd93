"""Evaluation: plays whole episodes in a batch of environments."""

import math
import time
import typing
from collections.abc import Callable

import numpy as np
from absl import logging

from slipway.agents import core
from slipway.environments import vector

# Type of a function that `play` calls after the reset and after each step of B
# environments. Its arguments are the actions [B, ...] (None for the reset), the
# step that followed, and whether each environment's episode counts, bool [B].
Observer = Callable[[np.ndarray | None, vector.StepBatch, np.ndarray], None]

# Number of batch steps without an episode's end after which a warning is
# logged. Atari episodes last at most 27,000 steps.
_WARN_AFTER_STEPS = 50_000
# Seconds without an episode's end after which a warning is logged.
_WARN_AFTER_S = 300.0


class Episodes(typing.NamedTuple):
  """Returns and lengths of finished episodes, in the order of their ends.

  Attributes:
    returns: undiscounted sum of each episode's raw rewards.
    lengths: environment steps of each episode.
    info: by name, the numbers of `VectorEnvironment.info` of the episodes that
      have them.
    unfinished: number of episodes that were cut off at `max_steps`, and whose
      returns are those until then.
  """

  returns: list[float]
  lengths: list[int]
  info: dict[str, list[float]]
  unfinished: int = 0

  @property
  def mean_info(self) -> dict[str, float]:
    """The mean of each number in `info`, by name."""
    return {name: float(np.mean(x)) for name, x in self.info.items()}


def play(
  environment: vector.VectorEnvironment,
  actor: core.Actor,
  episodes: int,
  should_stop: Callable[[], bool] = lambda: False,
  observe: Observer | None = None,
  max_steps: float = math.inf,
  warn_after_s: float = _WARN_AFTER_S,
) -> Episodes | None:
  """Plays a number of episodes to their end; returns their results.

  Each environment plays an equal share of the episodes. If instead the first
  episodes to end were counted, short episodes would be favoured. A warning is
  logged if an episode may never end.

  Args:
    environment: a batch of environments, which is reset first.
    actor: an actor whose variables are loaded.
    should_stop: function called at each step; True stops the evaluation.
    observe: function called with the reset and with each step, or None.
    max_steps: environment steps after which an episode that has not ended
      counts as it is.
    warn_after_s: seconds without an episode's end after which a warning is
      logged.

  Returns:
    The finished episodes, or None if the evaluation was stopped.
  """
  num_envs = environment.num_envs
  # Number of episodes that each environment still has to play, int64 [B].
  shares = np.full(num_envs, episodes // num_envs)
  shares[: episodes % num_envs] += 1
  returns, lengths = np.zeros(num_envs), np.zeros(num_envs, np.int64)
  finished, unfinished = Episodes([], [], {}), 0
  # Steps and time since an episode has ended.
  steps, since_s, warned = 0, time.monotonic(), False
  step = environment.reset()
  if observe is not None:
    observe(None, step, shares > 0)
  while shares.any():
    if should_stop():
      return None
    steps += 1
    waited_s = time.monotonic() - since_s
    is_long = steps > _WARN_AFTER_STEPS or waited_s > warn_after_s
    if is_long and not warned:
      _warn_of_long_episode(
        environment.name, np.where(shares > 0, lengths, 0), waited_s
      )
      warned = True
    output = actor.act(step.observation, step.reward, step.first)
    step = environment.step(output.action)
    if observe is not None:
      observe(output.action, step, shares > 0)
    returns += step.raw_reward
    lengths += ~step.first
    ended = step.terminated | step.truncated
    unfinished += int(((lengths >= max_steps) & ~ended & (shares > 0)).sum())
    for env in np.flatnonzero(ended | (lengths >= max_steps)):
      if shares[env]:
        shares[env] -= 1
        steps, since_s = 0, time.monotonic()
        finished.returns.append(float(returns[env]))
        finished.lengths.append(int(lengths[env]))
        for name, numbers in environment.info.items():
          if not np.isnan(numbers[env]):
            finished.info.setdefault(name, []).append(float(numbers[env]))
      returns[env], lengths[env] = 0.0, 0
  return finished._replace(unfinished=unfinished)


def _warn_of_long_episode(
  name: str, lengths: np.ndarray, waited_s: float
) -> None:
  """Logs a warning that an episode may never end."""
  index = int(np.argmax(lengths))
  logging.warning(
    "an episode of %s (index %d) has not ended after %d steps, and no episode "
    "has ended in the last %.0f s: if they never end, limit them by "
    "config.environment.time_limit; `slipway evaluate` has --max_steps",
    name,
    index,
    lengths[index],
    waited_s,
  )
