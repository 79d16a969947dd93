"""The builder of actor-critic algorithms with a replay."""

import math

import ml_collections
import numpy as np
from acme import specs

from slipway.agents import core, hindsight, policies, seeds
from slipway.agents.actor_critic import acting
from slipway.agents.networks import (
  cores,
  distributions,
  encoder_network,
  generative_policy,
  layers,
  normalization,
  policy_network,
  recurrent,
  torsos,
)
from slipway.configs import actor_critic, rules
from slipway.environments import arrays
from slipway.replay.items import (
  adder,
  packing,
  returns,
  sequence_adder,
  sequences,
  transitions,
)
from slipway.replay.tables import table_spec


class Builder(policies.PolicyBuilder):
  """Builder of DDPG, TD3, SAC, IQL and their kin: they differ in configs."""

  fields = actor_critic.FIELDS

  def check(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> None:
    """Raises ValueError if config and environment don't fit."""
    actor_critic.check(config)
    torsos.check(config.network, spec)
    cores.check(config.network)
    _check_actions(config, spec.actions)
    _check_generative(config, spec)
    normalization.check(config, spec)
    torsos.check_shift(config, spec)
    self.make_table(config, spec)
    hindsight.check(config)

  def make_table(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> table_spec.TableSpec:
    """Returns the spec of a table of n-step transitions, or of sequences."""
    if actor_critic.uses_sequences(config):
      # Sequences may overlap, so each adds only `period` new steps.
      return table_spec.TableSpec.from_replay_config(
        config, _make_sequence_schema(config, spec), config.adder.period
      )
    return table_spec.TableSpec.from_replay_config(
      config, _make_schema(config, spec), config.replay.transitions_per_item
    )

  def make_network(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> policies.Declaration:
    """Declares the policy, the network that acts."""
    normalized = normalization.normalizes_observations(config)
    if config.network.core_size:
      encoder = _make_recurrent_encoder(config, spec, normalized)
      policy = _make_policy(config, encoder.spec, "mlp", normalized=False)
      return encoder_network.EncodedPolicy(encoder, policy)
    if config.learner.policy_loss == "batch_constrained":
      settings = layers.TorsoSettings.from_config(config.network, normalized)
      return generative_policy.GenerativePolicy(
        *(spec, settings, config.learner.perturbation),
        config.learner.action_samples,
      )
    return _make_policy(config, spec, config.network.torso, normalized)

  def make_actor(
    self,
    config: ml_collections.ConfigDict,
    spec: specs.EnvironmentSpec,
    worker: int,
    restarts: int = 0,
    earlier_env_steps: int = 0,
  ) -> acting.ExploringActor:
    """Makes the exploring actor of a worker; see `core.Builder`."""
    noise = None
    if config.learner.policy_loss in ("deterministic", "batch_constrained"):
      noise = acting.Noise(
        config.exploration, config.topology, worker, spec.actions.shape
      )
    seed = seeds.for_worker(config.seed, worker, restarts)
    return acting.ExploringActor(
      self.make_network(config, spec),
      spec,
      np.random.default_rng(seed),
      noise,
      math.ceil(
        config.exploration.random_steps / max(1, config.topology.workers)
      ),
      config.exploration.random_repeats,
      earlier_env_steps,
      with_log_prob=config.learner.critic_target == "retrace",
    )

  def make_learner(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> core.Learner:
    """Makes the learner, with new variables from config.seed."""
    # Imported here, since workers and evaluators don't need TensorFlow.
    from slipway.agents.actor_critic import learning
    from slipway.agents.bonuses import learner as bonuses

    encoder, features = None, spec
    if config.network.core_size:
      encoder = _make_recurrent_encoder(config, spec, normalized=False)
      features = encoder.spec
    elif torsos.needs_convolutions(config.network.torso, spec):
      encoder = encoder_network.EncoderNetwork(
        spec, layers.TorsoSettings.from_config(config.network)
      )
      features = encoder.spec
    policy = _make_policy(config, features, "mlp", normalized=False)
    if config.learner.policy_loss == "batch_constrained":
      policy = generative_policy.GenerativePolicy(
        *(spec, layers.TorsoSettings.from_config(config.network)),
        config.learner.perturbation,
      )
    learner = learning.ActorCriticLearner(config, spec, policy, encoder)
    return bonuses.add_bonus(config, spec, learner)

  def make_adder(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> core.Adder:
    """Makes the adder of one worker's environments."""
    if actor_critic.uses_sequences(config):
      return sequence_adder.SequenceAdder(
        _make_sequence_schema(config, spec),
        config.topology.environments_per_worker,
        config.adder.period,
        config.adder.discount,
      )
    of_steps = adder.NStepAdder(
      _make_schema(config, spec),
      config.topology.environments_per_worker,
      config.adder.n_step,
      config.adder.discount,
    )
    return hindsight.wrap(config, of_steps)


def _check_actions(
  config: ml_collections.ConfigDict, actions: specs.Array
) -> None:
  """Raises ValueError if an algorithm can't take an environment's actions."""
  name, loss = config.environment.name, config.learner.policy_loss
  sizes = arrays.component_sizes(actions)
  if sizes is None:
    rules.check_effect(
      config, Builder.fields, "learner.discrete_entropy", "continuous"
    )
    return
  has_components = not isinstance(actions, specs.DiscreteArray)
  takes_discrete = loss in ("soft", "advantage_weighted")
  if not takes_discrete or has_components:
    space = " of a MultiDiscrete or MultiBinary space" if has_components else ""
    others = ", or those of a Discrete space" if takes_discrete else ""
    raise ValueError(
      f"config.environment.name={name!r} has {' x '.join(map(str, sizes))} "
      f"discrete actions{space}, but config.learner.policy_loss={loss!r} takes "
      f"continuous ones{others}: choose another environment, or an algorithm "
      "for discrete actions, such as ppo or dqn"
    )
  rules.check_effect(config, Builder.fields, "learner.cql_weight", "discrete")
  if config.network.critic_head != "expected":
    raise ValueError(
      f"config.network.critic_head={config.network.critic_head!r} is for "
      f"continuous actions, but config.environment.name={name!r} has "
      "discrete ones: use 'expected'"
    )
  if config.learner.critic_target == "retrace":
    raise ValueError(
      f"config.learner.critic_target={config.learner.critic_target!r} is for "
      f"continuous actions, but config.environment.name={name!r} has "
      "discrete ones: use 'n_step'"
    )


def _check_generative(
  config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
) -> None:
  """Raises ValueError if a model of actions would need convolutions."""
  loss, torso = config.learner.policy_loss, config.network.torso
  if loss == "batch_constrained" and torsos.needs_convolutions(torso, spec):
    raise ValueError(
      f"config.learner.policy_loss={loss!r} has a model of actions for flat "
      f"observations, not for images or config.network.torso={torso!r}: use "
      "'mlp', an environment without images, or another loss"
    )


def _make_policy(
  config: ml_collections.ConfigDict,
  spec: specs.EnvironmentSpec,
  torso: str,
  normalized: bool,
) -> policy_network.PolicyNetwork:
  """Declares the policy, for observations or for an encoder's features."""
  kind = policies.choose_distribution_kind(spec, "tanh_gaussian")
  if config.learner.policy_loss == "deterministic":
    kind = distributions.DETERMINISTIC
  settings = layers.TorsoSettings.from_config(config.network, normalized)
  if settings.layer_norm == "all":
    # Only critics have norms in all layers: Hiraoka et al. 2022, algorithm 2.
    settings = settings._replace(layer_norm="none")
  if config.network.core_size:
    settings = settings._replace(sizes=settings.sizes[-1:])
  return policy_network.PolicyNetwork(spec, settings._replace(kind=torso), kind)


def _make_recurrent_encoder(
  config: ml_collections.ConfigDict,
  spec: specs.EnvironmentSpec,
  normalized: bool,
) -> encoder_network.RecurrentEncoder:
  """Declares the memory, whose torso has all linear layers but the last."""
  settings = layers.TorsoSettings.from_config(config.network, normalized)
  settings = settings._replace(sizes=settings.sizes[:-1], layer_norm="none")
  core = cores.make(config.network)
  return encoder_network.RecurrentEncoder(spec, settings, core)


def _make_schema(
  config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
) -> transitions.TransitionSchema:
  return transitions.TransitionSchema(
    spec,
    config.adder.n_step,
    config.adder.stacked_frames,
    config.replay.transitions_per_item,
    config.normalization.rewards,
    next_actions=config.learner.target_bc_weight > 0,
  )


def _make_sequence_schema(
  config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
) -> sequences.SequenceSchema:
  """Returns the item schema of sequences, for Retrace or a memory."""
  number: packing.Field = (np.dtype(np.float32), ())
  extras, at_start = {}, {}
  if config.learner.critic_target == "retrace":
    extras[policies.LOG_PROB] = number
  if config.normalization.rewards:
    extras[returns.FIELD] = number
  steps = config.adder.unroll
  if config.network.core_size:
    steps += config.adder.burn_in
    size = cores.make(config.network).state_size
    at_start[recurrent.STATE] = (np.dtype(np.float32), (size,))
  return sequences.SequenceSchema(
    spec, steps, extras, at_start, config.adder.stacked_frames
  )
