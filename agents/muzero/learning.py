"""The learner of Gumbel MuZero."""

import typing
from collections.abc import Mapping

import ml_collections
import numpy as np
import tensorflow as tf
from acme import specs

from slipway.agents import (
  batch_weights,
  core,
  dead_units,
  highest_priority,
  normalizer,
  optimizer,
)
from slipway.agents.losses import muzero
from slipway.agents.muzero import acting
from slipway.agents.muzero import network as network_lib
from slipway.agents.networks import layers as layers_lib
from slipway.agents.networks import tf_network, tf_ops
from slipway.replay.items import priorities, sequences
from slipway.replay.tables import dataset


class Unrolled(typing.NamedTuple):
  """Outputs of a model that is unrolled over K steps from an observation.

  Attributes:
    logits: logits or parameters of the policies of K + 1 states, [B, K + 1, P].
    value_logits: logits of their values' atoms, [B, K + 1, M].
    reward_logits: logits of the atoms of the K steps' rewards, [B, K, M].
    end_logits: logits of the probabilities of terminal steps, [B, K].
    predicted: predictions from the K states after the steps, [B, K, S]; see
      `muzero.consistency_loss`.
  """

  logits: tf.Tensor
  value_logits: tf.Tensor
  reward_logits: tf.Tensor
  end_logits: tf.Tensor
  predicted: tf.Tensor


