"""The learner of the DQN family."""

import ml_collections
import tensorflow as tf
from acme import specs

from slipway.agents import core, dead_units, q_learner
from slipway.agents.dqn import objectives
from slipway.agents.networks import q_network, tf_network
from slipway.replay.items import priorities, transitions
from slipway.replay.tables import dataset as dataset_lib

# Maximum number of network calls per update, each of which has its own seed.
_CALLS_PER_UPDATE = 4


class DQNLearner(q_learner.QLearner):
  """Learner of DQN and its variants, from n-step transitions.

  `objectives.make_objective` selects the loss by the config.
  """

  def __init__(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ):
    """Makes the online and target networks with equal variables.

    Args:
      config: the whole config.
      spec: spec of an environment with discrete actions.
    """
    network = q_network.QNetwork(config.network, spec)
    super().__init__(
      config, spec, lambda: tf_network.Network(network, config.seed)
    )
    self._objective = objectives.make_objective(config)
    self._needs_random = network.needs_random
    self._samples_quantiles = config.network.head == "implicit_quantile"
    self._quantiles = config.network.quantiles
    self._seed = config.seed

  def update(self, batch: dataset_lib.Batch) -> core.Update:
    """Takes one gradient step on a batch of transitions.

    New priorities come from the TD errors before the step; see `core.Learner`.
    """
    data = self.normalizer.normalize_transitions(batch.data)
    target, target_tm1, selector = self._compute_targets(data)
    with tf.GradientTape() as tape:
      online = self.online(data.o_tm1, self._make_seed(0), self._quantiles)
      output = self._objective.loss(
        data, objectives.NetworkOutputs(online, target, target_tm1, selector)
      )
    dead = self.dead_units.update(
      self.steps,
      lambda: self.online.compute_dead_units(
        data.o_tm1, self._make_seed(0), self._quantiles
      ),
    )
    metrics = {
      **self.descend(tape, batch, output.loss),
      dead_units.NAME: dead,
      "q_mean": self._mean_over_legal(online.values),
      "td_error_abs_mean": tf.reduce_mean(tf.abs(output.td_error)),
    }
    if output.outside_support is not None:
      metrics.update(output.outside_support.metrics())
    return core.Update(metrics, priorities.from_td_errors(output.td_error))

  def _compute_targets(
    self, batch: transitions.Transition
  ) -> tuple[q_network.Output, q_network.Output | None, tf.Tensor]:
    """Computes the bootstraps of a batch of transitions.

    Returns:
      The fields `target`, `target_tm1` and `selector` of
      `objectives.NetworkOutputs`.
    """
    target = self.target(batch.o_t, self._make_seed(1), self._quantiles)
    if self._learner.double or self._samples_quantiles:
      network = self.online if self._learner.double else self.target
      chosen = network(batch.o_t, self._make_seed(2))
    else:
      chosen = target
    target_tm1 = None
    if self._objective.needs_target_tm1:
      target_tm1 = self.target(batch.o_tm1, self._make_seed(3))
    return target, target_tm1, chosen.values

  def _make_seed(self, call: int) -> tf.Tensor | None:
    """Returns a seed int32 [2] for one network call of the current update.

    Seeds differ between calls and updates. Returns None if the network needs no
    noise.

    Args:
      call: index of the call in the update, below `_CALLS_PER_UPDATE`.
    """
    if not self._needs_random:
      return None
    step = tf.cast(self.steps, tf.int32)
    return tf.stack([self._seed, _CALLS_PER_UPDATE * step + call])
