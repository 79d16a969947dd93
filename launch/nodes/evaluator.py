"""The evaluator node: greedy returns of the newest variables."""

import typing

import ml_collections
from acme import specs

from agents import registry
from launch.nodes import addresses, evaluation, link
from launch.orchestration import messages
from launch.runs import best_variables, run_folder
from replay import variable_packing

_POLL_S = 0.1
SEED = 1_000_000  # apart from the workers' seeds


class Evaluator:
  """Plays each evaluation with one version, and keeps the best one."""

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    spec: specs.EnvironmentSpec,
    folder: run_folder.RunFolder,
    data: addresses.DataAddresses,
    control: typing.Any,
  ):
    """Makes its own environments.

    Args:
      config: the whole config.
      spec: of one environment.
      folder: of the run, for the best variables.
      data: where variables come from.
      control: `control_client.ControlClient` of the control node.
    """
    self._config, self._folder, self._control = config, folder, control
    episodes = config.evaluation.episodes
    self._environment = evaluation.make_environment(
      config.environment, episodes, config.seed + SEED
    )
    builder = registry.make_builder(config.agent)
    self._actor = builder.make_greedy_actor(config, spec)
    self._variables = data.make_variables_source()

  def step(self) -> float:
    """Evaluates the newest variables once; returns their mean return.

    Raises:
      RuntimeError: nothing new has been published.
    """
    snapshot = self._variables.poll()
    if snapshot is None:
      raise RuntimeError("there are no new variables to evaluate: step later")
    episodes = self._evaluate(snapshot, stopping=lambda: False)
    assert episodes is not None
    return sum(episodes.returns) / len(episodes.returns)

  def run(self) -> None:
    """Evaluates until the run stops."""
    with link.Link(
      self._control, "evaluator", 0, messages.EvaluatorReport
    ) as node_link:
      while not node_link.wait(_POLL_S):
        snapshot = self._variables.poll()
        if snapshot is None:
          continue
        self._evaluate(snapshot, stopping=lambda: node_link.stopping)
        node_link.wait(self._config.evaluation.period_s)
      self._environment.close()

  def _evaluate(
    self,
    snapshot: variable_packing.Snapshot,
    stopping: typing.Callable[[], bool],
  ) -> evaluation.Episodes | None:
    self._actor.load(snapshot.variables)
    episodes = evaluation.play(
      self._environment,
      self._actor,
      self._config.evaluation.episodes,
      stopping,
    )
    if episodes is not None and self._control.evaluated(
      messages.Evaluation(*episodes, snapshot.version)
    ):
      best_variables.save(
        self._folder.best, snapshot.version, snapshot.variables
      )
    return episodes
