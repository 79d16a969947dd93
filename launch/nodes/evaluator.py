"""Evaluator: measures the episode returns of a greedy actor."""

import pathlib
import time
import typing
from collections.abc import Callable, Mapping

import ml_collections
import numpy as np
from acme import specs

from slipway.agents import core, seeds
from slipway.configs import base
from slipway.environments import factory, saving
from slipway.environments import specs as specs_lib
from slipway.launch.control import messages, waits
from slipway.launch.nodes import evaluation
from slipway.launch.runs import best_variables
from slipway.replay.variables import variable_packing

# Seconds above which an evaluation in progress is reported as a wait.
_WAITS_AFTER_S = 60.0


class Control(typing.Protocol):
  """The part of `control_service.ControlService` that an evaluator calls."""

  def evaluated(
    self, evaluation: messages.Evaluation
  ) -> messages.EvaluationReply:
    """Records an evaluation, and returns whether it is the best so far."""
    ...


class Evaluator:
  """Plays the episodes of evaluations, each with one version of the variables.

  The greedy actor acts without exploration, apart from
  `config.exploration.evaluation_epsilon`.
  """

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    spec: specs.EnvironmentSpec,
    builder: core.Builder,
    control: Control,
    best: pathlib.Path,
    restarts: int = 0,
    savable: bool = False,
  ):
    """Makes the environments and the greedy actor.

    Args:
      control: receives the results of each evaluation.
      best: path of the file with the best variables.
      restarts: number of earlier processes that evaluated this run.
      savable: whether the environments' states can be saved and restored.
    """
    self._episodes = config.evaluation.episodes
    self._target_name, _ = base.parse_info_target(config.limits.target_info)
    self._control, self._best, self._savable = control, best, savable
    # Mean return of the best evaluation, as far as this process knows.
    self._best_return: float | None = None
    # Monotonic seconds at which the evaluation in progress began, or None.
    self._since_s: float | None = None
    self._actor = builder.make_greedy_actor(config, spec)
    seed = seeds.for_evaluation(config.seed, restarts)
    seeds.seed_global_generators(seed)
    self._environment = factory.make(
      base.get_evaluation_environment(config),
      self._episodes,
      seed,
      base.list_info_names(config),
      role="evaluator",
    )
    specs_lib.check_equal(self._environment.name, self._environment.spec, spec)

  def evaluate(
    self,
    newest: variable_packing.VersionedVariables,
    should_stop: Callable[[], bool] = lambda: False,
  ) -> evaluation.Episodes | None:
    """Plays one evaluation, reports it, and saves its variables if it is best.

    An evaluation that may be the best so far is played a second time, since the
    highest of many noisy means is too high. Both count as one evaluation.

    Args:
      should_stop: function called at each step; True stops the evaluation.

    Returns:
      The episodes, or None if the evaluation was stopped. If the environments
      can be saved, a stopped evaluation does not change the next one.
    """
    before = self.get_state() if self._savable else None
    self._actor.load(newest.variables)
    self._since_s = time.monotonic()
    episodes = self._play(should_stop)
    repeated: evaluation.Episodes | None = evaluation.Episodes([], [], {})
    if episodes is not None and self._may_be_best(episodes):
      repeated = self._play(should_stop)
    self._since_s = None
    if episodes is not None and repeated is not None:
      reply = self._control.evaluated(
        messages.Evaluation(
          episodes.returns,
          episodes.lengths,
          newest.version,
          repeated.returns,
          episodes.mean_info,
        )
      )
      if reply.is_best:
        best_variables.save(self._best, newest.version, newest.variables)
      self._best_return = reply.best_return
      return episodes
    if before is not None:
      self.set_state(before)
    return None

  def report(self) -> messages.EvaluatorReport:
    """Returns a report, which shows an evaluation of over 60 s as a wait.

    Other threads may call this method during an evaluation.
    """
    since_s = self._since_s
    waited_s = time.monotonic() - since_s if since_s is not None else 0.0
    if waited_s < _WAITS_AFTER_S:
      return messages.EvaluatorReport()
    return messages.EvaluatorReport(wait=waits.Wait(waits.EPISODES, waited_s))

  def get_state(self) -> dict[str, typing.Any]:
    """Returns the state of actor and environments, for pickling.

    The environments' state is left out if they can't be saved.
    """
    environment = None
    if self._savable:
      environment = saving.try_get_state(self._environment)
    return {
      "episodes": self._episodes,
      "best_return": self._best_return,
      "actor": self._actor.get_state(),
      "environment": environment,
    }

  def set_state(self, state: Mapping[str, typing.Any]) -> None:
    """Restores a state that `get_state` returned for the same config.

    The environments are restored only if the state has them and the number of
    episodes per evaluation is the same.
    """
    self._actor.set_state(state["actor"])
    self._best_return = state["best_return"]
    environment = state["environment"]
    if environment is not None and state["episodes"] == self._episodes:
      self._environment.set_state(environment)

  def close(self) -> None:
    """Closes the environments."""
    self._environment.close()

  def _play(
    self, should_stop: Callable[[], bool]
  ) -> evaluation.Episodes | None:
    """Plays the episodes of an evaluation; returns None if it was stopped."""
    episodes = evaluation.play(
      self._environment, self._actor, self._episodes, should_stop
    )
    if episodes is None:
      return None
    known = episodes.info.get(self._target_name, ())
    if len(known) < self._episodes:
      # Only a success may be in infos, whose mean would be reached at once.
      episodes.info.pop(self._target_name, None)
    return episodes

  def _may_be_best(self, episodes: evaluation.Episodes) -> bool:
    """Returns whether an evaluation is at least as good as the best so far."""
    # A restarted evaluator knows of no earlier evaluation, so the result of its
    # first one is True.
    best = self._best_return
    return best is None or float(np.mean(episodes.returns)) >= best
