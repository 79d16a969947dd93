"""The interfaces that an algorithm fills, and the nodes run."""

import typing
from collections.abc import Mapping

import ml_collections
import numpy as np
from acme import specs

from configs import fields as fields_lib
from replay import adder as adder_lib
from replay import layouts

if typing.TYPE_CHECKING:
  # Workers of small networks act without TensorFlow's graph machinery.
  from replay import dataset as dataset_lib


class Learner(typing.Protocol):
  """Turns batches into better variables. Acme's Learner, without its loop."""

  def update(self, batch: "dataset_lib.Batch") -> tuple[typing.Any, dict]:
    """One gradient step; traced into the trainer's graph.

    Returns:
      New TD errors [B] float32, and scalars by metric name.
    """
    ...

  def get_variables(self) -> dict[str, np.ndarray]:
    """A copy of what actors need, by name."""
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
  ) -> adder_lib.Decision:
    """Decides by the newest variables.

    Args:
      observation: [B, ...].
      reward: [B] float32, of the steps that led to them.
      first: [B] bool, they open episodes.
    """
    ...

  def load(self, variables: Mapping[str, np.ndarray]) -> None:
    """Takes over variables that a learner's `get_variables` gave."""
    ...

  def get_state(self) -> typing.Any:
    """What decisions depend on beside variables and observations.

    Can be pickled, and does not change when the actor goes on.
    """
    ...

  def set_state(self, state: typing.Any) -> None:
    """Goes on as the actor would have whose `get_state` it is."""
    ...


class Adder(typing.Protocol):
  """Forms items of what a batch of environments went through."""

  def add(
    self,
    observation: np.ndarray,
    decision: adder_lib.Decision,
    reward: np.ndarray,
    terminated: np.ndarray,
    truncated: np.ndarray,
    first: np.ndarray,
    version: int,
  ) -> adder_lib.Items | None:
    """Adds one step of every environment.

    Args:
      observation: [B, ...] what was acted on.
      decision: what was decided on it.
      reward: [B] float32 of the step.
      terminated: [B] bool, the step reached a terminal state.
      truncated: [B] bool, the step was cut off; the state has a value.
      first: [B] bool, the step was an autoreset and the action ignored.
      version: of the variables by which was decided.

    Returns:
      The items that are whole by now; None if there are none.
    """
    ...

  def get_state(self) -> dict[str, typing.Any]:
    """What is open, in arrays of the caller's own."""
    ...

  def set_state(self, state: Mapping[str, typing.Any]) -> None:
    """Goes on with what was open in an adder made like this one."""
    ...


class Builder(typing.Protocol):
  """Describes an algorithm wholly: the same object serves every launch."""

  @property
  def fields(self) -> fields_lib.Fields:
    """The fields of its configs by dotted name, the shared ones included."""
    ...

  def make_layout(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> layouts.Layout:
    """Layout of the items of its table."""
    ...

  def make_learner(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> Learner:
    """The learner, with fresh variables from config.seed."""
    ...

  def make_actor(
    self,
    config: ml_collections.ConfigDict,
    spec: specs.EnvironmentSpec,
    worker: int,
    lives: int = 0,
    env_steps: int = 0,
  ) -> Actor:
    """The exploring actor of one worker.

    Args:
      config: the whole config.
      spec: of one environment.
      worker: its index, from 0.
      lives: processes that were this worker before; their random numbers are
        not drawn again.
      env_steps: environment steps that those have made: what falls with time
        goes on from there.
    """
    ...

  def make_greedy_actor(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> Actor:
    """The actor that is evaluated."""
    ...

  def make_adder(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> Adder:
    """The adder of one worker's batch of environments."""
    ...

  def check(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> None:
    """Checks the rules between fields, and that it fits the environment.

    Args:
      config: the whole config, valid field by field.
      spec: of one environment.

    Raises:
      ValueError: one line with the fields, their values and the consequence.
    """
    ...
