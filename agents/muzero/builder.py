"""The builder of Gumbel MuZero."""

import ml_collections
import numpy as np
from acme import specs

from slipway.agents import core, discrete, seeds
from slipway.agents.muzero import acting, network, search
from slipway.agents.networks import normalization, torsos
from slipway.configs import muzero, rules
from slipway.environments import arrays
from slipway.replay.items import sequence_adder, sequences
from slipway.replay.tables import table_spec


class Builder:
  """Makes the table, adder, actors and learner of Gumbel MuZero.

  Danihelka et al. 2022, "Policy improvement by planning with Gumbel"
  (https://openreview.net/forum?id=bERaNdoegnO); see `core.Builder`.
  """

  fields = muzero.FIELDS

  def check(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> None:
    """Raises ValueError if config fields contradict each other or the spec."""
    muzero.check(config)
    if _is_continuous(spec):
      torsos.check(config.network, spec)
    else:
      discrete.check(config, spec)
      rules.check_effect(
        config, self.fields, "search.sampled_actions", "discrete"
      )
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

  def make_network(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> network.MuZeroNetwork:
    """Returns the declaration of the network in which actors search."""
    return network.MuZeroNetwork(
      config.network,
      discrete.number_actions(spec),
      normalization.normalizes_observations(config),
    )

  def make_actor(
    self,
    config: ml_collections.ConfigDict,
    spec: specs.EnvironmentSpec,
    worker: int,
    restarts: int = 0,
    earlier_env_steps: int = 0,
  ) -> core.Actor:
    """Makes the actor of one worker, whose searches have Gumbel noise."""
    del earlier_env_steps
    seed = seeds.for_worker(config.seed, worker, restarts)
    return self._make_actor(config, spec, np.random.default_rng(seed))

  def make_greedy_actor(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> core.Actor:
    """Makes the evaluator's actor, whose searches have no noise."""
    return self._make_actor(config, spec, None)

  def make_learner(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> core.Learner:
    """Makes the learner, with variables initialized from `config.seed`."""
    # Imported here, since workers and evaluators don't need TensorFlow.
    from slipway.agents.muzero import learning

    return learning.MuZeroLearner(config, discrete.number_actions(spec))

  def make_adder(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> core.Adder:
    """Makes the adder of one worker's environments, for sequences."""
    return sequence_adder.SequenceAdder(
      _make_schema(config, spec),
      config.topology.environments_per_worker,
      config.adder.period,
      config.adder.discount,
    )

  def _make_actor(
    self,
    config: ml_collections.ConfigDict,
    spec: specs.EnvironmentSpec,
    random: np.random.Generator | None,
  ) -> acting.SearchActor:
    return acting.SearchActor(
      self.make_network(config, spec),
      search.Settings(
        config.search.simulations,
        config.search.considered_actions,
        config.search.value_scale,
      ),
      config.adder.discount,
      random,
      config.search.sampled_actions,
      config.search.random_share,
      discrete.make_mask_splitter(spec),
    )


def _make_schema(
  config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
) -> sequences.SequenceSchema:
  """Returns the item schema of sequences with the policies of searches.

  The n-step return from the last of the K + 1 states needs n more steps.
  """
  spec, number = discrete.number_actions(spec), np.dtype(np.float32)
  if _is_continuous(spec):
    count = config.search.sampled_actions
    extras = {
      acting.POLICY: (number, (count,)),
      acting.SAMPLES: (number, (count, *spec.actions.shape)),
    }
  else:
    extras = {acting.POLICY: (number, (spec.actions.num_values,))}
  return sequences.SequenceSchema(
    spec,
    config.adder.unroll + config.adder.n_step,
    step_extras=extras,
    stacked_frames=config.adder.stacked_frames,
  )


def _is_continuous(spec: specs.EnvironmentSpec) -> bool:
  return arrays.component_sizes(spec.actions) is None
