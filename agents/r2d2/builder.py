"""The builder of R2D2."""

import ml_collections
import numpy as np
from acme import specs

from slipway.agents import core, discrete, exploration, seeds
from slipway.agents.losses import rescaling
from slipway.agents.networks import (
  normalization,
  recurrent,
  recurrent_q_network,
)
from slipway.agents.r2d2 import acting
from slipway.configs import r2d2
from slipway.replay.items import priorities, sequences
from slipway.replay.tables import table_spec


class Builder:
  """Describes R2D2: Kapturowski et al. 2019."""

  fields = r2d2.FIELDS

  def check(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> None:
    """Raises ValueError if config and environment don't fit."""
    r2d2.check(config)
    discrete.check(config, spec)
    normalization.check(config, spec)
    self.make_table(config, spec)

  def make_table(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> table_spec.TableSpec:
    """Returns the spec of a table of sequences, which include the burn-in."""
    # Sequences overlap, so each has only `period` steps of its own.
    return table_spec.TableSpec.from_replay_config(
      config, _make_schema(config, spec), config.adder.period
    )

  def make_learner(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> core.Learner:
    """Makes the learner, with new variables from config.seed."""
    # Imported here, since workers and evaluators don't need TensorFlow.
    from slipway.agents.r2d2 import learning

    return learning.R2D2Learner(config, discrete.number_actions(spec))

  def make_actor(
    self,
    config: ml_collections.ConfigDict,
    spec: specs.EnvironmentSpec,
    worker: int,
    restarts: int = 0,
    env_steps: int = 0,
  ) -> core.Actor:
    """Makes the exploring actor of a worker."""
    epsilons = exploration.EpsilonSchedule(
      config.exploration, config.topology, worker, env_steps
    )
    seed = seeds.for_restart(config.seed + worker, restarts)
    return self._make_actor(config, spec, epsilons, seed)

  def make_greedy_actor(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> core.Actor:
    """Makes the greedy actor, for evaluation."""
    return self._make_actor(config, spec, None, config.seed)

  def make_network(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> recurrent_q_network.RecurrentQNetwork:
    """Declares the Q-network by which actors choose actions."""
    return recurrent_q_network.RecurrentQNetwork(
      config.network,
      discrete.number_actions(spec),
      normalization.normalizes_observations(config),
    )

  def make_adder(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> core.Adder:
    """Makes the adder of one worker's environments."""
    return sequences.SequenceAdder(
      _make_schema(config, spec),
      config.topology.environments_per_worker,
      config.adder.period,
      config.adder.discount,
      InitialPriority(config),
    )

  def _make_actor(
    self,
    config: ml_collections.ConfigDict,
    spec: specs.EnvironmentSpec,
    epsilons: exploration.EpsilonSchedule | None,
    seed: int,
  ) -> core.Actor:
    """Makes an actor, which is greedy if `epsilons` is None."""
    return acting.RecurrentActor(
      self.make_network(config, spec),
      epsilons,
      seed,
      discrete.make_mask(spec),
    )


class InitialPriority:
  """Computes the priorities with which a worker inserts sequences.

  It computes TD errors from the values by which the actor chose its actions,
  and combines those after the burn-in as the learner does
  (`priorities.from_sequences`): Kapturowski et al. 2019, section 2.3.
  """

  def __init__(self, config: ml_collections.ConfigDict):
    """Reads the hyperparameters from a whole config."""
    self._burn_in, self._n_step = config.adder.burn_in, config.adder.n_step
    self._eta = config.replay.eta

  def __call__(self, inputs: sequences.PriorityInputs) -> np.ndarray:
    """Returns priorities float32 [B] of B sequences of T steps."""
    x = sequences.PriorityInputs(*(part[:, self._burn_in :] for part in inputs))
    values = rescaling.unscale(x.value_of_state[:, 1:])
    targets = sequences.n_step_targets(
      x.reward, x.discount, x.ended, values, self._n_step
    )
    learned = (~x.first[:, 1:]).astype(np.float32)
    errors = (rescaling.rescale(targets) - x.value_of_action) * learned
    return priorities.from_sequences(errors, learned, self._eta)


def _make_schema(
  config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
) -> sequences.SequenceSchema:
  """Returns the item schema of sequences with their first LSTM states."""
  state = (np.dtype(np.float32), (2 * config.network.lstm_size,))
  return sequences.SequenceSchema(
    discrete.number_actions(spec),
    config.adder.burn_in + config.adder.unroll,
    start_extras={recurrent.STATE: state},
  )
