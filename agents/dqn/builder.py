"""The builder of the DQN family, whose variants differ only in configs."""

import ml_collections
from acme import specs

from slipway.agents import (
  core,
  discrete,
  epsilon_greedy,
  exploration,
  seeds,
)
from slipway.agents.networks import network, normalization, q_network
from slipway.configs import value
from slipway.replay.items import adder, priorities, transitions
from slipway.replay.tables import table_spec


class Builder:
  """Makes the table, adder, actors and learner of DQN and its variants."""

  fields = value.FIELDS

  def check(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> None:
    """Raises ValueError if config fields contradict each other or the spec."""
    value.check(config)
    discrete.check(config, spec)
    normalization.check(config, spec)
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
    from slipway.agents.dqn import learning

    return learning.DQNLearner(config, discrete.number_actions(spec))

  def make_actor(
    self,
    config: ml_collections.ConfigDict,
    spec: specs.EnvironmentSpec,
    worker: int,
    restarts: int = 0,
    earlier_env_steps: int = 0,
  ) -> core.Actor:
    """Makes the epsilon-greedy actor of one worker; see `core.Builder`."""
    return epsilon_greedy.EpsilonGreedyActor(
      network.make_acting(self.make_network(config, spec)),
      exploration.EpsilonSchedule(
        config.exploration, config.topology, worker, earlier_env_steps
      ),
      seeds.for_worker(config.seed, worker, restarts),
      discrete.make_mask_splitter(spec),
    )

  def make_greedy_actor(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> core.Actor:
    """Makes the greedy actor, which the evaluator uses."""
    return epsilon_greedy.EpsilonGreedyActor(
      network.make_acting(self.make_network(config, spec)),
      None,
      config.seed,
      discrete.make_mask_splitter(spec),
    )

  def make_network(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> q_network.QNetwork:
    """Returns the declaration of the Q-network that chooses actions."""
    return q_network.QNetwork(
      config.network,
      discrete.number_actions(spec),
      normalization.normalizes_observations(config),
    )

  def make_adder(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> adder.NStepAdder:
    """Makes the adder of one worker's environments, for n-step transitions."""
    prioritized = config.replay.sampler == "prioritized"
    return adder.NStepAdder(
      _make_schema(config, spec),
      config.topology.environments_per_worker,
      config.adder.n_step,
      config.adder.discount,
      priorities.from_td_errors if prioritized else None,
    )


def _make_schema(
  config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
) -> transitions.TransitionSchema:
  """Returns the item schema of a config's n-step transitions."""
  return transitions.TransitionSchema(
    discrete.number_actions(spec),
    config.adder.n_step,
    config.adder.stacked_frames,
    config.replay.transitions_per_item,
    config.normalization.rewards,
  )
