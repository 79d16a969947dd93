"""The builder of behaviour cloning."""

import typing

import ml_collections
from acme import specs

from slipway.agents import core, policies
from slipway.agents.networks import normalization, torsos
from slipway.configs import bc


class Builder(policies.PolicyBuilder):
  """Describes behaviour cloning: supervised learning of recorded actions."""

  fields = bc.FIELDS

  def check(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> None:
    """Raises ValueError if config and environment don't fit."""
    from slipway.agents.bc import batches

    bc.check(config)
    torsos.check(config.network, spec)
    normalization.check(config, spec)
    batches.Batches(config, spec)

  def make_table(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> None:
    """Returns None: recorded episodes replace workers and tables."""
    del config, spec

  def make_batches(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> core.Batches:
    """Reads the recorded episodes."""
    # Imported here, since only the trainer needs Minari.
    from slipway.agents.bc import batches

    return batches.Batches(config, spec)

  def make_learner(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> core.Learner:
    """Makes the learner, with new variables from config.seed."""
    # Imported here, since evaluators don't need TensorFlow.
    from slipway.agents.bc import learning

    return learning.BCLearner(config, spec)

  def make_adder(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> typing.NoReturn:
    """Raises TypeError: there are no workers."""
    del config, spec
    raise TypeError("behaviour cloning has no workers, and so no adder")
