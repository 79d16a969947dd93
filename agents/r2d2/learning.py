"""The learner of R2D2."""

import functools

import ml_collections
import tensorflow as tf
from acme import specs

from slipway.agents import burn_in, q_learner
from slipway.agents.losses import output, sequence_q_learning
from slipway.agents.networks import (
  recurrent,
  recurrent_q_network,
  tf_network,
  tf_ops,
)
from slipway.replay.items import priorities, sequences


class R2D2Learner(q_learner.QLearner):
  """Learner of R2D2: double Q-learning of a recurrent network, from sequences.

  The first `adder.burn_in` steps of a sequence only compute the state.
  Kapturowski et al. 2019, "Recurrent experience replay in distributed
  reinforcement learning", section 2.3.
  """

  def __init__(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ):
    self._network = recurrent_q_network.RecurrentQNetwork(config.network, spec)
    super().__init__(
      config, spec, lambda: tf_network.Network(self._network, config.seed)
    )
    self._burn_in, self._n_step = config.adder.burn_in, config.adder.n_step

  def normalize(
    self, data: sequences.Sequence, inverse_rates: tf.Tensor | None
  ) -> sequences.Sequence:
    self.normalizer.add_observations(data.observation, weights=inverse_rates)
    return self.normalizer.normalize_sequences(data, inverse_rates)

  def compute_loss(
    self, data: sequences.Sequence, recorded: int
  ) -> tuple[output.LossOutput, tf.Tensor]:
    del recorded
    start = self._burn_in
    late, online_state = self._warm_up(self.online, data)
    q, _ = self._unroll(self.online, late, online_state)  # [B, T + 1, A]
    q_target, _ = self._unroll(self.target, *self._warm_up(self.target, data))
    found = sequence_q_learning.sequence_q_learning(
      q,
      data.action[:, start:],
      data.reward[:, start:],
      data.discount[:, start:],
      data.ended[:, start:],
      self._find_learned(data),
      q_target,
      tf.stop_gradient(q),
      self._n_step,
      self._learner.huber_delta,
    )
    return found, q

  def compute_dead_units(self, data: sequences.Sequence) -> tf.Tensor:
    late, state = self._warm_up(self.online, data)
    return self.online.compute_dead_units_of(
      lambda layers: self._network.unroll(layers, late, state)
    )

  def compute_priorities(
    self, data: sequences.Sequence, td_error: tf.Tensor
  ) -> tf.Tensor:
    return priorities.from_sequences(
      td_error, self._find_learned(data), self._replay.eta
    )

  def _find_learned(self, data: sequences.Sequence) -> tf.Tensor:
    """Returns 0 [B, T] for autoresets, which are no steps of an episode."""
    return 1.0 - tf.cast(data.first[:, self._burn_in + 1 :], tf.float32)

  def _unroll(
    self,
    network: tf_network.Network,
    inputs: recurrent.Inputs,
    state: tf.Tensor,
  ) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns action values [B, T, A] of T steps, and the last states."""
    return self._network.unroll(network.layers, inputs, state)

  def _warm_up(
    self, network: tf_network.Network, data: sequences.Sequence
  ) -> tuple[recurrent.Inputs, tf.Tensor]:
    """Returns the inputs after the burn-in, and the states [B, S] there."""
    return burn_in.warm_up(
      functools.partial(self._unroll, network),
      recurrent.sequence_inputs(data, tf_ops.concat),
      data.extras[recurrent.STATE],
      self._burn_in,
    )
