"""The learner of the DQN family."""

import typing
from collections.abc import Mapping

import ml_collections
import numpy as np
import tensorflow as tf
from acme import specs

from slipway.agents import core, highest_priority, q_learner
from slipway.agents.losses import (
  categorical,
  munchausen,
  offline,
  output,
  q_learning,
  quantile,
)
from slipway.agents.networks import heads, q_network, tf_network
from slipway.replay.items import priorities, transitions
from slipway.replay.tables import dataset as dataset_lib

# Maximum number of network calls per update, each of which has its own seed.
_CALLS_PER_UPDATE = 4


class DQNLearner(q_learner.QLearner):
  """Learner of DQN and its variants, from n-step transitions.

  Head and `learner` section of the config select the loss.
  """

  def __init__(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ):
    network = q_network.QNetwork(config.network, spec)
    super().__init__(
      config, spec, lambda: tf_network.Network(network, config.seed)
    )
    head = heads.make_head(config.network)
    self._atoms = None if head.atoms is None else tf.constant(head.atoms)
    self._scale = categorical.make_scale(heads.has_support(config.network))
    self._highest = highest_priority.HighestPriority(
      head.atoms is not None and config.replay.sampler == "prioritized"
    )
    self._needs_random = network.needs_random
    self._samples_quantiles = head.sampled
    self._quantiles = config.network.quantiles
    self._seed = config.seed

  def update(self, batch: dataset_lib.Batch) -> core.Update:
    return self._highest.add(super().update(batch), batch)

  def normalize(
    self, data: transitions.Transition, inverse_rates: tf.Tensor | None
  ) -> transitions.Transition:
    seed = tf.stack([self._seed, tf.cast(self.steps, tf.int32)])
    return self.normalizer.normalize_transitions(data, inverse_rates, seed)

  def compute_dead_units(self, data: transitions.Transition) -> tf.Tensor:
    return self.online.compute_dead_units(
      data.o_tm1, self._make_seed(0), self._quantiles
    )

  def compute_priorities(
    self, data: transitions.Transition, td_error: tf.Tensor
  ) -> tf.Tensor:
    del data
    return priorities.from_td_errors(td_error)

  def compute_loss(
    self, data: transitions.Transition, recorded: int
  ) -> tuple[output.LossOutput, tf.Tensor]:
    online = self.online(data.o_tm1, self._make_seed(0), self._quantiles)
    found = self._compute_td_loss(data, online)
    if self._learner.cql_weight:
      penalty = q_learning.conservative(online.values, data.a_tm1)
      found = found._replace(
        loss=found.loss + self._learner.cql_weight * penalty
      )
    if self._learner.margin_weight:
      error = q_learning.large_margin(
        online.values, data.a_tm1, self._learner.margin
      )
      size = typing.cast(int, error.shape[0])
      demonstrated = np.arange(size) >= size - recorded
      weight = self._learner.margin_weight * demonstrated.astype(np.float32)
      found = found._replace(loss=found.loss + weight * error)
    if online.behaviour is not None:
      error = offline.cloning_loss(online.behaviour, data.a_tm1)
      found = found._replace(loss=found.loss + error)
    return found, online.values

  def get_variables(self) -> dict[str, np.ndarray]:
    return super().get_variables() | self._highest.get_variables()

  @property
  def checkpointed(self) -> Mapping[str, typing.Any]:
    return {**super().checkpointed, **self._highest.checkpointed}

  def _compute_td_loss(
    self, data: transitions.Transition, online: q_network.Output
  ) -> output.LossOutput:
    """Returns the losses of a batch, by the paper of the config's algorithm."""
    settings, given = self._learner, (data.a_tm1, data.r_t, data.discount_t)
    target = self.target(data.o_t, self._make_seed(1), self._quantiles)
    selector = target.choice  # whose best action is that of the bootstrap
    if settings.double or self._samples_quantiles:
      network = self.online if settings.double else self.target
      selector = network(data.o_t, self._make_seed(2)).choice
    if self._atoms is not None:
      return categorical.categorical_q_learning(
        online.outputs,
        *given,
        target.outputs,
        selector,
        self._atoms,
        self._scale,
      )
    if online.taus is not None:
      return quantile.quantile_q_learning(
        online.outputs,
        tf.convert_to_tensor(online.taus),
        *given,
        target.outputs,
        selector,
        settings.huber_delta,
      )
    if settings.munchausen_scale:
      target_tm1 = self.target(data.o_tm1, self._make_seed(3))
      return munchausen.munchausen_q_learning(
        online.values,
        *given,
        target_tm1.values,
        target.values,
        settings.munchausen_temperature,
        settings.munchausen_scale,
        settings.munchausen_lowest,
        settings.huber_delta,
      )
    return q_learning.q_learning(
      online.values, *given, target.values, selector, settings.huber_delta
    )

  def _make_seed(self, call: int) -> tf.Tensor | None:
    """Returns a seed int32 [2] for a network call of the current update."""
    if not self._needs_random:
      return None
    step = tf.cast(self.steps, tf.int32)
    return tf.stack([self._seed, _CALLS_PER_UPDATE * step + call])
