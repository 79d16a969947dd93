"""Models: the policy and value networks that the learner trains."""

import typing
from collections.abc import Mapping

import ml_collections
import numpy as np
import tensorflow as tf
from acme import specs

from slipway.agents import policies
from slipway.agents.networks import layers as layers_lib
from slipway.agents.networks import (
  network,
  policy_head,
  policy_network,
  recurrent,
  tf_network,
  tf_ops,
  value_network,
)
from slipway.replay.items import sequences

# Outputs of a model: distribution parameters [..., P] and state values [...].
Outputs = tuple[tf.Tensor, tf.Tensor]


class Model(typing.Protocol):
  """Computes policies and state values, of whole rollouts and of minibatches.

  The learner shuffles units, and combines them into minibatches. A unit is one
  step, or a whole rollout of T steps if the network is recurrent.

  Attributes:
    head: output layer of the policy, which converts parameters to
      distributions.
    networks: networks with the trained variables, by name.
    steps_per_minibatch_unit: number of steps of a unit: 1, or T if the network
      is recurrent.
  """

  head: policy_head.PolicyHead
  networks: Mapping[str, tf_network.Network]
  steps_per_minibatch_unit: int

  def unroll(self, rollout: sequences.Sequence) -> Outputs:
    """Returns outputs [B, T + 1, ...] for all observations of rollouts.

    Args:
      rollout: B rollouts of T steps, with normalized observations.
    """
    ...

  def split_into_units(
    self, rollout: sequences.Sequence
  ) -> dict[str, tf.Tensor]:
    """Returns the inputs of `evaluate` for all units of rollouts.

    The result has tensors [number of units, ...] by name.

    Args:
      rollout: B rollouts of T steps, with normalized observations.
    """
    ...

  def evaluate(self, units: Mapping[str, tf.Tensor]) -> Outputs:
    """Returns outputs [N, ...] for the N steps of a minibatch.

    Args:
      units: inputs of the minibatch's units, gathered from the result of
        `split_into_units`.
    """
    ...

  def compute_dead_units(self, rollout: sequences.Sequence) -> tf.Tensor:
    """Returns the part [] of the ReLUs that give 0 for all observations.

    It is that of the network which has more of them.

    Args:
      rollout: B rollouts of T steps, with normalized observations.
    """
    ...

  def get_variables(self) -> dict[str, np.ndarray]:
    """Returns a copy of the variables that actors need, as arrays by name."""
    ...


def make_model(
  config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
) -> Model:
  """Makes a config's model, with variables initialized from `config.seed`.

  The model is recurrent if `config.network.lstm_size` is not 0.

  Args:
    config: the whole config, with the fields of `policy_gradient.FIELDS`.
    spec: spec of one environment.
  """
  if config.network.lstm_size:
    return _RecurrentModel(config, spec)
  return _FeedForwardModel(config, spec)


class _FeedForwardModel:
  """Model with feed-forward networks; see `Model`.

  Policy and values have a network each, or share a torso if `network.shared`. A
  unit of a minibatch is one step.
  """

  steps_per_minibatch_unit = 1

  def __init__(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ):
    """Makes the networks, with variables initialized from `config.seed`."""
    settings = config.network
    self._policy = policies.make_policy(settings, spec, settings.distribution)
    self.head, self._shared = self._policy.head, settings.shared
    torso = layers_lib.TorsoSettings.from_config(settings)
    if self._shared:
      both = policy_network.PolicyValueNetwork(self._policy, torso)
      made = {policies.POLICY: both}
    else:
      value = value_network.ValueNetwork(spec, torso)
      made = {policies.POLICY: self._policy, "value": value}
    self.networks: Mapping[str, tf_network.Network] = {
      name: tf_network.Network(declaration, config.seed, name)
      for name, declaration in made.items()
    }

  def unroll(self, rollout: sequences.Sequence) -> Outputs:
    """Returns outputs [B, T + 1, ...] for all observations; see `Model`."""
    shape = rollout.observation.shape  # [B, T + 1, ...]
    parameters, values = self._compute(
      tf.reshape(rollout.observation, (-1, *shape[2:]))
    )
    parameters = tf.reshape(parameters, (-1, shape[1], parameters.shape[1]))
    return parameters, tf.reshape(values, (-1, shape[1]))

  def split_into_units(
    self, rollout: sequences.Sequence
  ) -> dict[str, tf.Tensor]:
    """Returns the observations [B * T, ...] of all steps; see `Model`."""
    # Each observation once: the last one is the first one of the next rollout.
    observation = rollout.observation[:, :-1]
    return {
      "observation": tf.reshape(observation, (-1, *observation.shape[2:]))
    }

  def evaluate(self, units: Mapping[str, tf.Tensor]) -> Outputs:
    """Returns outputs [N, ...] for N observations; see `Model`."""
    return self._compute(units["observation"])

  def compute_dead_units(self, rollout: sequences.Sequence) -> tf.Tensor:
    """Returns the part [] of dead units; see `Model`."""
    observation = self.split_into_units(rollout)["observation"]
    return tf.reduce_max(
      [
        network.compute_dead_units(observation)
        for network in self.networks.values()
      ]
    )

  def get_variables(self) -> dict[str, np.ndarray]:
    """Returns a copy of the policy's variables, as arrays by name."""
    return _select_acting_variables(
      self._policy, self.networks[policies.POLICY]
    )

  def _compute(self, observation: tf.Tensor) -> Outputs:
    """Returns outputs [N, ...] for N observations."""
    if self._shared:
      return self.networks[policies.POLICY](observation)
    policy, value = self.networks.values()
    return policy(observation), value(observation)


