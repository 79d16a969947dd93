"""The builder of R2D2."""

from collections.abc import Mapping

import ml_collections
import numpy as np
from acme import specs

from slipway.agents import core, discrete, epsilon_greedy, q_builder
from slipway.agents.losses import n_step, rescaling
from slipway.agents.networks import (
  cores,
  normalization,
  recurrent,
  recurrent_q_network,
)
from slipway.configs import r2d2
from slipway.replay.items import priorities, sequence_adder, sequences
from slipway.replay.tables import table_spec


class Builder(q_builder.QBuilder):
  """Makes the table, adder, actors and learner of R2D2.

  Kapturowski et al. 2019, "Recurrent experience replay in distributed
  reinforcement learning".
  """

  fields = r2d2.FIELDS
  network_class = recurrent_q_network.RecurrentQNetwork

  def unscale_values(self, values: np.ndarray) -> np.ndarray:
    """Returns the network's values [B] as expected returns."""
    return rescaling.unscale(values)

  def check(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> None:
    """Raises ValueError if config fields contradict each other or the spec."""
    r2d2.check(config)
    discrete.check(config, spec)
    cores.check(config.network)
    normalization.check(config, spec)
    self.make_table(config, spec)

  def make_table(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> table_spec.TableSpec:
    """Returns the spec of the replay table, whose items are sequences."""
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

  def make_adder(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> core.Adder:
    """Makes the adder of one worker's environments, for sequences."""
    return sequence_adder.SequenceAdder(
      _make_schema(config, spec),
      config.topology.environments_per_worker,
      config.adder.period,
      config.adder.discount,
      InitialPriority(config)
      if config.replay.sampler == "prioritized"
      else None,
    )


class InitialPriority:
  """Computes first priorities of sequences; see `adder.Priority`.

  TD errors come from the action values that the actor computed when it acted.
  `priorities.from_sequences` combines the errors after the burn-in, as in the
  learner: Kapturowski et al. 2019, section 2.3.
  """

  step_extras = (epsilon_greedy.VALUE_OF_ACTION,)
  observation_extras = (epsilon_greedy.VALUE_OF_STATE,)

  def __init__(self, config: ml_collections.ConfigDict):
    self._burn_in, self._n_step = config.adder.burn_in, config.adder.n_step
    self._eta = config.replay.eta

  def __call__(self, fields: Mapping[str, np.ndarray]) -> np.ndarray:
    """Returns first priorities float32 [B] of B sequences."""
    reward, discount, ended, first, of_action, of_state = (
      fields[name][:, self._burn_in :]
      for name in (
        "reward",
        "discount",
        "ended",
        "first",
        epsilon_greedy.VALUE_OF_ACTION,
        epsilon_greedy.VALUE_OF_STATE,
      )
    )
    targets = n_step.compute_returns(
      reward,
      discount,
      ended,
      rescaling.unscale(of_state[:, 1:]),
      self._n_step,
      np.concatenate,
      np.where,
    )
    learned = (~first[:, 1:]).astype(np.float32)
    errors = (rescaling.rescale(targets) - of_action) * learned
    return priorities.from_sequences(errors, learned, self._eta)


def _make_schema(
  config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
) -> sequences.SequenceSchema:
  """Returns the item schema of sequences, which start with a core's state."""
  state = (np.dtype(np.float32), (cores.make(config.network).state_size,))
  return sequences.SequenceSchema(
    discrete.number_actions(spec),
    config.adder.burn_in + config.adder.unroll,
    start_extras={recurrent.STATE: state},
  )
