"""The learner of R2D2."""

import ml_collections
import tensorflow as tf
from acme import specs

from slipway.agents import batch_weights, core, dead_units, q_learner
from slipway.agents.losses import sequence_q_learning
from slipway.agents.networks import (
  recurrent,
  recurrent_q_network,
  tf_network,
  tf_ops,
)
from slipway.replay.items import priorities, sequences
from slipway.replay.tables import dataset as dataset_lib


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

  def update(self, batch: dataset_lib.Batch) -> core.Update:
    self.normalizer.add_observations(
      batch.data.observation,
      weights=batch_weights.compute_inverse_rates(self._replay, batch),
    )
    sequence: sequences.Sequence = batch.data._replace(
      observation=self.normalizer.normalize_observations(batch.data.observation)
    )
    start = self._burn_in
    early, late = _split_inputs(
      recurrent.sequence_inputs(sequence, tf_ops.concat), start
    )
    online_state, target_state = (
      self._warm_up(network, early, sequence.extras[recurrent.STATE])
      for network in (self.online, self.target)
    )
    q_target, _ = self._unroll(self.target, late, target_state)  # [B, T + 1, A]
    # Autoresets are no steps of an episode, so nothing is learned from them.
    learned = 1.0 - tf.cast(sequence.first[:, start + 1 :], tf.float32)
    with tf.GradientTape() as tape:
      q, _ = self._unroll(self.online, late, online_state)  # [B, T + 1, A]
      output = sequence_q_learning.sequence_q_learning(
        q,
        sequence.action[:, start:],
        sequence.reward[:, start:],
        sequence.discount[:, start:],
        sequence.ended[:, start:],
        learned,
        q_target,
        tf.stop_gradient(q),
        self._n_step,
        self._learner.huber_delta,
      )
    dead = self.dead_units.update(
      self.steps,
      lambda: self.online.compute_dead_units_of(
        lambda layers: self._network.unroll(layers, late, online_state)
      ),
    )
    metrics = {
      **self.descend(tape, batch, output.loss),
      dead_units.NAME: dead,
      "q_mean": self._mean_over_legal(q),
      "td_error_abs_mean": tf.reduce_mean(tf.abs(output.td_error)),
    }
    return core.Update(
      metrics,
      priorities.from_sequences(output.td_error, learned, self._replay.eta),
    )

  def _unroll(
    self,
    network: tf_network.Network,
    inputs: recurrent.Inputs,
    state: tf.Tensor,
  ) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns action values [B, T, A] of T steps, and the last states."""
    return self._network.unroll(network.layers, inputs, state)

  def _warm_up(
    self,
    network: tf_network.Network,
    early: recurrent.Inputs | None,
    state: tf.Tensor,
  ) -> tf.Tensor:
    """Returns the states [B, S] after the burn-in, without gradients."""
    if early is None:
      return state
    return tf.stop_gradient(self._unroll(network, early, state)[1])


def _split_inputs(
  inputs: recurrent.Inputs, at: int
) -> tuple[recurrent.Inputs | None, recurrent.Inputs]:
  late = recurrent.Inputs(*(x[:, at:] for x in inputs))
  if not at:
    return None, late
  return recurrent.Inputs(*(x[:, :at] for x in inputs)), late
