"""The base class of learners of action values."""

import typing
from collections.abc import Callable, Mapping

import ml_collections
import numpy as np
import tensorflow as tf
from acme import specs

from slipway.agents import (
  batch_weights,
  dead_units,
  normalizer,
  optimizer,
  targets,
)
from slipway.agents.networks import action_masks, tf_network
from slipway.environments import arrays
from slipway.replay.tables import dataset


class QLearner:
  """Base class of learners with an online network and a target network.

  With `learner.averaging`, actors get a moving average of the online network,
  since networks a few updates apart may differ a lot in how well they act.

  Attributes:
    normalizer: normalizer of batches, which subclasses apply before the
      networks.
    online: network whose variables the optimizer updates.
    target: the target network, a periodic copy of `online`.
    dead_units: metric that subclasses measure on their batches.
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
    self._masked = isinstance(spec.observations, arrays.MaskedArray)
    self.normalizer = normalizer.Normalizer(config, spec)
    self.online = make_network()
    self.target = make_network()
    self._average = make_network() if self._learner.averaging else None
    self._optimizer = optimizer.Optimizer(
      self.online.trainable_variables,
      optimizer.Settings.from_config(self._learner),
    )
    self.dead_units = dead_units.DeadUnitsMetric()
    self.steps = tf.Variable(tf.zeros((), tf.int64), name="trainer_steps")

  def descend(
    self, tape: tf.GradientTape, batch: dataset.Batch, losses: tf.Tensor
  ) -> dict[str, tf.Tensor]:
    """Takes one gradient step, and updates the target network if due.

    Also counts `steps` up. The online network is copied to the target network
    every `learner.target_update_period` updates: Mnih et al. 2015, "Human-level
    control through deep reinforcement learning", algorithm 1.

    Args:
      losses: loss of each element of the batch, [B].

    Returns:
      Metrics by name: 'loss', the mean weighted loss, and 'gradient_norm', the
      gradient's norm before clipping.
    """
    weights = batch_weights.compute(self._replay, batch, self.steps)
    with tape:
      loss = tf.reduce_mean(weights * losses)  # []
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
    return {"loss": loss, "gradient_norm": norm}

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
      dead_units.NAME: self.dead_units,
      "steps": self.steps,
    }

  def _update_target(self) -> None:
    """Copies the online network to the target, and adds it to the average.

    Izmailov et al. 2018, "Averaging weights leads to wider optima and better
    generalization" (https://arxiv.org/abs/1803.05407), section 3.2. The average
    is the mean of all copies, until `learner.averaging` is more than the weight
    of a copy in that mean; from then on older copies fade.
    """
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
