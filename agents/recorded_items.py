"""Items of recorded episodes, as workers would have written them."""

import math
import os
import tempfile
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
  folder: str | os.PathLike[str],
) -> tuple[table_spec.TableSpec, np.ndarray]:
  """Makes items of recorded episodes, by the adder of the algorithm's workers.

  The adder gets the recorded steps as those of one environment, whose resets
  are between the episodes. Recurrent states, which were not recorded, are 0 at
  the start of each item.

  Episodes are read one after the other, and the items are a file without a name
  in `folder`: they may be larger than the memory.

  Returns:
    The spec of a table of such items, and the items, uint8 [N, item bytes].

  Raises:
    ValueError: as `check`.
    OSError: the disk is too small for the items.
  """
  table, items = _make_items(config, spec, builder)
  size = math.prod(table.schema.item_shape)
  with tempfile.TemporaryFile(dir=folder) as file:
    for part in items:
      file.write(part)
    file.flush()
    return table, np.memmap(file, np.uint8, "r").reshape(-1, size)


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
) -> tuple[table_spec.TableSpec, Iterator[bytes]]:
  """Returns the spec of a table, and its items, made one after the other."""
  table = builder.make_table(config, spec)
  alone = fields.replace(config, "topology.environments_per_worker", 1)
  if "replay" in config:
    # Priorities are not used, and the values for them were not recorded.
    alone = fields.replace(alone, "replay.sampler", "uniform")
  adder = builder.make_adder(alone, spec)
  extras = {
    name: np.zeros((1, *shape), dtype)
    for name, (dtype, shape) in getattr(
      table.schema, "start_extras", {}
    ).items()
  }

  def make() -> Iterator[bytes]:
    is_empty = True
    for episode in recordings.read_each(config.dataset.path, spec):
      if isinstance(builder, q_builder.QBuilder):
        episode = _number_actions(episode, spec.actions)
      for observation, action, *rest in _list_steps(config, episode):
        output = adder_lib.ActorOutput(action, extras)
        found = adder.add(observation, output, *rest, version=0)
        if found is not None:
          is_empty = False
          yield found.data().tobytes()
    if is_empty:
      raise ValueError(
        f"config.dataset.path={config.dataset.path!r} has too few steps for "
        f"one item of config.agent={config.agent!r}, so there is nothing to "
        "learn from: record longer or more episodes"
      )

  return table, make()


def _list_steps(
  config: ml_collections.ConfigDict, episode: recordings.Episodes
) -> Iterator[tuple[np.ndarray, ...]]:
  """Yields each step of one episode, and a reset, for an adder."""
  # A step is: observation, action, reward, terminated, truncated, first and
  # next observation, [1, ...] each.
  rewards, observations = episode.rewards, episode.observations
  transform = wrappers.make_reward_transform(config.environment)
  if transform is not None:
    rewards = transform(rewards)
  no, yes = np.zeros(1, bool), np.ones(1, bool)
  for i in range(len(rewards)):
    step = slice(i, i + 1)
    yield (
      observations[step],
      episode.actions[step],
      rewards[step],
      episode.terminated[step],
      episode.truncated[step],
      no,
      observations[i + 1 : i + 2],
    )
  # The reset, whose action and reward have no effect, nor has the first
  # observation of an episode that it leads to: this one's is at hand.
  yield (
    observations[-1:],
    episode.actions[-1:],
    np.zeros(1, np.float32),
    no,
    no,
    yes,
    observations[:1],
  )


def _number_actions(
  episodes: recordings.Episodes, actions: specs.Array
) -> recordings.Episodes:
  """Returns episodes with numbered joint actions; see `discrete`."""
  if not isinstance(actions, arrays.MultiDiscreteArray):
    return episodes
  numbers = np.ravel_multi_index(tuple(episodes.actions.T), actions.sizes)
  return episodes._replace(actions=numbers.astype(np.int32))
