"""The base class of learners of action values."""

import abc
import typing
from collections.abc import Callable, Mapping

import ml_collections
import numpy as np
import tensorflow as tf
from acme import specs

from slipway.agents import (
  batch_weights,
  core,
  dead_units,
  normalizer,
  optimizer,
  targets,
)
from slipway.agents.losses import output
from slipway.agents.networks import action_masks, tf_network
from slipway.environments import arrays
from slipway.replay.tables import dataset


class QLearner(abc.ABC):
  """Base class of learners with an online network and a target network.

  A subclass says how a batch is normalized, what its loss is, and which
  priorities follow from it; the step is the same for all.

  With `learner.averaging`, actors get a moving average of the online network,
  since networks a few updates apart may differ a lot in how well they act.

  Attributes:
    normalizer: normalizer of batches.
    online: network whose variables the optimizer updates.
    target: the target network, a periodic copy of `online`.
    steps: number of updates done, int64 [].
  """

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    spec: specs.EnvironmentSpec,
    make_network: Callable[[], tf_network.Network],
  ):
    """Makes the online and the target network, with equal variables.

    Args:
      make_network: returns a new network; two calls must return networks with
        equal variables.
    """
    self._learner = config.learner.copy_and_resolve_references()
    self._replay = config.replay.copy_and_resolve_references()
    self._is_recorded = core.is_recorded(config)
    self._masked = isinstance(spec.observations, arrays.MaskedArray)
    self.normalizer = normalizer.Normalizer(config, spec)
    self.online = make_network()
    self.target = make_network()
    self._average = make_network() if self._learner.averaging else None
    self._optimizer = optimizer.Optimizer(
      self.online.trainable_variables,
      optimizer.Settings.from_config(self._learner),
    )
    self._dead_units = dead_units.DeadUnitsMetric()
    self.steps = tf.Variable(tf.zeros((), tf.int64), name="trainer_steps")

  @abc.abstractmethod
  def normalize(
    self, data: typing.Any, inverse_rates: tf.Tensor | None
  ) -> typing.Any:
    """Adds a batch's data to the statistics, and returns it normalized.

    Args:
      inverse_rates: results [B] of `batch_weights.compute_inverse_rates`.
    """

  @abc.abstractmethod
  def compute_loss(
    self, data: typing.Any, recorded: int
  ) -> tuple[output.LossOutput, tf.Tensor]:
    """Returns the loss of normalized data, and online action values [..., A].

    It is called once per update, under a gradient tape.

    Args:
      recorded: number of elements, the last ones, that were recorded.
    """

  @abc.abstractmethod
  def compute_dead_units(self, data: typing.Any) -> tf.Tensor:
    """Returns the part [] of the online network's ReLUs that give 0."""

  @abc.abstractmethod
  def compute_priorities(
    self, data: typing.Any, td_error: tf.Tensor
  ) -> tf.Tensor:
    """Returns new priorities [B] from the errors of `compute_loss`."""

  def update(self, batch: dataset.Batch) -> core.Update:
    """Takes a gradient step, and updates the target network if it is due.

    The online network is copied to the target network every
    `learner.target_update_period` updates: Mnih et al. 2015, "Human-level
    control through deep reinforcement learning", algorithm 1.
    """
    data = self.normalize(
      batch.data, batch_weights.compute_inverse_rates(self._replay, batch)
    )
    weights = batch_weights.compute(self._replay, batch, self.steps)
    recorded = batch.recorded
    if self._is_recorded:
      recorded = typing.cast(int, weights.shape[0])
    with tf.GradientTape() as tape:
      found, values = self.compute_loss(data, recorded)
      loss = tf.reduce_mean(weights * found.loss)
    dead = self._dead_units.update(
      self.steps, lambda: self.compute_dead_units(data)
    )
    rate = self._learner.learning_rate * optimizer.rate_factor(
      self._learner, self.steps
    )
    norm = self._optimizer.minimize(loss, tape, rate)
    # The control dependency delays the count until the batch is there, since
    # the iterator may end in this step.
    with tf.control_dependencies([norm]):
      self.steps.assign_add(1)
    tf.cond(
      self.steps % self._learner.target_update_period == 0,
      self._update_target,
      lambda: None,
    )
    metrics = {
      "loss": loss,
      "gradient_norm": norm,
      dead_units.NAME: dead,
      "q_mean": self._mean_over_legal(values),
      "td_error_abs_mean": tf.reduce_mean(tf.abs(found.td_error)),
    }
    if found.outside_support is not None:
      metrics.update(found.outside_support.metrics())
    return core.Update(metrics, self.compute_priorities(data, found.td_error))

  def get_variables(self) -> dict[str, np.ndarray]:
    network = self._average or self.online
    return network.get_variables() | self.normalizer.get_variables()

  @property
  def checkpointed(self) -> Mapping[str, typing.Any]:
    return {
      **self.normalizer.checkpointed,
      "online": self.online,
      "target": self.target,
      **({"average": self._average} if self._average else {}),
      "optimizer": self._optimizer,
      dead_units.NAME: self._dead_units,
      "steps": self.steps,
    }

  def _update_target(self) -> None:
    """Copies the online network to the target, and adds it to the average."""
    # Izmailov et al. 2018, "Averaging weights leads to wider optima and better
    # generalization" (https://arxiv.org/abs/1803.05407), section 3.2. The
    # average is the mean of all copies, until `learner.averaging` is more than
    # the weight of a copy in that mean; from then on older copies fade.
    targets.copy(self.target.variables, self.online.variables)
    if self._average:
      copies = self.steps // self._learner.target_update_period
      weight = tf.maximum(
        self._learner.averaging, 1.0 / tf.cast(copies, tf.float32)
      )
      targets.soft_update(
        self._average.variables, self.online.variables, weight
      )

  def _mean_over_legal(self, values: tf.Tensor) -> tf.Tensor:
    """Returns the mean [] of action values [..., A] over legal actions."""
    if self._masked:
      values = tf.boolean_mask(values, values > 0.5 * action_masks.ILLEGAL)
    return tf.reduce_mean(values)
