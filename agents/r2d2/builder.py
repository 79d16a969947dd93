"""The builder of R2D2."""

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
from slipway.agents.losses import rescaling
from slipway.agents.networks import (
  network,
  normalization,
  recurrent,
  recurrent_q_network,
)
from slipway.configs import r2d2
from slipway.replay.items import priorities, sequences
from slipway.replay.tables import table_spec


class Builder:
  """Makes the table, adder, actors and learner of R2D2.

  Kapturowski et al. 2019, "Recurrent experience replay in distributed
  reinforcement learning".
  """

  fields = r2d2.FIELDS

  def check(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> None:
    """Raises ValueError if config fields contradict each other or the spec."""
    r2d2.check(config)
    discrete.check(config, spec)
    normalization.check(config, spec)
    self.make_table(config, spec)

  def make_table(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> table_spec.TableSpec:
    """Returns the spec of the replay table, whose items are sequences.

    Sequences include the burn-in steps.
    """
    # Sequences overlap, so each adds only `period` new steps.
    return table_spec.TableSpec.from_replay_config(
      config, _make_schema(config, spec), config.adder.period
    )

  def make_learner(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> core.Learner:
    """Makes the learner, with variables initialized from `config.seed`."""
    # Imported here, since workers and evaluators don't need TensorFlow.
    from slipway.agents.r2d2 import learning

    return learning.R2D2Learner(config, discrete.number_actions(spec))

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
    """Makes the greedy actor, which the evaluator uses."""
    return self._make_actor(config, spec, None, config.seed)

  def make_network(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> recurrent_q_network.RecurrentQNetwork:
    """Returns the declaration of the Q-network that chooses actions."""
    return recurrent_q_network.RecurrentQNetwork(
      config.network,
      discrete.number_actions(spec),
      normalization.normalizes_observations(config),
    )

  def make_adder(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> core.Adder:
    """Makes the adder of one worker's environments, for sequences."""
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
    """Makes an actor with an epsilon schedule, or a greedy one for None."""
    declaration = self.make_network(config, spec)
    return epsilon_greedy.EpsilonGreedyActor(
      network.make_acting(declaration),
      epsilons,
      seed,
      discrete.make_mask_splitter(spec),
      recurrent.ActorMemory(declaration.inputs),
    )


class InitialPriority:
  """Function that computes initial priorities of sequences, for the adder.

  TD errors come from the action values that the actor computed when it acted.
  `priorities.from_sequences` combines the errors after the burn-in, as in the
  learner: Kapturowski et al. 2019, section 2.3.
  """

  def __init__(self, config: ml_collections.ConfigDict):
    """Reads the hyperparameters from a whole config."""
    self._burn_in, self._n_step = config.adder.burn_in, config.adder.n_step
    self._eta = config.replay.eta

  def __call__(self, inputs: sequences.PriorityInputs) -> np.ndarray:
    """Returns initial priorities float32 [B] of B sequences.

    Args:
      inputs: the actor's values and the rewards of T steps, [B, T, ...] or
        [B, T + 1, ...] in each field.
    """
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
  """Returns the item schema of sequences, with LSTM states at their start."""
  state = (np.dtype(np.float32), (2 * config.network.lstm_size,))
  return sequences.SequenceSchema(
    discrete.number_actions(spec),
    config.adder.burn_in + config.adder.unroll,
    start_extras={recurrent.STATE: state},
  )
