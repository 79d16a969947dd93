"""The DQN family's builder: its variants are configs."""

import ml_collections
from acme import specs

from agents import core, discrete, exploration, seeds
from agents.dqn import acting
from agents.networks import network, q_network
from replay import adder, transitions


class Builder:
  """Describes DQN and what its papers added to it."""

  def check(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> None:
    """Raises ValueError, one line, if it can't serve this environment."""
    discrete.check(config, spec)
    self.make_layout(config, spec)

  def make_layout(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> transitions.Layout:
    """Layout of an n-step transition."""
    return transitions.Layout(
      spec,
      config.adder.n_step,
      config.adder.stacked_frames,
      config.replay.transitions_per_item,
    )

  def make_learner(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> core.Learner:
    """The learner, with fresh variables from config.seed."""
    # Imports trfl and Keras, which workers and evaluators do without.
    from agents.dqn import learning

    return learning.DQNLearner(config, spec)

  def make_actor(
    self,
    config: ml_collections.ConfigDict,
    spec: specs.EnvironmentSpec,
    worker: int,
    lives: int = 0,
    env_steps: int = 0,
  ) -> core.Actor:
    """The exploring actor of worker `worker`."""
    return acting.EpsilonGreedyActor(
      network.make_acting(q_network.QNetwork(config.network, spec)),
      exploration.Epsilons(
        config.exploration, config.topology, worker, env_steps
      ),
      seed=seeds.of_life(config.seed + worker, lives),
    )

  def make_greedy_actor(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> core.Actor:
    """The actor that is evaluated."""
    return acting.EpsilonGreedyActor(
      network.make_acting(q_network.QNetwork(config.network, spec)),
      None,
      config.seed,
    )

  def make_adder(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> adder.NStepAdder:
    """The n-step adder of one worker's environments."""
    return adder.NStepAdder(
      self.make_layout(config, spec),
      config.topology.environments_per_worker,
      config.adder.n_step,
      config.adder.discount,
    )
