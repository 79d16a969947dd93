"""The builder of the DQN family, whose variants differ only in configs."""

from collections.abc import Mapping

import ml_collections
import numpy as np
from acme import specs

from slipway.agents import (
  core,
  discrete,
  epsilon_greedy,
  hindsight,
  q_builder,
)
from slipway.agents.networks import normalization, q_network, torsos
from slipway.configs import value
from slipway.replay.items import adder, priorities, transitions
from slipway.replay.tables import table_spec


class Builder(q_builder.QBuilder):
  """Makes the table, adder, actors and learner of DQN and its variants."""

  fields = value.FIELDS
  network_class = q_network.QNetwork

  def check(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> None:
    """Raises ValueError if config fields contradict each other or the spec."""
    value.check(config)
    discrete.check(config, spec)
    normalization.check(config, spec)
    torsos.check_shift(config, spec)
    self.make_table(config, spec)
    hindsight.check(config)

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
    from slipway.agents.bonuses import learner as bonuses
    from slipway.agents.dqn import learning

    spec = discrete.number_actions(spec)
    return bonuses.add_bonus(config, spec, learning.DQNLearner(config, spec))

  def make_adder(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> core.Adder:
    """Makes the adder of one worker's environments, for n-step transitions."""
    # The priority of a distribution is a divergence, which workers don't know.
    has_errors = config.network.head != "categorical"
    prioritized = config.replay.sampler == "prioritized"
    of_steps = adder.NStepAdder(
      _make_schema(config, spec),
      config.topology.environments_per_worker,
      config.adder.n_step,
      config.adder.discount,
      _FirstPriority() if prioritized and has_errors else None,
    )
    return hindsight.wrap(config, of_steps)


class _FirstPriority:
  """Computes priorities of transitions, from the values that the actor had."""

  step_extras = (epsilon_greedy.VALUE_OF_ACTION,)
  observation_extras = (epsilon_greedy.VALUE_OF_STATE,)

  def __call__(self, fields: Mapping[str, np.ndarray]) -> np.ndarray:
    values = fields[epsilon_greedy.VALUE_OF_STATE]
    targets = fields["r_t"] + fields["discount_t"] * values
    return priorities.from_td_errors(
      targets - fields[epsilon_greedy.VALUE_OF_ACTION]
    )


def _make_schema(
  config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
) -> transitions.TransitionSchema:
  return transitions.TransitionSchema(
    discrete.number_actions(spec),
    config.adder.n_step,
    config.adder.stacked_frames,
    config.replay.transitions_per_item,
    config.normalization.rewards,
  )
