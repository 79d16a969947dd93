"""The builder of behaviour cloning."""

import ml_collections
from acme import specs

from slipway.agents import core, policies
from slipway.agents.networks import normalization, torsos
from slipway.configs import bc
from slipway.replay.items import adder, transitions
from slipway.replay.tables import table_spec


class Builder(policies.PolicyBuilder):
  """Makes the items, actors and learner of behaviour cloning."""

  fields = bc.FIELDS

  def check(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> None:
    """Raises ValueError if config fields contradict each other or the spec."""
    bc.check(config)
    torsos.check(config.network, spec)
    normalization.check(config, spec)

  def make_table(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> table_spec.TableSpec:
    """Returns the spec of items with one recorded step each."""
    schema = transitions.TransitionSchema(spec, n_step=1)
    return table_spec.TableSpec(
      schema, capacity=1, batch_size=config.learner.batch_size, steps_per_item=1
    )

  def make_learner(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> core.Learner:
    """Makes the learner, with variables initialized from `config.seed`."""
    # Imported here, since evaluators don't need TensorFlow.
    from slipway.agents.bc import learning

    return learning.BCLearner(config, spec)

  def make_adder(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> core.Adder:
    """Makes the adder of recorded steps; there are no workers."""
    schema = transitions.TransitionSchema(spec, n_step=1)
    environments = config.topology.environments_per_worker
    return adder.NStepAdder(schema, environments, n_step=1, discount=1.0)
