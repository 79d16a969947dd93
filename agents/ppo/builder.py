"""The builder of PPO."""

import ml_collections
import numpy as np
from acme import specs

from slipway.agents import core, policies
from slipway.agents.networks import normalization, torsos
from slipway.configs import ppo
from slipway.replay.items import returns, sequences
from slipway.replay.tables import table_spec


class Builder(policies.PolicyActors):
  """Describes PPO: Schulman et al. 2017."""

  fields = ppo.FIELDS

  def check(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> None:
    """Raises ValueError, one line, for what can't be served."""
    ppo.check(config)
    torsos.check(config.network, spec)
    normalization.check(config, spec)

  def make_table(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> table_spec.TableSpec:
    """Describes a queue of rollouts."""
    return table_spec.TableSpec.queue(
      config, _make_schema(config, spec), config.adder.unroll
    )

  def make_learner(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> core.Learner:
    """Makes the learner, with fresh variables from config.seed."""
    # Imports TensorFlow, which workers and evaluators do without.
    from slipway.agents.ppo import learning

    return learning.PPOLearner(config, spec)

  def make_adder(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> core.Adder:
    """Makes the adder of one worker's environments."""
    return sequences.SequenceAdder(
      _make_schema(config, spec),
      config.topology.environments_per_worker,
      config.adder.unroll,
      config.adder.discount,
    )


def _make_schema(
  config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
) -> sequences.SequenceSchema:
  stored = [policies.LOG_PROB]
  if config.normalization.rewards:
    stored.append(returns.FIELD)
  return sequences.SequenceSchema(
    spec,
    config.adder.unroll,
    step_extras={name: (np.dtype(np.float32), ()) for name in stored},
  )
