"""The builder of SAC."""

import ml_collections
from acme import specs

from slipway.agents import core, policies
from slipway.configs import sac
from slipway.environments import arrays
from slipway.replay.items import adder, transitions
from slipway.replay.tables import table_spec


class Builder(policies.PolicyBuilder):
  """Makes the table, adder, actors and learner of SAC."""

  fields = sac.FIELDS
  continuous = "tanh_gaussian"  # bounded actions, unlike those of a Gaussian

  def check(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> None:
    """Raises ValueError if config fields contradict each other or the spec."""
    sac.check(config)
    sizes = arrays.component_sizes(spec.actions)
    if sizes is not None:
      raise ValueError(
        f"config.agent={config.agent!r} takes continuous actions, but "
        f"config.environment.name={config.environment.name!r} has "
        f"{' x '.join(map(str, sizes))} discrete ones: choose another "
        "environment or algorithm"
      )
    self.make_table(config, spec)

  def make_table(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> table_spec.TableSpec:
    """Returns the spec of the replay table, whose items are transitions."""
    return table_spec.TableSpec.from_replay_config(
      config, _make_schema(config, spec), config.replay.transitions_per_item
    )

  def make_learner(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> core.Learner:
    """Makes the learner, with variables initialized from `config.seed`."""
    # Imported here, since workers and evaluators don't need TensorFlow.
    from slipway.agents.sac import learning

    policy = policies.make_policy(config.network, spec, self.continuous)
    return learning.SACLearner(config, spec, policy)

  def make_adder(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> core.Adder:
    """Makes the adder of one worker's environments, for n-step transitions."""
    return adder.NStepAdder(
      _make_schema(config, spec),
      config.topology.environments_per_worker,
      config.adder.n_step,
      config.adder.discount,
    )


def _make_schema(
  config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
) -> transitions.TransitionSchema:
  """Returns the item schema of a config's n-step transitions."""
  return transitions.TransitionSchema(
    spec,
    config.adder.n_step,
    transitions_per_item=config.replay.transitions_per_item,
    running_returns=config.normalization.rewards,
  )
