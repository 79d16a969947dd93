"""Protocols that an algorithm implements, and that the nodes of a run call."""

import sys
import typing
from collections.abc import Mapping

import ml_collections
import numpy as np
from acme import specs

from slipway.agents.networks import network
from slipway.configs import fields as fields_lib
from slipway.environments import user_code
from slipway.replay.items import adder as adder_lib
from slipway.replay.tables import table_spec

if typing.TYPE_CHECKING:
  # Workers of small networks act without TensorFlow's graph machinery.
  from slipway.replay.tables import dataset as dataset_lib


class Update(typing.NamedTuple):
  """The result of one call of `Learner.update`, as TensorFlow tensors.

  Attributes:
    metrics: metrics by name, scalar tensors.
    priorities: float32 [B], new priorities of the batch's elements, or None if
      the algorithm has no priorities.
  """

  metrics: Mapping[str, typing.Any]
  priorities: typing.Any = None


class Learner(typing.Protocol):
  """Updates an algorithm's variables from batches.

  It resembles Acme's `Learner`, but a trainer calls `update` per batch.
  """

  def update(self, batch: "dataset_lib.Batch") -> Update:
    """Updates the variables from one batch.

    TensorFlow traces this method into the trainer's graph.
    """
    ...

  def get_variables(self) -> dict[str, np.ndarray]:
    """Returns a copy of the variables that actors need, as arrays by name."""
    ...

  @property
  def steps(self) -> typing.Any:
    """Number of updates done so far, an int64 tf.Variable.

    `update` adds 1.
    """
    ...

  @property
  def checkpointed(self) -> Mapping[str, typing.Any]:
    """Trackable objects by name, with all state that checkpoints save.

    They are the keyword arguments of `tf.train.Checkpoint`.
    """
    ...


@typing.runtime_checkable
class ValueLearner(typing.Protocol):
  """A `Learner` that has values besides those of its actors' outputs."""

  def estimate_values(
    self, observation: np.ndarray, action: np.ndarray
  ) -> typing.Any:
    """Returns the values of steps, a tensor float32 [B] in terms of returns.

    Args:
      observation: observations [B, ...].
      action: actions [B, ...], on which the values of states do not depend.

    Returns:
      The values; None if they depend on earlier observations.
    """
    ...


class Actor(typing.Protocol):
  """Chooses actions for a batch of B environments.

  It resembles Acme's `Actor`, but acts on several environments at once.
  """

  def act(
    self, observation: np.ndarray, reward: np.ndarray, first: np.ndarray
  ) -> adder_lib.ActorOutput:
    """Chooses an action per environment, with the loaded variables.

    Args:
      observation: observations [B, ...].
      reward: float32 [B], rewards of the steps that led to the observations.
      first: bool [B], whether an observation begins an episode.

    Returns:
      Actions [B, ...] of the environment's action spec, and the extras that the
      algorithm's adder stores, [B, ...] each.
    """
    ...

  def load(self, variables: Mapping[str, np.ndarray]) -> None:
    """Replaces the variables by those of `Learner.get_variables`."""
    ...

  def get_state(self) -> typing.Any:
    """Returns a copy of the actor's state, without the network's variables.

    The state includes the random generator and, if recurrent, its memory.
    The copy can be pickled, and does not change when the actor acts again.
    """
    ...

  def set_state(self, state: typing.Any) -> None:
    """Restores a state that `get_state` returned."""
    ...


