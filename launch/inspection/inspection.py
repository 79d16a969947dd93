"""Inspection: what a run's table held and what its policy does, at a snapshot.

A snapshot is read by this process from its files, so a running trainer is not
disturbed. To request samples of its server would change the counts of samples.
"""

import json
import os
import pathlib
import time

import ml_collections
import msgspec

from slipway.launch.checks import run_config
from slipway.launch.inspection import items as items_lib
from slipway.launch.inspection import policy as policy_lib
from slipway.launch.inspection import table as table_lib
from slipway.launch.runs import run_counters, run_folder, snapshot_store
from slipway.replay.items import item_reader
from slipway.replay.tables import saved_table

# Times that a snapshot is searched again, as a run deletes old ones.
_TRIES = 3


class Inspection(msgspec.Struct, kw_only=True):
  """A run's table and policy at the moment of a snapshot.

  Attributes:
    run: path of the run's folder.
    snapshot: number of the snapshot.
    saved_at_s: unix seconds at which the snapshot began.
    age_s: seconds from then to the inspection.
    env_steps: environment steps until the snapshot.
    trainer_steps: updates of the learner until then.
    version: version of the variables then.
    table: statistics of the table, or None if there is no lasting one.
    without_table: sentence about the reason, or None if there is one.
    items: items at both ends of the table's order.
    policy: statistics of the policy, or None if no episodes were requested or
      the environment can't be stepped.
  """

  run: str
  snapshot: int
  saved_at_s: float
  age_s: float
  env_steps: int
  trainer_steps: int
  version: int
  table: table_lib.TableInspection | None = None
  without_table: str | None = None
  items: list[items_lib.Item] = []
  policy: policy_lib.PolicyInspection | None = None


def inspect(
  run: str | os.PathLike[str],
  items: int = 0,
  pictures: pathlib.Path | None = None,
  episodes: int = 0,
  trust: bool = False,
) -> Inspection:
  """Inspects the newest snapshot of a run, which may be active.

      found = inspection.inspect("runs/first")
      print(found.table.priorities.counts)

  Args:
    run: the run's folder.
    items: number of items to decode at each end of the table's order.
    pictures: folder for pictures of their observations, or None for none.
    episodes: number of episodes to play with the policy.
    trust: whether to use a run of another user; see `policy.load`.

  Raises:
    ValueError: there is no such run, or it has no snapshot that can be read.
    OSError: a picture can't be written.
    user_code.UserCodeError: the environment failed.
  """
  folder = run_folder.RunFolder.open(run, trust)
  config = run_config.read(folder.path, trust)
  for tries_left in reversed(range(_TRIES)):
    found = snapshot_store.SnapshotStore(folder).newest()
    if found is None:
      raise ValueError(
        f"{str(folder.path)!r} has no complete snapshot, so there is nothing "
        "to inspect: wait until the run has written one, or let it do so now, "
        f"`slipway control --run={folder.path} save`"
      )
    try:
      return _inspect(folder, config, found, items, pictures, episodes)
    except FileNotFoundError:  # the run has replaced the snapshot meanwhile
      if not tries_left:
        raise
  raise AssertionError


def _inspect(
  folder: run_folder.RunFolder,
  config: ml_collections.ConfigDict,
  snapshot: snapshot_store.Snapshot,
  items: int,
  pictures: pathlib.Path | None,
  episodes: int,
) -> Inspection:
  """Inspects one snapshot."""
  path = snapshot.path
  status = run_counters.RunCounters.read(path).status
  now_s = (path / run_counters.FILE).stat().st_mtime
  found = Inspection(
    run=str(folder.path),
    snapshot=snapshot.number,
    saved_at_s=now_s,
    age_s=max(0.0, time.time() - now_s),
    env_steps=status.env_steps,
    trainer_steps=status.trainer_steps,
    version=status.variables.version,
  )
  if status.replay is None:
    found.without_table = (
      "the run learns from recorded episodes, and so has no table"
    )
  elif status.replay.is_queue:
    found.without_table = (
      "the algorithm learns from each item once: its table is a queue, which "
      "items leave as soon as they are sampled"
    )
  else:
    reader = _make_reader(path)
    saved = _read_tables(path, config, reader, items)
    steps = status.trainer_steps
    found.table = table_lib.inspect(saved, reader, config.replay, steps, now_s)
    found.items = items_lib.read(saved, reader, items, now_s, pictures)
  if episodes and not config.environment.external:
    found.policy = policy_lib.inspect(folder, config, snapshot, episodes)
  return found


def _make_reader(snapshot: pathlib.Path) -> item_reader.ItemReader:
  """Returns the reader of a snapshot's items."""
  text = (snapshot / snapshot_store.ITEMS).read_text(encoding="utf-8")
  return item_reader.ItemReader(json.loads(text))


def _read_tables(
  snapshot: pathlib.Path,
  config: ml_collections.ConfigDict,
  reader: item_reader.ItemReader,
  items: int,
) -> list[saved_table.SavedTable]:
  """Returns the table of each shard."""
  shards = config.replay.shards
  choose = items_lib.Chooser(reader, items, shards)
  if config.mode == "single":
    return [saved_table.read_local(snapshot / "table", reader, choose)]
  # Imported late: they load TensorFlow.
  from slipway.launch.nodes import snapshot_writer
  from slipway.replay.tables import tables

  return [
    saved_table.read_reverb(
      snapshot_writer.tables_path(snapshot, shard, shards),
      tables.TRANSITIONS,
      reader,
      choose,
    )
    for shard in range(shards)
  ]
