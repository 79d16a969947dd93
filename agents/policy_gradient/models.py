"""Models: the policy and value networks that the learner trains."""

import abc
from collections.abc import Mapping

import ml_collections
import numpy as np
import tensorflow as tf
from acme import specs

from slipway.agents import policies
from slipway.agents.networks import layers as layers_lib
from slipway.agents.networks import (
  network,
  policy_network,
  recurrent,
  tf_network,
  tf_ops,
  value_network,
)
from slipway.replay.items import sequences

# Outputs of a model: distribution parameters [..., P] and state values [...].
Outputs = tuple[tf.Tensor, tf.Tensor]


class Model(abc.ABC):
  """Computes policies and state values, of whole rollouts and of minibatches.

  The learner shuffles units, and combines them into minibatches. A unit is one
  step, or a whole rollout of T steps if the network is recurrent. Rollouts have
  normalized observations.

  Attributes:
    head: output layer of the policy, which converts parameters to
      distributions.
    networks: networks with the trained variables, by name.
    steps_per_minibatch_unit: number of steps of a unit: 1, or T if the network
      is recurrent.
  """

  steps_per_minibatch_unit = 1

  def __init__(
    self,
    acting: policies.Declaration,
    made: Mapping[str, network.Declaration],
    seed: int,
  ):
    """Makes the networks, with variables initialized from a seed.

    Args:
      acting: declaration of the network that acts, which needs a part of the
        variables of the network `policies.POLICY`.
    """
    self.head, self._acting = acting.head, acting
    self.networks: Mapping[str, tf_network.Network] = {
      name: tf_network.Network(declaration, seed, name)
      for name, declaration in made.items()
    }

  def unroll(self, rollout: sequences.Sequence) -> Outputs:
    """Returns outputs [B, T + 1, ...] for all observations of B rollouts."""
    parameters, values = self._unroll(rollout)
    steps = rollout.first.shape[1]  # T + 1
    parameters = tf.reshape(parameters, (-1, steps, parameters.shape[1]))
    return parameters, tf.reshape(values, (-1, steps))

  @abc.abstractmethod
  def _unroll(self, rollout: sequences.Sequence) -> Outputs:
    """Returns outputs [B * (T + 1), ...] for all observations of B rollouts."""

  @abc.abstractmethod
  def split_into_units(
    self, rollout: sequences.Sequence
  ) -> dict[str, tf.Tensor]:
    """Returns the inputs of `evaluate` for all units, [units, ...] each."""

  @abc.abstractmethod
  def evaluate(self, units: Mapping[str, tf.Tensor]) -> Outputs:
    """Returns outputs [N, ...] for the N steps of a minibatch."""

  @abc.abstractmethod
  def compute_dead_units(self, rollout: sequences.Sequence) -> tf.Tensor:
    """Returns the part [] of the ReLUs that give 0 for all observations."""

  def get_variables(self) -> dict[str, np.ndarray]:
    prefix = f"{policies.POLICY}/"
    names = {prefix + name for name in network.variable_shapes(self._acting)}
    found = self.networks[policies.POLICY].get_variables()
    return {name: value for name, value in found.items() if name in names}


def make_model(
  config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
) -> Model:
  """Makes a config's model, with variables initialized from `config.seed`.

  The model is recurrent if `config.network.core_size` is not 0.
  """
  if config.network.core_size:
    return RecurrentModel(config, spec)
  return _FeedForwardModel(config, spec)


class _FeedForwardModel(Model):
  """Model whose policy and values have a network each, or share a torso."""

  def __init__(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ):
    settings = config.network
    policy = policies.make_policy(settings, spec, settings.distribution)
    torso = layers_lib.TorsoSettings.from_config(settings)
    self._shared = settings.shared
    made: dict[str, network.Declaration] = {policies.POLICY: policy}
    if self._shared:
      made[policies.POLICY] = policy_network.PolicyValueNetwork(policy, torso)
    else:
      made["value"] = value_network.ValueNetwork(spec, torso)
    super().__init__(policy, made, config.seed)

  def _unroll(self, rollout: sequences.Sequence) -> Outputs:
    """Returns outputs [B * (T + 1), ...] of all observations; see `Model`."""
    return self._compute(tf_ops.merge_batch_and_time(rollout.observation))

  def split_into_units(
    self, rollout: sequences.Sequence
  ) -> dict[str, tf.Tensor]:
    """Returns the observations [B * T, ...] of all steps; see `Model`."""
    # Each observation once: the last one is the first one of the next rollout.
    observation = rollout.observation[:, :-1]
    return {"observation": tf_ops.merge_batch_and_time(observation)}

  def evaluate(self, units: Mapping[str, tf.Tensor]) -> Outputs:
    """Returns outputs [N, ...] for N observations; see `Model`."""
    return self._compute(units["observation"])

  def compute_dead_units(self, rollout: sequences.Sequence) -> tf.Tensor:
    """Returns the part [] of dead units; see `Model`."""
    observation = self.split_into_units(rollout)["observation"]
    return tf.reduce_max(
      [x.compute_dead_units(observation) for x in self.networks.values()]
    )

  def _compute(self, observation: tf.Tensor) -> Outputs:
    """Returns outputs [N, ...] for N observations."""
    if self._shared:
      return self.networks[policies.POLICY](observation)
    policy, value = self.networks.values()
    return policy(observation), value(observation)


class RecurrentModel(Model):
  """Model with a core for policy and values, or one for each; see `Model`."""

  def __init__(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ):
    settings = config.network
    self.steps_per_minibatch_unit = config.adder.unroll
    # The trained network computes policy and values. Workers need no values, so
    # they have a network without the variables of the value head.
    self._policy, acting = (
      policies.make_recurrent_policy(
        settings, spec, settings.distribution, role=role
      )
      for role in ("learner", "worker")
    )
    super().__init__(acting, {policies.POLICY: self._policy}, config.seed)

  def _unroll(self, rollout: sequences.Sequence) -> Outputs:
    return self._compute(self.split_into_units(rollout))

  def split_into_units(
    self, rollout: sequences.Sequence
  ) -> dict[str, tf.Tensor]:
    """Returns inputs [B, T + 1, ...] and states [B, S]; see `Model`."""
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
    return self.networks[policies.POLICY].compute_dead_units_of(
      lambda layers: self._compute(units, layers)
    )

  def _compute(
    self,
    units: Mapping[str, tf.Tensor],
    layers: layers_lib.Layers | None = None,
  ) -> Outputs:
    """Returns outputs [B * T, ...] of T steps, by other layers if given."""
    inputs = recurrent.Inputs(*(units[x] for x in recurrent.Inputs._fields))
    return self._policy.unroll(
      layers or self.networks[policies.POLICY].layers,
      inputs,
      units[recurrent.STATE],
    )
