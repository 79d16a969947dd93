"""The builder of the policy gradient family."""

import ml_collections
import numpy as np
from acme import specs

from slipway.agents import core, policies
from slipway.agents.networks import (
  cores,
  layers,
  normalization,
  policy_network,
  recurrent,
  torsos,
)
from slipway.agents.networks import network as network_lib
from slipway.configs import policy_gradient, rules
from slipway.environments import arrays
from slipway.replay.items import returns, sequence_adder, sequences
from slipway.replay.tables import table_spec


class Builder(policies.PolicyBuilder):
  """Makes the components of REINFORCE, A2C, PPO, APPO, IMPALA and V-MPO.

  These algorithms differ only in their configs.
  """

  fields = policy_gradient.FIELDS

  def check(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> None:
    """Raises ValueError if config fields contradict each other or the spec."""
    policy_gradient.check(config)
    torsos.check(config.network, spec)
    cores.check(config.network)
    if arrays.component_sizes(spec.actions) is not None:
      for name in ("network.distribution", "learner.std_kl_bound"):
        rules.check_effect(config, self.fields, name, "discrete")
    normalization.check(config, spec)
    # The layer of state values is in learners only, so the networks that act
    # would not show that a user's torso has taken its name.
    network_lib.variable_shapes(self._make_network_with_values(config, spec))
    self.make_table(config, spec)

  def make_table(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> table_spec.TableSpec:
    """Returns the spec of the queue of rollouts; each is sampled once."""
    return table_spec.TableSpec.from_queue_config(
      config, self._make_schema(config, spec), config.adder.unroll
    )

  def make_learner(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> core.Learner:
    """Makes the learner, with variables initialized from `config.seed`."""
    # Imported here, since workers and evaluators don't need TensorFlow.
    from slipway.agents.bonuses import learner as bonuses
    from slipway.agents.policy_gradient import learning

    learner = learning.PolicyGradientLearner(config, spec)
    return bonuses.add_bonus(config, spec, learner)

  def make_network(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> policies.Declaration:
    """Returns the declaration of the policy's network."""
    return self._make_network(config, spec, "evaluator")

  def make_worker_network(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> policies.Declaration:
    """Returns the policy's network, with the core of separate state values."""
    return self._make_network(config, spec, "worker")

  def _make_network(
    self,
    config: ml_collections.ConfigDict,
    spec: specs.EnvironmentSpec,
    role: str,
  ) -> policies.Declaration:
    given = (
      config.network,
      spec,
      config.network.distribution,
      normalization.normalizes_observations(config),
    )
    if config.network.core_size:
      return policies.make_recurrent_policy(*given, role=role)
    return policies.make_policy(*given)

  def _make_network_with_values(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> network_lib.Declaration:
    """Returns the learner's network of the policy, with its state values."""
    policy = self._make_network(config, spec, "learner")
    if config.network.shared and isinstance(
      policy, policy_network.PolicyNetwork
    ):
      settings = layers.TorsoSettings.from_config(config.network)
      return policy_network.PolicyValueNetwork(policy, settings)
    return policy

  def make_adder(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> core.Adder:
    """Makes the adder of one worker's environments, for rollouts."""
    return sequence_adder.SequenceAdder(
      self._make_schema(config, spec),
      config.topology.environments_per_worker,
      config.adder.unroll,
      config.adder.discount,
    )

  def _make_schema(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> sequences.SequenceSchema:
    """Returns the item schema of a config's rollouts and their extras."""
    float_dtype = np.dtype(np.float32)
    policy = self.make_worker_network(config, spec)
    each_step = {
      policies.LOG_PROB: (float_dtype, ()),
      policies.PARAMETERS: (float_dtype, (policy.head.size,)),
    }
    if config.normalization.rewards:
      each_step[returns.FIELD] = (float_dtype, ())
    first_step = {}
    if config.network.core_size:
      state_spec = policy.inputs[-1]
      first_step[recurrent.STATE] = (float_dtype, state_spec.shape)
    return sequences.SequenceSchema(
      spec,
      config.adder.unroll,
      each_step,
      first_step,
      config.adder.stacked_frames,
    )
