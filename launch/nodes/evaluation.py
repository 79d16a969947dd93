"""Evaluation: whole greedy episodes, all at once."""

import time
import typing
from collections.abc import Callable

import numpy as np
from absl import logging

from slipway.agents import core
from slipway.environments import vector

# Takes the actions [B, ...], or None with a reset; the step that followed; and
# whether the environment's episode counts, bool [B].
Observer = Callable[[np.ndarray | None, vector.StepBatch, np.ndarray], None]

# Without the end of an episode. Those of Atari last 27,000 steps at most.
_LONG_STEPS = 50_000
_LONG_S = 300.0


class Episodes(typing.NamedTuple):
  """Finished episodes, in no order."""

  returns: list[float]  # undiscounted sums of the environment's own rewards
  lengths: list[int]  # environment steps


def play(
  environment: vector.VectorEnvironment,
  actor: core.Actor,
  episodes: int,
  stopping: Callable[[], bool] = lambda: False,
  observe: Observer | None = None,
) -> Episodes | None:
  """Plays episodes to their end.

  Each environment plays its share, so that short episodes don't crowd out
  long ones. One line in the log warns of an episode that may never end.

  Args:
    environment: any number of environments; reset first.
    actor: with its variables loaded.
    episodes: how many.
    stopping: asked at each step.
    observe: called with the reset and with each step, if given.

  Returns:
    `episodes` episodes, or None if `stopping` said so first.
  """
  num_envs = environment.num_envs
  shares = np.full(num_envs, episodes // num_envs)
  shares[: episodes % num_envs] += 1
  returns, lengths = np.zeros(num_envs), np.zeros(num_envs, np.int64)
  done = Episodes([], [])
  steps, since_s, warned = 0, time.monotonic(), False  # without an end
  step = environment.reset()
  if observe is not None:
    observe(None, step, shares > 0)
  while shares.any():
    if stopping():
      return None
    steps += 1
    waited_s = time.monotonic() - since_s
    if not warned and (steps > _LONG_STEPS or waited_s > _LONG_S):
      _warn(environment.name, np.where(shares > 0, lengths, 0), waited_s)
      warned = True
    output = actor.act(step.observation, step.reward, step.first)
    step = environment.step(output.action)
    if observe is not None:
      observe(output.action, step, shares > 0)
    returns += step.raw_reward
    lengths += ~step.first
    for env in np.flatnonzero(step.terminated | step.truncated):
      if shares[env]:
        shares[env] -= 1
        steps, since_s = 0, time.monotonic()
        done.returns.append(float(returns[env]))
        done.lengths.append(int(lengths[env]))
      returns[env], lengths[env] = 0.0, 0
  return done


def _warn(name: str, lengths: np.ndarray, waited_s: float) -> None:
  """Warns of an episode that may never end.

  Args:
    name: of the environment.
    lengths: steps so far of the episodes that are waited for.
    waited_s: seconds since one of them ended.
  """
  index = int(np.argmax(lengths))
  logging.warning(
    "an episode of %s (index %d) has not ended after %d steps, and none that "
    "the evaluation waits for in the last %.0f s: if it never ends, there will "
    "be no result; limit it by config.environment.time_limit",
    name,
    index,
    lengths[index],
    waited_s,
  )
