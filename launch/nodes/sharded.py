"""What a trainer has where its replay is several servers."""

import functools
from collections.abc import Sequence

import launchpad as lp
import ml_collections

from agents import core, sharded_loop
from configs import limiter as limiter_lib
from configs import sizes
from replay import dataset, layouts, priority_pusher, table_status, tables
from replay import shard as shard_lib


def watch(servers: Sequence[lp.Address]) -> list[shard_lib.Shard]:
  """The servers, each watched; none of one, which nothing goes on without."""
  if len(servers) == 1:
    return []
  return [
    shard_lib.Shard(index, server.resolve(), tables.TRANSITIONS)
    for index, server in enumerate(servers)
  ]


def make_loop(
  config: ml_collections.ConfigDict,
  layout: layouts.Layout,
  learner: core.Learner,
  shards: Sequence[shard_lib.Shard],
) -> sharded_loop.ShardedLoop:
  """The learner's loop over them.

  Args:
    config: the whole config.
    layout: of an item.
    learner: whose updates it runs.
    shards: to be closed by the loop.
  """
  batch_size = sizes.Sizes.of(config).batch_size
  limiter = limiter_lib.Limiter.of(config)

  def batches_allowed(status: table_status.TableStatus) -> int:
    samples = limiter.samples_allowed(
      status.size, status.inserted, status.sampled
    )
    return samples // batch_size

  def reading(shard: shard_lib.Shard) -> sharded_loop.Reading:
    pusher = None
    if config.replay.sampler == "prioritized":
      pusher = priority_pusher.PriorityPusher(shard, tables.TRANSITIONS)
    return sharded_loop.Reading(
      shard,
      functools.partial(
        dataset.make_dataset,
        shard.address,
        tables.TRANSITIONS,
        layout,
        batch_size,
      ),
      pusher,
    )

  return sharded_loop.ShardedLoop(
    learner,
    [reading(shard) for shard in shards],
    functools.partial(dataset.unpack, layout),
    batches_allowed,
  )
