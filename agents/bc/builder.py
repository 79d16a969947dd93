"""The builder of behaviour cloning."""

import typing

import ml_collections
from acme import specs

from slipway.agents import core, policies
from slipway.agents.networks import normalization, torsos
from slipway.configs import bc


class Builder(policies.PolicyBuilder):
  """Makes the batches, actors and learner of behaviour cloning."""

  fields = bc.FIELDS

  def check(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> None:
    """Raises ValueError if config fields contradict each other or the spec."""
    from slipway.agents.bc import batches

    bc.check(config)
    torsos.check(config.network, spec)
    normalization.check(config, spec)
    batches.Batches(config, spec)

  def make_table(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> None:
    """Returns None: behaviour cloning learns from recorded episodes."""
    del config, spec

  def make_batches(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> core.Batches:
    """Makes the batches, from recorded episodes in `config.dataset.path`."""
    # Imported here, since only the trainer needs Minari.
    from slipway.agents.bc import batches

    return batches.Batches(config, spec)

  def make_learner(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> core.Learner:
    """Makes the learner, with variables initialized from `config.seed`."""
    # Imported here, since evaluators don't need TensorFlow.
    from slipway.agents.bc import learning

    return learning.BCLearner(config, spec)

  def make_adder(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> typing.NoReturn:
    """Raises TypeError: behaviour cloning has no workers and no adder."""
    del config, spec
    raise TypeError("behaviour cloning has no workers, and so no adder")
