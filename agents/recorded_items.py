"""Items of recorded episodes, as workers would have written them."""

from collections.abc import Iterator

import ml_collections
import numpy as np
from acme import specs

from slipway.agents import core, q_builder
from slipway.configs import fields
from slipway.environments import arrays, recordings, wrappers
from slipway.replay.items import adder as adder_lib
from slipway.replay.tables import table_spec


def collect(
  config: ml_collections.ConfigDict,
  spec: specs.EnvironmentSpec,
  builder: core.Builder,
) -> tuple[table_spec.TableSpec, np.ndarray]:
  """Makes items of recorded episodes, by the adder of the algorithm's workers.

  The adder gets the recorded steps as those of one environment, whose resets
  are between the episodes. Recurrent states, which were not recorded, are 0 at
  the start of each item.

  Returns:
    The spec of a table of such items, and the items, uint8 [N, item bytes].

  Raises:
    ValueError: as `check`.
  """
  table, items = _make_items(config, spec, builder)
  return table, np.concatenate(list(items))


def check(
  config: ml_collections.ConfigDict,
  spec: specs.EnvironmentSpec,
  builder: core.Builder,
) -> None:
  """Checks the recorded episodes, but makes their first item only.

  Raises:
    ValueError: the folder has no episodes of this environment, or too few steps
      for an item.
  """
  _, items = _make_items(config, spec, builder)
  next(items)


def _make_items(
  config: ml_collections.ConfigDict,
  spec: specs.EnvironmentSpec,
  builder: core.Builder,
) -> tuple[table_spec.TableSpec, Iterator[np.ndarray]]:
  """Returns the spec of a table, and its items, made one after the other."""
  table = builder.make_table(config, spec)
  alone = fields.replace(config, "topology.environments_per_worker", 1)
  if "replay" in config:
    # Priorities are not used, and the values for them were not recorded.
    alone = fields.replace(alone, "replay.sampler", "uniform")
  adder = builder.make_adder(alone, spec)
  episodes = recordings.read(config.dataset.path, spec)
  if isinstance(builder, q_builder.QBuilder):
    episodes = _number_actions(episodes, spec.actions)
  extras = {
    name: np.zeros((1, *shape), dtype)
    for name, (dtype, shape) in getattr(
      table.schema, "start_extras", {}
    ).items()
  }

  def make() -> Iterator[np.ndarray]:
    is_empty = True
    for observation, action, *rest in _list_steps(config, episodes):
      output = adder_lib.ActorOutput(action, extras)
      found = adder.add(observation, output, *rest, version=0)
      if found is not None:
        is_empty = False
        yield found.data().copy()
    if is_empty:
      raise ValueError(
        f"config.dataset.path={config.dataset.path!r} has too few steps for "
        f"one item of config.agent={config.agent!r}, so there is nothing to "
        "learn from: record longer or more episodes"
      )

  return table, make()


def _list_steps(
  config: ml_collections.ConfigDict, episodes: recordings.Episodes
) -> Iterator[tuple[np.ndarray, ...]]:
  """Yields each step, and a reset after each episode, for an adder.

  A step is: observation, action, reward, terminated, truncated, first and next
  observation, [1, ...] each.
  """
  rewards = episodes.rewards
  transform = wrappers.make_reward_transform(config.environment)
  if transform is not None:
    rewards = transform(rewards)
  no, yes = np.zeros(1, bool), np.ones(1, bool)
  ends = np.cumsum(episodes.lengths)
  for e, end in enumerate(ends):
    for i in range(end - episodes.lengths[e], end):
      step, at = slice(i, i + 1), i + e
      yield (
        episodes.observations[at : at + 1],
        episodes.actions[step],
        rewards[step],
        episodes.terminated[step],
        episodes.truncated[step],
        no,
        episodes.observations[at + 1 : at + 2],
      )
    # The reset, whose action and reward have no effect. That of the last
    # episode has no next one, and leads to the episode's last observation.
    last = end + e
    after = min(last + 1, len(episodes.observations) - 1)
    yield (
      episodes.observations[last : last + 1],
      episodes.actions[end - 1 : end],
      np.zeros(1, np.float32),
      no,
      no,
      yes,
      episodes.observations[after : after + 1],
    )


def _number_actions(
  episodes: recordings.Episodes, actions: specs.Array
) -> recordings.Episodes:
  """Returns episodes with numbered joint actions; see `discrete`."""
  if not isinstance(actions, arrays.MultiDiscreteArray):
    return episodes
  numbers = np.ravel_multi_index(tuple(episodes.actions.T), actions.sizes)
  return episodes._replace(actions=numbers.astype(np.int32))
