"""Evaluation: whole greedy episodes, all at once."""

import typing
from collections.abc import Callable

import ml_collections
import numpy as np

from agents import core
from environments import factory, vector

# Takes the actions [B, ...], or None with a reset; the step that followed; and
# whether the environment's episode counts, bool [B].
Observer = Callable[[np.ndarray | None, vector.StepBatch, np.ndarray], None]


class Episodes(typing.NamedTuple):
  """Finished episodes, in no order."""

  returns: list[float]  # undiscounted sums of rewards
  lengths: list[int]  # environment steps


def make_environment(
  config: ml_collections.ConfigDict, num_envs: int, seed: int
) -> vector.VectorEnvironment:
  """The environments of an evaluation: rewards as the game gives them.

  Args:
    config: the `environment` part of a config.
    num_envs: episodes played at once.
    seed: of the environments.
  """
  config = config.copy_and_resolve_references()
  if "reward_clipping" in config.kwargs:
    config.kwargs.reward_clipping = False
  return factory.make(config, num_envs, seed)


def play(
  environment: vector.VectorEnvironment,
  actor: core.Actor,
  episodes: int,
  stopping: Callable[[], bool] = lambda: False,
  observe: Observer | None = None,
) -> Episodes | None:
  """Plays episodes to their end.

  Each environment plays its share, so that short episodes don't crowd out
  long ones.

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
  step = environment.reset()
  if observe is not None:
    observe(None, step, shares > 0)
  while shares.any():
    if stopping():
      return None
    output = actor.act(step.observation, step.reward, step.first)
    step = environment.step(output.action)
    if observe is not None:
      observe(output.action, step, shares > 0)
    returns += step.reward
    lengths += ~step.first
    for env in np.flatnonzero(step.terminated | step.truncated):
      if shares[env]:
        shares[env] -= 1
        done.returns.append(float(returns[env]))
        done.lengths.append(int(lengths[env]))
      returns[env], lengths[env] = 0.0, 0
  return done
