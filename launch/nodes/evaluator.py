"""Evaluator: measures the episode returns of a greedy actor."""

import time
import typing
from collections.abc import Callable, Mapping

import ml_collections
from acme import specs

from slipway.agents import core, seeds
from slipway.environments import factory
from slipway.launch.nodes import evaluation, ports
from slipway.launch.orchestration import messages, waits
from slipway.replay.variables import variable_packing

# Added to config.seed, so that the evaluation environments do not repeat the
# episodes of the workers.
_SEED_OFFSET = 1_000_000
# Seconds above which an evaluation in progress is reported as a wait.
_WAITS_AFTER_S = 60.0


class Evaluator:
  """Plays the episodes of evaluations, each with one version of the variables.

  The greedy actor acts without exploration.
  """

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    spec: specs.EnvironmentSpec,
    builder: core.Builder,
    results: ports.EvaluationSink,
    restarts: int = 0,
    savable: bool = False,
  ):
    """Makes the environments and the greedy actor.

    Args:
      config: the whole config.
      spec: specification of one environment.
      builder: the algorithm's builder.
      results: function that receives the results of each evaluation.
      restarts: number of earlier processes that evaluated this run.
      savable: whether the environments' states can be saved and restored.
    """
    self._episodes = config.evaluation.episodes
    self._results, self._savable = results, savable
    # Monotonic seconds at which the evaluation in progress began, or None.
    self._since_s: float | None = None
    self._actor = builder.make_greedy_actor(config, spec)
    self._environment = factory.make(
      config.environment,
      self._episodes,
      seeds.for_restart(config.seed + _SEED_OFFSET, restarts),
    )

  def evaluate(
    self,
    newest: variable_packing.VersionedVariables,
    should_stop: Callable[[], bool] = lambda: False,
  ) -> evaluation.Episodes | None:
    """Plays one evaluation, and passes its results to the function `results`.

    Args:
      newest: the variables to evaluate.
      should_stop: function called at each step; True stops the evaluation.

    Returns:
      The episodes, or None if the evaluation was stopped. If the environments
      can be saved, a stopped evaluation does not change the next one.
    """
    before = self._environment.get_state() if self._savable else None
    self._actor.load(newest.variables)
    self._since_s = time.monotonic()
    episodes = evaluation.play(
      self._environment, self._actor, self._episodes, should_stop
    )
    self._since_s = None
    if episodes is not None:
      self._results(episodes.returns, episodes.lengths, newest)
    elif before is not None:
      self._environment.set_state(before)
    return episodes

  def report(self) -> messages.EvaluatorReport:
    """Returns a report, which shows an evaluation of over 60 s as a wait.

    Other threads may call this method during an evaluation.
    """
    since_s = self._since_s
    waited_s = time.monotonic() - since_s if since_s is not None else 0.0
    if waited_s < _WAITS_AFTER_S:
      return messages.EvaluatorReport()
    return messages.EvaluatorReport(
      waiting_s=waited_s, waiting_for=waits.EPISODES
    )

  def get_state(self) -> dict[str, typing.Any]:
    """Returns the state of actor and environments, for pickling.

    The environments' state is left out if they can't be saved.
    """
    return {
      "episodes": self._episodes,
      "actor": self._actor.get_state(),
      "environment": self._environment.get_state() if self._savable else None,
    }

  def set_state(self, state: Mapping[str, typing.Any]) -> None:
    """Restores a state that `get_state` returned for the same config.

    The environments are restored only if they can be saved and the number of
    episodes per evaluation is the same.
    """
    self._actor.set_state(state["actor"])
    if self._savable and state["episodes"] == self._episodes:
      self._environment.set_state(state["environment"])

  def close(self) -> None:
    """Closes the environments."""
    self._environment.close()
