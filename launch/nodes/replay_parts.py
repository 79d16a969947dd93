"""Replay parts: where the tables of each server are saved."""

import pathlib

from launch.runs import run_folder

REPLAY = "replay"  # the tables' part of a snapshot


def in_snapshot(
  snapshot: pathlib.Path, shard: int, shards: int
) -> pathlib.Path:
  """The folder of a snapshot that has the tables of a server.

  Args:
    snapshot: folder of the snapshot.
    shard: of the server, from 0.
    shards: how many there are; of one the whole part.
  """
  whole = snapshot / REPLAY
  return whole if shards == 1 else whole / str(shard)


def on_its_way(
  folder: run_folder.RunFolder, shard: int, shards: int
) -> pathlib.Path:
  """The folder to which a server writes what moves into a snapshot.

  Args:
    folder: of the run.
    shard: of the server, from 0.
    shards: how many there are.
  """
  path = folder.replay_saving
  return path if shards == 1 else path.with_name(f"{path.name}-{shard}")