class _RecurrentModel:
  """Model with an LSTM for policy and values, or one for each; see `Model`.

  LSTMs start with the states that actors stored. A unit of a minibatch is a
  rollout.
  """

  def __init__(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ):
    """Makes the network, with variables initialized from `config.seed`."""
    settings = config.network
    self.steps_per_minibatch_unit = config.adder.unroll
    # The trained network computes policy and values. Workers need no values, so
    # they have a network without the variables of the value head.
    self._policy_with_values = policies.make_recurrent_policy(
      settings, spec, settings.distribution, role="learner"
    )
    self._acting_policy = policies.make_recurrent_policy(
      settings, spec, settings.distribution, role="worker"
    )
    self.head = self._policy_with_values.head
    self._network = tf_network.Network(
      self._policy_with_values, config.seed, policies.POLICY
    )
    self.networks: Mapping[str, tf_network.Network] = {
      policies.POLICY: self._network
    }

  def unroll(self, rollout: sequences.Sequence) -> Outputs:
    """Returns outputs [B, T + 1, ...] for all observations; see `Model`."""
    parameters, values = self._compute(self.split_into_units(rollout))
    steps = rollout.first.shape[1]  # T + 1
    parameters = tf.reshape(parameters, (-1, steps, parameters.shape[1]))
    return parameters, tf.reshape(values, (-1, steps))

  def split_into_units(
    self, rollout: sequences.Sequence
  ) -> dict[str, tf.Tensor]:
    """Returns inputs [B, T + 1, ...] and LSTM states [B, S]; see `Model`."""
    inputs = recurrent.sequence_inputs(rollout, tf_ops.concat)
    state = rollout.extras[recurrent.STATE]
    return {**inputs._asdict(), recurrent.STATE: state}

  def evaluate(self, units: Mapping[str, tf.Tensor]) -> Outputs:
    """Returns outputs [N, ...] for the N steps of a minibatch; see `Model`."""
    # The observation after the last step is left out.
    return self._compute(
      {
        name: x if name == recurrent.STATE else x[:, :-1]
        for name, x in units.items()
      }
    )

  def compute_dead_units(self, rollout: sequences.Sequence) -> tf.Tensor:
    """Returns the part [] of dead units; see `Model`."""
    units = self.split_into_units(rollout)
    return self._network.compute_dead_units_of(
      lambda layers: self._unroll(layers, units)
    )

  def get_variables(self) -> dict[str, np.ndarray]:
    """Returns a copy of the policy's variables, as arrays by name."""
    return _select_acting_variables(self._acting_policy, self._network)

  def _compute(self, units: Mapping[str, tf.Tensor]) -> Outputs:
    """Returns outputs [B * T, ...] of the LSTM over T steps."""
    return self._unroll(self._network.layers, units)

  def _unroll(
    self, layers: layers_lib.Layers, units: Mapping[str, tf.Tensor]
  ) -> Outputs:
    """Returns outputs [B * T, ...] of the LSTM, with the given layers."""
    inputs = recurrent.Inputs(*(units[x] for x in recurrent.Inputs._fields))
    state = units[recurrent.STATE]
    return self._policy_with_values.unroll(layers, inputs, state)


def _select_acting_variables(
  acting: policies.Declaration, learning: tf_network.Network
) -> dict[str, np.ndarray]:
  """Returns a copy of the variables that the acting network needs.

  Args:
    acting: declaration of the acting network.
    learning: trained network, which may have more variables.

  Returns:
    Arrays by name, with the prefix 'policy/'.
  """
  prefix = f"{policies.POLICY}/"
  names = {prefix + name for name in network.variable_shapes(acting)}
  found = learning.get_variables()
  return {name: value for name, value in found.items() if name in names}