class UnrolledNetwork:
  """Declaration of a `MuZeroNetwork` as the learner computes it."""

  prefers_numpy, needs_random = False, False

  def __init__(self, network: network_lib.MuZeroNetwork, unroll: int):
    """Declares a network whose model is unrolled over K = `unroll` steps."""
    self._network, self._unroll = network, unroll
    shape = (unroll, *network.actions.shape)
    actions = specs.Array(shape, network.actions.dtype)
    self.inputs = (*network.inputs, actions)

  def __call__(
    self, layers: layers_lib.Layers, observation: tf.Tensor, action: tf.Tensor
  ) -> Unrolled:
    """Returns the outputs of K steps from observations.

    The gradient of each state is halved where a step begins: Schrittwieser et
    al. 2020, appendix G.

    Args:
      observation: observations before the first step, [B, ...].
      action: actions of the steps, [B, K, ...].
    """
    network, merge = self._network, tf_ops.merge_batch_and_time
    states, rewards, ends = [network.represent(layers, observation)], [], []
    for t in range(self._unroll):
      state = muzero.scale_gradient(states[t], 0.5)
      state, reward, end = network.dynamics(layers, state, action[:, t])
      states.append(state)
      rewards.append(reward)
      ends.append(end)
    logits, value_logits = network.predict(
      layers, merge(tf.stack(states, axis=1))
    )
    projected = network.project(layers, merge(tf.stack(states[1:], axis=1)))
    predicted = network.project(layers, projected, "projection_prediction")
    return Unrolled(
      _split_time(logits, self._unroll + 1),
      _split_time(value_logits, self._unroll + 1),
      tf.stack(rewards, axis=1),
      tf.stack(ends, axis=1),
      _split_time(predicted, self._unroll),
    )

  def observe(
    self, layers: layers_lib.Layers, observation: tf.Tensor, ended: tf.Tensor
  ) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns values and projections of observed states, [B, ...] each.

    Args:
      observation: observations of T = K + n steps, [B, T + 1, ...].
      ended: whether a step was the last one of its episode, [B, T].

    Returns:
      Values of the observations with which returns of the first episode can
      end, 0 for others, [B, T + 1], and projections of those after each of the
      K steps, [B, K, S].
    """
    network, merge = self._network, tf_ops.merge_batch_and_time
    k, steps = self._unroll, typing.cast(int, ended.shape[1])
    # Behind the end of the first episode, or anywhere if none ends.
    is_last = tf.cast(ended, tf.int32)
    end = 1 + tf.argmax(is_last, axis=1, output_type=tf.int32)
    first = tf.gather(observation, end, axis=1, batch_dims=1)
    seen = tf.concat(
      [observation[:, 1 : k + 1], observation[:, -k - 1 :], first[:, None]], 1
    )
    state = _split_time(network.represent(layers, merge(seen)), 2 * k + 2)
    projected = network.project(layers, merge(state[:, :k]))
    value = network.decode(
      tf_ops, network.predict(layers, merge(state[:, k:])).value_logits
    )
    value = tf.reshape(value, (-1, k + 2))
    values = tf.pad(value[:, :-1], ((0, 0), (steps - k, 0)))
    is_end = tf.one_hot(end, steps + 1, on_value=True, off_value=False)
    values = tf.where(is_end, value[:, -1:], values)
    return values, _split_time(projected, k)


class MuZeroLearner:
  """Learner of a model, policies and values, from the searches of workers.

  Danihelka et al. 2022, "Policy improvement by planning with Gumbel"
  (https://openreview.net/forum?id=bERaNdoegnO), section 5; see `core.Learner`.

  Attributes:
    steps: number of updates done, int64 [].
  """

  def __init__(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ):
    self._learner = config.learner.copy_and_resolve_references()
    self._replay = config.replay.copy_and_resolve_references()
    self._unroll = config.adder.unroll
    self._normalizer = normalizer.Normalizer(config, spec)
    self._declaration = network_lib.MuZeroNetwork(config.network, spec)
    self._unrolled = UnrolledNetwork(self._declaration, self._unroll)
    self._network = tf_network.Network(self._unrolled, config.seed)
    self._optimizer = optimizer.Optimizer(
      self._network.trainable_variables,
      optimizer.Settings.from_config(self._learner),
    )
    self._highest = highest_priority.HighestPriority(
      config.replay.sampler == "prioritized"
    )
    self._dead_units = dead_units.DeadUnitsMetric()
    self.steps = tf.Variable(tf.zeros((), tf.int64), name="trainer_steps")

  def update(self, batch: dataset.Batch) -> core.Update:
    """Takes a gradient step of the model's, the policies' and values' losses.

    The new priority of a sequence is |v - z| of its first step, with the
    network's value v and the n-step return z: Schrittwieser et al. 2020,
    appendix G.
    """
    data: sequences.Sequence = batch.data
    weights = batch_weights.compute(self._replay, batch, self.steps)
    rates = batch_weights.compute_inverse_rates(self._replay, batch)
    self._normalizer.add_observations(data.observation, weights=rates)
    observation = self._normalizer.normalize_observations(data.observation)
    action = data.action[:, : self._unroll]
    values, projected = self._unrolled.observe(
      self._network.layers, observation, data.ended
    )
    target = muzero.compute_targets(
      *(data.reward, data.discount, data.ended, data.first, values),
      self._unroll,
    )
    policy = data.extras[acting.POLICY][:, : self._unroll + 1]
    observation = observation[:, 0]
    with tf.GradientTape() as tape:
      found = self._network(observation, action)
      losses = muzero.muzero_loss(
        self._compute_log_probs(found.logits, data.extras),
        found.value_logits,
        found.reward_logits,
        found.end_logits,
        policy,
        target,
        tf.constant(self._declaration.atoms),
        self._learner.value_weight,
        self._learner.end_weight,
      )
      consistency = muzero.consistency_loss(
        found.predicted, projected, target.is_step[:, :-1]
      )
      loss = tf.reduce_mean(
        weights
        * (losses["loss"] + self._learner.consistency_weight * consistency)
      )
    dead = self._dead_units.update(
      self.steps,
      lambda: self._network.compute_dead_units(observation, action),
    )
    rate = self._learner.learning_rate * optimizer.rate_factor(
      self._learner, self.steps
    )
    norm = self._optimizer.minimize(loss, tape, rate)
    # The control dependency delays the count until the batch is there, since
    # the iterator may end in this step.
    with tf.control_dependencies([norm]):
      self.steps.assign_add(1)
    value = self._declaration.decode(tf_ops, found.value_logits[:, 0])
    td_error = (target.value[:, 0] - value) * target.is_step[:, 0]
    metrics = {
      **{name: tf.reduce_mean(x) for name, x in losses.items()},
      "loss": loss,
      "consistency_loss": tf.reduce_mean(consistency),
      "gradient_norm": norm,
      dead_units.NAME: dead,
      "value_mean": tf.reduce_mean(value),
      "td_error_abs_mean": tf.reduce_mean(tf.abs(td_error)),
    }
    update = core.Update(metrics, priorities.from_td_errors(td_error))
    return self._highest.add(update, batch)

  def estimate_values(
    self, observation: tf.Tensor, action: tf.Tensor
  ) -> tf.Tensor:
    """Returns state values [B], without a search."""
    del action
    observation = self._normalizer.normalize_observations(observation)
    root: typing.Any = self._declaration(self._network.layers, observation)
    return root.value

  def _compute_log_probs(
    self, logits: tf.Tensor, extras: Mapping[str, tf.Tensor]
  ) -> tf.Tensor:
    """Returns log pi [B, K + 1, A] of the actions of which searches chose."""
    if not self._declaration.is_continuous:
      return tf.nn.log_softmax(logits)
    samples = extras[acting.SAMPLES][:, : self._unroll + 1]
    policy = self._declaration.distribution(tf_ops, logits[:, :, None])
    return policy.log_prob(samples)

  def get_variables(self) -> dict[str, np.ndarray]:
    return (
      self._network.get_variables()
      | self._normalizer.get_variables()
      | self._highest.get_variables()
    )

  @property
  def checkpointed(self) -> Mapping[str, typing.Any]:
    return {
      **self._normalizer.checkpointed,
      **self._highest.checkpointed,
      "network": self._network,
      "optimizer": self._optimizer,
      dead_units.NAME: self._dead_units,
      "steps": self.steps,
    }


def _split_time(x: tf.Tensor, steps: int) -> tf.Tensor:
  """Returns x [B * T, N] reshaped to [B, T, N]."""
  return tf.reshape(x, (-1, steps, x.shape[1]))
