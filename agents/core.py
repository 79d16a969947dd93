"""Interfaces between an algorithm and the nodes that run it."""

import typing
from collections.abc import Mapping

import ml_collections
import numpy as np
from acme import specs

from slipway.agents.networks import network
from slipway.configs import fields as fields_lib
from slipway.replay.items import adder as adder_lib
from slipway.replay.tables import table_spec

if typing.TYPE_CHECKING:
  # Workers of small networks act without TensorFlow's graph machinery.
  from slipway.replay.tables import dataset as dataset_lib


class Update(typing.NamedTuple):
  """The result of one update, as tensors of the trainer's graph.

  Attributes:
    metrics: scalars by name.
    priorities: float32 [B], new priorities of the batch's elements, or None if
      the algorithm has no priorities.
  """

  metrics: Mapping[str, typing.Any]
  priorities: typing.Any = None


class Learner(typing.Protocol):
  """Updates variables from batches. It is Acme's Learner without its loop."""

  def update(self, batch: "dataset_lib.Batch") -> Update:
    """Learns from one batch; traced into the trainer's graph."""
    ...

  def get_variables(self) -> dict[str, np.ndarray]:
    """Returns a copy of the variables that actors need, by name."""
    ...

  @property
  def steps(self) -> typing.Any:
    """Updates done so far, as an int64 variable that `update` counts up."""
    ...

  @property
  def checkpointed(self) -> Mapping[str, typing.Any]:
    """All trackable state by name, for tf.train.Checkpoint."""
    ...


class Actor(typing.Protocol):
  """Chooses actions for a batch of observations. Acme's Actor, batched."""

  def act(
    self, observation: np.ndarray, reward: np.ndarray, first: np.ndarray
  ) -> adder_lib.ActorOutput:
    """Chooses actions with the newest variables.

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
    """Replaces the variables by a learner's."""
    ...

  def get_state(self) -> typing.Any:
    """Returns a copy of the actor's state, such as random numbers and memory.

    Variables are not part of it. The copy can be pickled, and does not change
    when the actor acts again.
    """
    ...

  def set_state(self, state: typing.Any) -> None:
    """Restores a state that `get_state` returned."""
    ...


class Adder(typing.Protocol):
  """Forms items from the steps of a batch of environments."""

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
    """Adds one step of every environment.

    Args:
      observation: observations [B, ...] before the step.
      output: output of the actor for these observations.
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
    """Returns a copy of the steps that are not yet in a complete item."""
    ...

  def set_state(self, state: Mapping[str, typing.Any]) -> None:
    """Restores the state of an adder with the same configuration."""
    ...


class Builder(typing.Protocol):
  """Makes all components of an algorithm, the same ones in every mode.

  In the methods, `config` is the whole config, and `spec` the spec of one
  environment.
  """

  @property
  def fields(self) -> fields_lib.Fields:
    """The config's fields by dotted name, the shared ones included."""
    ...

  def check(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> None:
    """Checks that the config's fields fit each other and the environment.

    Raises:
      ValueError: a field does not fit.
    """
    ...

  def make_table(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> table_spec.TableSpec | None:
    """Returns the spec of the table that workers write and the trainer samples.

    Returns None if there are no workers, and `make_batches` makes the data.
    """
    ...

  def make_batches(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> "Batches":
    """Makes the batches of recorded data, where there is no table."""
    ...

  def make_adder(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> Adder:
    """Makes the adder of one worker's batch of environments."""
    ...

  def make_network(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> network.PolicyDeclaration:
    """Declares the network by which actors choose actions."""
    ...

  def make_actor(
    self,
    config: ml_collections.ConfigDict,
    spec: specs.EnvironmentSpec,
    worker: int,
    restarts: int = 0,
    env_steps: int = 0,
  ) -> Actor:
    """Makes the exploring actor of one worker.

    Args:
      config: the whole config.
      spec: spec of one environment.
      worker: index of the worker, from 0.
      restarts: number of the worker's earlier processes; their random numbers
        are not repeated.
      env_steps: environment steps of these processes, from which schedules
        continue.
    """
    ...

  def make_greedy_actor(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> Actor:
    """Makes the actor without exploration, for evaluation."""
    ...

  def make_learner(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> Learner:
    """Makes the learner, with new variables from config.seed."""
    ...


class Batches(typing.Protocol):
  """Batches of recorded data; the update's number determines the batch."""

  def batch(self, step: int) -> typing.Any:
    """Returns the batch of an update, a structure of arrays [B, ...].

    Args:
      step: number of the update, from 0.
    """
    ...