class Adder(typing.Protocol):
  """Forms replay items from the steps of one worker's B environments."""

  def add(
    self,
    observation: np.ndarray,
    output: adder_lib.ActorOutput,
    reward: np.ndarray,
    terminated: np.ndarray,
    truncated: np.ndarray,
    first: np.ndarray,
    next_observation: np.ndarray,
    version: int,
  ) -> adder_lib.Items | None:
    """Adds one step of each of the B environments.

    Args:
      observation: observations [B, ...] before the step.
      reward: float32 [B], rewards of the step.
      terminated: bool [B], whether the step reached a terminal state.
      truncated: bool [B], whether a time limit ended the episode; its last
        observation still has a value.
      first: bool [B], whether the step was an autoreset, which ignores actions.
      next_observation: observations [B, ...] after the step; where an episode
        ended, its true last observation.
      version: version of the variables that chose the actions.

    Returns:
      The items that the step completed, or None if there are none.
    """
    ...

  def get_state(self) -> dict[str, typing.Any]:
    """Returns a copy of the steps that no complete item contains yet."""
    ...

  def set_state(self, state: Mapping[str, typing.Any]) -> None:
    """Restores a state of `get_state`, from an adder with an equal config."""
    ...


class Builder(typing.Protocol):
  """Makes the table, adder, actors, network and learner of an algorithm.

  The components are the same in the modes `async`, `sync` and `single`. In all
  methods, `config` is the whole config, and `spec` is the spec of one
  environment.
  """

  @property
  def fields(self) -> fields_lib.Fields:
    """The algorithm's config fields, by dotted name.

    They include the fields that all algorithms share.
    """
    ...

  def check(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> None:
    """Raises ValueError if config fields contradict each other or the spec."""
    ...

  def make_table(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> table_spec.TableSpec:
    """Returns the spec of the table that workers write and the trainer samples.

    With `dataset.path`, the items of such a table are made of recorded
    episodes, by the adder.
    """
    ...

  def make_adder(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> Adder:
    """Makes the adder of one worker's environments."""
    ...

  def make_network(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> network.PolicyDeclaration:
    """Returns the declaration of the network that chooses actions."""
    ...

  def make_actor(
    self,
    config: ml_collections.ConfigDict,
    spec: specs.EnvironmentSpec,
    worker: int,
    restarts: int = 0,
    earlier_env_steps: int = 0,
  ) -> Actor:
    """Makes the exploring actor of one worker.

    Args:
      worker: index of the worker, from 0.
      restarts: number of earlier processes of this worker. Each number gives
        other random numbers.
      earlier_env_steps: environment steps of those processes, at which
        exploration schedules continue.
    """
    ...

  def make_greedy_actor(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> Actor:
    """Makes the greedy actor, which evaluations and loaded policies use."""
    ...

  def make_learner(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> Learner:
    """Makes the learner, with variables initialized from `config.seed`."""
    ...


def is_recorded(config: ml_collections.ConfigDict) -> bool:
  """Returns whether a run learns from recorded episodes only."""
  dataset = config.get("dataset", {})
  return bool(dataset.get("path", "")) and not dataset.get("ratio", 0.0)


def make_collected_table(
  builder: Builder,
  config: ml_collections.ConfigDict,
  spec: specs.EnvironmentSpec,
) -> table_spec.TableSpec | None:
  """Returns the spec of the table that workers write, or None if none do."""
  if is_recorded(config):
    return None
  return builder.make_table(config, spec)


def load_optimizer(name: str) -> typing.Any:
  """Imports the class of a user's optimizer, 'module:Name'.

  It is a `tf.Module`, called with the variables of a loss, whose method
  `apply(gradients, learning_rate)` changes them.

  Raises:
    ValueError: there is no such class.
    user_code.UserCodeError: the import failed.
  """
  prefix = f"config.learner.optimizer={name!r}"
  expected = "a tf.Module whose method is apply(gradients, learning_rate)"
  found = user_code.load(prefix, name, expected)
  # The class's own module has imported TensorFlow, if it is a tf.Module.
  module = getattr(sys.modules.get("tensorflow"), "Module", ())
  is_module = isinstance(found, type) and issubclass(found, module)
  if not (is_module and hasattr(found, "apply")):
    raise ValueError(
      f"{prefix} is not {expected}, so it could not update variables, or a "
      "resume would lose its state: derive the class from tf.Module, and give "
      "it this method"
    )
  return found
