"""Arena: where a run in one process plays its evaluations."""

import typing
from collections.abc import Callable, Mapping

import ml_collections
import numpy as np
from acme import specs

from agents import core, seeds
from launch.nodes import evaluation, evaluator


class Arena:
  """Environments and a greedy actor of their own."""

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    spec: specs.EnvironmentSpec,
    builder: core.Builder,
    lives: int,
    savable: bool,
  ):
    """Makes both.

    Args:
      config: the whole config.
      spec: of one environment.
      builder: of the algorithm.
      lives: processes in which the run was before.
      savable: whether the environments can be saved.
    """
    self._episodes = config.evaluation.episodes
    self._savable = savable
    self._actor = builder.make_greedy_actor(config, spec)
    self._environment = evaluation.make_environment(
      config.environment,
      self._episodes,
      seeds.of_life(config.seed + evaluator.SEED, lives),
    )

  def play(
    self,
    variables: Mapping[str, np.ndarray],
    interrupted: Callable[[], bool],
  ) -> evaluation.Episodes | None:
    """Plays an evaluation.

    Args:
      variables: to be evaluated.
      interrupted: asked at each step.

    Returns:
      Its episodes; None if interrupted: the next one is then as if this one
      had not been begun, where the environments can be saved.
    """
    before = self._environment.get_state() if self._savable else None
    self._actor.load(variables)
    episodes = evaluation.play(
      self._environment, self._actor, self._episodes, interrupted
    )
    if episodes is None and before is not None:
      self._environment.set_state(before)
    return episodes

  def get_state(self) -> dict[str, typing.Any]:
    """What the next evaluations depend on; to be pickled."""
    return {
      "episodes": self._episodes,
      "actor": self._actor.get_state(),
      "environment": self._environment.get_state() if self._savable else None,
    }

  def set_state(self, state: Mapping[str, typing.Any]) -> None:
    """Goes on where another arena was; anew, if it had other environments."""
    self._actor.set_state(state["actor"])
    if self._savable and state["episodes"] == self._episodes:
      self._environment.set_state(state["environment"])

  def close(self) -> None:
    """Closes the environments."""
    self._environment.close()
