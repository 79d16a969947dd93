"""The base class of builders of algorithms that learn action values."""

import ml_collections
import numpy as np
from acme import specs

from slipway.agents import (
  core,
  discrete,
  epsilon_greedy,
  exploration,
  seeds,
)
from slipway.agents.networks import (
  network,
  normalization,
  q_network,
  recurrent,
  recurrent_q_network,
)

# Declaration of a Q-network, feed-forward or recurrent.
Declaration = q_network.QNetwork | recurrent_q_network.RecurrentQNetwork


class QBuilder:
  """Base class of builders of algorithms that learn action values q(o, a).

  It makes the network and the actors; see `core.Builder`.

  Attributes:
    network_class: class of the Q-network's declaration.
  """

  network_class: type[Declaration]

  def make_network(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> Declaration:
    """Returns the declaration of the Q-network that chooses actions."""
    return self.network_class(
      config.network,
      discrete.number_actions(spec),
      normalization.normalizes_observations(config),
    )

  def unscale_values(self, values: np.ndarray) -> np.ndarray:
    """Returns the network's values [B] as expected returns."""
    return values

  def make_actor(
    self,
    config: ml_collections.ConfigDict,
    spec: specs.EnvironmentSpec,
    worker: int,
    restarts: int = 0,
    earlier_env_steps: int = 0,
  ) -> core.Actor:
    """Makes the epsilon-greedy actor of one worker; see `core.Builder`."""
    epsilons = exploration.EpsilonSchedule(
      config.exploration, config.topology, worker, earlier_env_steps
    )
    seed = seeds.for_worker(config.seed, worker, restarts)
    return self._make_actor(config, spec, epsilons, seed)

  def make_greedy_actor(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> core.Actor:
    """Makes the evaluator's actor, greedy but for its own epsilon."""
    epsilon = config.exploration.evaluation_epsilon
    seed = seeds.for_evaluating_actor(config.seed)
    return self._make_actor(config, spec, epsilon, seed)

  def _make_actor(
    self,
    config: ml_collections.ConfigDict,
    spec: specs.EnvironmentSpec,
    epsilons: exploration.EpsilonSchedule | float,
    seed: int,
  ) -> core.Actor:
    declaration = self.make_network(config, spec)
    memory = None
    if isinstance(declaration, recurrent_q_network.RecurrentQNetwork):
      memory = recurrent.ActorMemory(declaration.inputs)
    return epsilon_greedy.EpsilonGreedyActor(
      network.make_acting(declaration),
      epsilons,
      seed,
      discrete.make_mask_splitter(spec),
      memory,
    )
