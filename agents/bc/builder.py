"""The builder of behaviour cloning."""

import typing

import ml_collections
from acme import specs

from slipway.agents import core, policies
from slipway.agents.networks import normalization, torsos
from slipway.configs import bc


class Builder(policies.PolicyActors):
  """Describes behaviour cloning: supervised learning of recorded actions."""

  fields = bc.FIELDS

  def check(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> None:
    """Raises ValueError, one line, for what can't be served."""
    from slipway.agents.bc import batches

    bc.check(config)
    torsos.check(config.network, spec)
    normalization.check(config, spec)
    batches.Batches(config, spec)

  def make_table(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> None:
    """Returns None: there are no workers, and the data was recorded."""
    del config, spec

  def make_batches(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> core.Batches:
    """Reads the recorded episodes."""
    # Imports Minari, which only the trainer needs.
    from slipway.agents.bc import batches

    return batches.Batches(config, spec)

  def make_learner(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> core.Learner:
    """Makes the learner, with fresh variables from config.seed."""
    # Imports TensorFlow, which evaluators do without.
    from slipway.agents.bc import learning

    return learning.BCLearner(config, spec)

  def make_adder(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> typing.NoReturn:
    """Raises TypeError: there are no workers."""
    del config, spec
    raise TypeError("behaviour cloning has no workers, and so no adder")
