"""Models: the networks of policy and values that a learner trains."""

import typing
from collections.abc import Mapping

import ml_collections
import numpy as np
import tensorflow as tf
from acme import specs

from slipway.agents import policies
from slipway.agents.networks import (
  actor_critic,
  network,
  recurrent,
  tf_network,
  tf_ops,
)
from slipway.replay.items import sequences

# Distribution parameters of the policy [..., P], and values [...].
Outputs = tuple[tf.Tensor, tf.Tensor]


class Model(typing.Protocol):
  """Computes policy and values, for whole rollouts and for minibatches.

  A minibatch consists of units that are shuffled in each epoch. A unit is one
  step, or a whole rollout of T steps if the network is recurrent.

  Attributes:
    head: output layer of the policy, which makes distributions of parameters.
    networks: networks with the variables, by name.
    steps_per_unit: 1, or T if the network is recurrent.
  """

  head: actor_critic.PolicyHead
  networks: Mapping[str, tf_network.Network]
  steps_per_unit: int

  def unroll(self, rollout: sequences.Sequence) -> Outputs:
    """Returns outputs [B, T + 1, ...] for normalized rollouts of T steps."""
    ...

  def split_into_units(
    self, rollout: sequences.Sequence
  ) -> dict[str, tf.Tensor]:
    """Returns inputs of `evaluate` by name, [number of units, ...] each."""
    ...

  def evaluate(self, units: Mapping[str, tf.Tensor]) -> Outputs:
    """Returns outputs [N, ...] for the N steps of some units."""
    ...

  def get_variables(self) -> dict[str, np.ndarray]:
    """Returns a copy of the variables that actors need, by name."""
    ...


def make_model(
  config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
) -> Model:
  """Makes the model of a config, with fresh variables from config.seed.

  Args:
    config: the whole config, with the fields of `policy_gradient.FIELDS`.
    spec: spec of one environment.
  """
  if config.network.lstm_size:
    return _RecurrentModel(config, spec)
  return _FeedForwardModel(config, spec)


class _FeedForwardModel:
  """A `Model` with a network each for policy and values, or with one for both.

  A unit of a minibatch is a step.
  """

  steps_per_unit = 1

  def __init__(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ):
    settings = config.network
    self._policy = policies.make_policy(settings, spec, settings.distribution)
    self.head, self._shared = self._policy.head, settings.shared
    if self._shared:
      both = actor_critic.ActorCriticNetwork(self._policy, settings.orthogonal)
      made = {policies.POLICY: both}
    else:
      value = actor_critic.ValueNetwork(
        spec,
        settings.torso,
        settings.hidden_sizes,
        settings.activation,
        settings.orthogonal,
      )
      made = {policies.POLICY: self._policy, "value": value}
    self.networks: Mapping[str, tf_network.Network] = {
      name: tf_network.Network(declaration, config.seed, name)
      for name, declaration in made.items()
    }

  def unroll(self, rollout: sequences.Sequence) -> Outputs:
    shape = rollout.observation.shape  # [B, T + 1, ...]
    parameters, values = self._compute(
      tf.reshape(rollout.observation, (-1, *shape[2:]))
    )
    parameters = tf.reshape(parameters, (-1, shape[1], parameters.shape[1]))
    return parameters, tf.reshape(values, (-1, shape[1]))

  def split_into_units(
    self, rollout: sequences.Sequence
  ) -> dict[str, tf.Tensor]:
    # Each observation once: the last one is the first one of the next rollout.
    observation = rollout.observation[:, :-1]
    return {
      "observation": tf.reshape(observation, (-1, *observation.shape[2:]))
    }

  def evaluate(self, units: Mapping[str, tf.Tensor]) -> Outputs:
    return self._compute(units["observation"])

  def get_variables(self) -> dict[str, np.ndarray]:
    return _select_acting_variables(
      self._policy, self.networks[policies.POLICY]
    )

  def _compute(self, observation: tf.Tensor) -> Outputs:
    if self._shared:
      return self.networks[policies.POLICY](observation)
    policy, value = self.networks.values()
    return policy(observation), value(observation)


class _RecurrentModel:
  """Policy and values on one LSTM, from the states that actors stored."""

  def __init__(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ):
    settings = config.network
    self.steps_per_unit = config.adder.unroll
    self._policy = policies.make_recurrent_policy(
      settings, spec, settings.distribution, with_values=True
    )
    self._acting = policies.make_recurrent_policy(
      settings, spec, settings.distribution
    )
    self.head = self._policy.head
    self._network = tf_network.Network(
      self._policy, config.seed, policies.POLICY
    )
    self.networks: Mapping[str, tf_network.Network] = {
      policies.POLICY: self._network
    }

  def unroll(self, rollout: sequences.Sequence) -> Outputs:
    parameters, values = self._compute(self.split_into_units(rollout))
    steps = rollout.first.shape[1]  # T + 1
    parameters = tf.reshape(parameters, (-1, steps, parameters.shape[1]))
    return parameters, tf.reshape(values, (-1, steps))

  def split_into_units(
    self, rollout: sequences.Sequence
  ) -> dict[str, tf.Tensor]:
    inputs = recurrent.sequence_inputs(rollout, tf_ops.concat)
    state = rollout.extras[recurrent.STATE]
    return {**inputs._asdict(), recurrent.STATE: state}

  def evaluate(self, units: Mapping[str, tf.Tensor]) -> Outputs:
    # The observation after the last step is left out.
    return self._compute(
      {
        name: x if name == recurrent.STATE else x[:, :-1]
        for name, x in units.items()
      }
    )

  def get_variables(self) -> dict[str, np.ndarray]:
    return _select_acting_variables(self._acting, self._network)

  def _compute(self, units: Mapping[str, tf.Tensor]) -> Outputs:
    inputs = recurrent.Inputs(*(units[x] for x in recurrent.Inputs._fields))
    state = units[recurrent.STATE]
    return self._policy.unroll(self._network.layers, inputs, state)


def _select_acting_variables(
  acting: policies.Declaration, learning: tf_network.Network
) -> dict[str, np.ndarray]:
  """Returns a learning network's variables that the acting network has too."""
  prefix = f"{policies.POLICY}/"
  names = {prefix + name for name in network.variable_shapes(acting)}
  found = learning.get_variables()
  return {name: value for name, value in found.items() if name in names}
