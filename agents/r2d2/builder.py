"""The builder of R2D2."""

import ml_collections
import numpy as np
from acme import specs

from agents import core, discrete, exploration, seeds
from agents.losses import rescaling
from agents.networks import network as network_lib
from agents.networks import recurrent_q_network
from agents.r2d2 import acting
from replay import sequences


class Builder:
  """Describes R2D2: Kapturowski et al. 2019."""

  def check(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> None:
    """Raises ValueError, one line, if it can't serve this environment."""
    discrete.check(config, spec)
    network = config.network
    if network.head != "expected" or network.noisy:
      raise ValueError(
        f"config.network.head={network.head!r} and .noisy={network.noisy} are "
        "not for config.agent='r2d2', whose network gives values only: use "
        "'expected' and False"
      )

  def make_layout(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> sequences.SequenceLayout:
    """Layout of a sequence with its burn-in."""
    return sequences.SequenceLayout(
      spec,
      config.adder.burn_in + config.adder.unroll,
      recurrent_q_network.state_size(config.network),
    )

  def make_learner(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> core.Learner:
    """The learner, with fresh variables from config.seed."""
    # Imports trfl and Keras, which workers and evaluators do without.
    from agents.r2d2 import learning

    return learning.R2D2Learner(config, spec)

  def make_actor(
    self,
    config: ml_collections.ConfigDict,
    spec: specs.EnvironmentSpec,
    worker: int,
    lives: int = 0,
    env_steps: int = 0,
  ) -> core.Actor:
    """The exploring actor of worker `worker`."""
    epsilons = exploration.Epsilons(
      config.exploration, config.topology, worker, env_steps
    )
    seed = seeds.of_life(config.seed + worker, lives)
    return _make_actor(config, spec, epsilons, seed)

  def make_greedy_actor(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> core.Actor:
    """The actor that is evaluated."""
    return _make_actor(config, spec, None, config.seed)

  def make_adder(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> core.Adder:
    """The adder of one worker's environments."""
    return sequences.SequenceAdder(
      self.make_layout(config, spec),
      config.topology.environments_per_worker,
      config.adder.period,
      config.adder.discount,
      FirstPriority(config),
    )


class FirstPriority:
  """The priority of a sequence by the values that its worker acted by.

  eta max_t |delta_t| + (1 - eta) mean_t |delta_t| over the steps that are
  learned of: section 2.3.
  """

  def __init__(self, config: ml_collections.ConfigDict):
    """Takes its numbers from a whole config."""
    self._burn_in, self._n_step = config.adder.burn_in, config.adder.n_step
    self._eta = config.replay.eta

  def __call__(self, thoughts: sequences.Thoughts) -> np.ndarray:
    """Priorities float32 [B] of windows [B, T]."""
    x = sequences.Thoughts(*(part[:, self._burn_in :] for part in thoughts))
    values = rescaling.unscale(x.value_of_state[:, 1:])
    targets = sequences.n_step_targets(
      x.reward, x.discount, x.ended, values, self._n_step
    )
    learned = ~x.first[:, 1:]
    errors = (rescaling.rescale(targets) - x.value_of_action) * learned
    return sequences.mixed_priority(errors, learned, self._eta)


def _make_actor(
  config: ml_collections.ConfigDict,
  spec: specs.EnvironmentSpec,
  epsilons: exploration.Epsilons | None,
  seed: int,
) -> core.Actor:
  return acting.RecurrentActor(
    network_lib.make_acting(
      recurrent_q_network.RecurrentQNetwork(config.network, spec)
    ),
    recurrent_q_network.state_size(config.network),
    epsilons,
    seed,
  )
