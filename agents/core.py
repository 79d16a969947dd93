"""The interfaces that an algorithm implements, and that the nodes run."""

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
    priorities: float32 [B], the new ones of what was learned from; None: the
      algorithm has none.
  """

  metrics: Mapping[str, typing.Any]
  priorities: typing.Any = None


class Learner(typing.Protocol):
  """Turns batches into better variables. Acme's Learner, without its loop."""

  def update(self, batch: "dataset_lib.Batch") -> Update:
    """Learns from one batch; traced into the trainer's graph."""
    ...

  def get_variables(self) -> dict[str, np.ndarray]:
    """Returns a copy of what actors need, by name."""
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
    """Acts by the newest variables.

    Args:
      observation: [B, ...].
      reward: [B] float32, of the steps that led to the observations.
      first: [B] bool, the observations that begin episodes.

    Returns:
      Actions [B, ...], as the environment's spec says, and the extras that the
      algorithm's adder stores, [B, ...] each.
    """
    ...

  def load(self, variables: Mapping[str, np.ndarray]) -> None:
    """Acts by a learner's variables from now on."""
    ...

  def get_state(self) -> typing.Any:
    """Returns a copy of what actions depend on besides variables and inputs.

    It can be pickled, and does not change when the actor acts again.
    """
    ...

  def set_state(self, state: typing.Any) -> None:
    """Continues as the actor would have whose state was taken."""
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
      observation: [B, ...], which was acted on.
      output: of the actor on it.
      reward: [B] float32 of the step.
      terminated: [B] bool, the step reached a terminal state.
      truncated: [B] bool, the step was cut off; the state has a value.
      first: [B] bool, the step was an autoreset and the action ignored.
      next_observation: [B, ...], after the step; where an episode ended, its
        true last observation.
      version: of the variables that chose the actions.

    Returns:
      The items that are complete now; None if there are none.
    """
    ...

  def get_state(self) -> dict[str, typing.Any]:
    """Returns a copy of what is not yet an item."""
    ...

  def set_state(self, state: Mapping[str, typing.Any]) -> None:
    """Continues with the unfinished items of an adder made alike."""
    ...


class Builder(typing.Protocol):
  """Describes an algorithm completely: the same object serves every launch."""

  @property
  def fields(self) -> fields_lib.Fields:
    """The config's fields by dotted name, the shared ones included."""
    ...

  def check(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> None:
    """Checks that the fields fit together, and the environment.

    Raises:
      ValueError: what can't be served.
    """
    ...

  def make_table(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> table_spec.TableSpec | None:
    """Describes the table that workers write and the trainer samples.

    None: there are no workers, and `make_batches` gives the data.
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
    """Declares the network that acts."""
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
      spec: of one environment.
      worker: its index, from 0.
      restarts: processes that were this worker before; their random numbers
        are not used again.
      env_steps: environment steps that those have made, from which schedules
        continue.
    """
    ...

  def make_greedy_actor(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> Actor:
    """Makes the actor that is evaluated."""
    ...

  def make_learner(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> Learner:
    """Makes the learner, with fresh variables from config.seed."""
    ...


class Batches(typing.Protocol):
  """Recorded data, in an order that follows from the number of the update."""

  def batch(self, step: int) -> typing.Any:
    """Returns the data of an update: a structure of arrays [B, ...].

    Args:
      step: of the trainer, from 0.
    """
    ...
