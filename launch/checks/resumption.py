"""Resumption: checks that a run can be resumed, and prepares its folder.

Changes of the config that do not fit the saved state are rejected before
anything is started. This module imports neither TensorFlow nor Reverb.
"""

import typing

import ml_collections

from slipway.agents import core
from slipway.configs import base, fields
from slipway.launch.checks import run_config
from slipway.launch.control import limits as limits_lib
from slipway.launch.runs import (
  run_counters,
  run_folder,
  snapshot_store,
)
from slipway.replay.tables import table_spec

# Reasons why fields can't change in a resume, by the name of a field or of a
# whole section of the config.
_FIXED_FIELDS = {
  "agent": "the saved variables belong to another algorithm",
  "environment": "the saved transitions come from another environment",
  "evaluation.environment": "the best evaluation so far had another one",
  "network": "the saved variables would not fit",
  "normalization": "the saved variables were learned with the other setting",
  "adder": "the saved transitions were formed by other rules",
  "bonus.kind": "the saved variables have another bonus, or none",
  "bonus.features": "the saved variables would not fit",
  "learner.init_from": "the snapshot has the run's own weights by now",
  "learner.averaging": "the saved variables have an average, or have none",
  "learner.critic_target": "the saved state fits the other target",
  "learner.kl_multiplier": "the adapted value of the snapshot replaces it",
  "learner.optimizer": "the saved moments belong to the other one",
  "learner.policy_loss": "the saved variables belong to the other loss",
  "learner.std_kl_multiplier": "the adapted value of the snapshot replaces it",
  "learner.temperature": "the adapted value of the snapshot replaces it",
  "learner.target_bc_weight": "the saved items lack next actions, or have them",
  "replay.hindsight": "workers save whole episodes only with hindsight",
  "replay.transitions_per_item": "the saved items have so many transitions",
  "replay.shards": "the saved items are spread over that number of servers",
}
# The same for runs with a bonus.
_FIXED_FIELDS_WITH_BONUS = {
  "learner.batch_size": "the bonus keeps a sum for each row of a batch"
}
# Reasons why further fields can't change in a resume in mode 'single', by name.
_FIXED_FIELDS_IN_SINGLE = {
  "seed": "the saved random states belong to it",
  "topology.environments_per_worker": "so many environments are saved",
  "dataset.path": "a run without workers saves no environments",
  "dataset.ratio": "a run without workers saves no environments",
  "replay.sampler": "a uniform table saves no priorities",
  "replay.priority_exponent": "the saved weights of the items depend on it",
}


def has_reached_limit(folder: run_folder.RunFolder) -> bool:
  """Returns whether a run's newest snapshot is at a limit of its own config.

  Such a run can't be resumed. It has no summary if it was killed after its last
  snapshot.

  Raises:
    ValueError: its config or its snapshot can't be read.
    OSError: the remote location can't be read, and the folder has no snapshot.
  """
  config = folder.read_config()
  snapshot = snapshot_store.open_store(config, folder).newest()
  if snapshot is None:
    return False
  counters = run_counters.RunCounters.read(snapshot.path)
  return _would_end(config.limits, counters)


def check(
  folder: run_folder.RunFolder,
  config: ml_collections.ConfigDict,
  table: table_spec.TableSpec | None,
  store: snapshot_store.SnapshotStore,
) -> tuple[snapshot_store.Snapshot, run_counters.RunCounters]:
  """Finds a run's newest snapshot, and checks that a config can resume it.

  If the remote location (`snapshot.url`) has a newer snapshot, that snapshot is
  downloaded first.

  Args:
    folder: the run's folder, whose lock the caller holds.
    config: the whole config with all overrides, validated.
    table: specification of the algorithm's table, or None if it has no table.
    store: the run's snapshots, here and at the remote location.

  Returns:
    The snapshot from which the run continues, and its counters.

  Raises:
    ValueError: the run has no snapshot, or a changed field does not fit the
      snapshot.
    OSError: the remote location can't be read, or the disk is too full for the
      snapshot that is only there.
  """
  snapshot = store.newest(local_suffices=False)
  if snapshot is None:
    url = config.snapshot.url
    elsewhere = f", nor has {url!r}" if url else ""
    raise ValueError(
      f"run {str(folder.path)!r} has no complete snapshot{elsewhere}, so it "
      "can't be resumed: start a new run"
    )
  counters = run_counters.RunCounters.read(snapshot.path)
  _check_mode(config.mode, counters.status.mode)
  _check_fixed_fields(folder, snapshot, config)
  _check_capacity(config, table, counters)
  _check_limits(config.limits, counters)
  return snapshot, counters


def begin(
  folder: run_folder.RunFolder,
  config: ml_collections.ConfigDict,
  store: snapshot_store.SnapshotStore,
) -> None:
  """Prepares a run's folder for the resume, and writes the new config.

  The config is also written to the remote location, if there is one.

  Raises:
    OSError: a file could not be written; the message names it.
  """
  folder.path.chmod(0o700)  # a copy may be readable for other users
  folder.make_subfolders()
  folder.write_config(config)
  store.publish_config(clear=False)
  # The summary describes an end that the resume revokes. It is removed last, so
  # a resume that is rejected here leaves it.
  with run_folder.writing(folder.summary):
    folder.summary.unlink(missing_ok=True)


def _check_fixed_fields(
  folder: run_folder.RunFolder,
  snapshot: snapshot_store.Snapshot,
  config: ml_collections.ConfigDict,
) -> None:
  """Checks that no fixed field has changed since the snapshot."""
  config_copy = snapshot.path / run_folder.CONFIG
  saved = run_config.read_file(config_copy)
  edited = run_config.read(folder.path, True)  # perhaps, since the snapshot
  if change := _find_forbidden_change(saved, edited):
    name, old, new, why = change
    raise ValueError(
      f"{str(folder.config)!r} has {name}={fields.format_value(new)}, and the "
      f"run's snapshot {snapshot.number} was written with "
      f"{fields.format_value(old)}: {why}; restore the file from "
      f"{str(config_copy)!r}"
    )
  if change := _find_forbidden_change(saved, config):
    name, old, new, why = change
    raise ValueError(
      f"--config.{name}={fields.format_value(new)} can't change in a resume: "
      f"{why}; it was {fields.format_value(old)}: leave the flag out, or start "
      "a new run"
    )


def _find_forbidden_change(
  before: ml_collections.ConfigDict, after: ml_collections.ConfigDict
) -> tuple[str, typing.Any, typing.Any, str] | None:
  """Returns the first fixed field that has changed."""
  has_bonus = after.get("bonus", {}).get("kind", "none") != "none"
  fixed = (
    _FIXED_FIELDS
    | (_FIXED_FIELDS_WITH_BONUS if has_bonus else {})
    | (_FIXED_FIELDS_IN_SINGLE if after.mode == "single" else {})
  )
  old, new = (fields.flatten(c) for c in (before, after))
  if core.is_recorded(after) and not core.is_recorded(before):
    name = "dataset.ratio" if old["dataset.path"] else "dataset.path"
    why = "the saved transitions would be lost"
    return name, old[name], new[name], why
  for name in sorted(old.keys() | new.keys()):
    for prefix, why in fixed.items():
      changed = not fields.is_equal(old.get(name), new.get(name))
      if changed and f"{name}.".startswith(f"{prefix}."):
        return name, old.get(name), new.get(name), why
  return None


def _check_mode(mode: str, saved_mode: str) -> None:
  """Raises ValueError if one of two modes is 'single' and the other is not."""
  if (mode == "single") != (saved_mode == "single"):
    raise ValueError(
      f"--mode={mode} can't resume from a snapshot of mode {saved_mode!r}, "
      "whose replay is saved in another form: leave --mode out, or start a new "
      "run"
    )


def _check_capacity(
  config: ml_collections.ConfigDict,
  table: table_spec.TableSpec | None,
  counters: run_counters.RunCounters,
) -> None:
  """Raises ValueError if a shard's items would not fit into its table."""
  if table is None or table.is_queue:
    return
  shards, saved = table.shards, counters.status.replay
  if saved is None:
    return
  mean_size = -(-saved.size // shards)  # rounded up
  largest_size = max(mean_size, *(s.size for s in saved.shards.values()), 0)
  if largest_size <= table.capacity:
    return
  transitions = largest_size * table.steps_per_item
  each, whose = "", "the snapshot"
  if shards > 1:
    capacity = table.capacity * table.steps_per_item
    each = f", {capacity} for each of {shards} shards,"
    whose = "one shard in the snapshot"
  raise ValueError(
    f"--config.replay.capacity={config.replay.capacity}{each} is below the "
    f"{transitions} transitions of {whose}, which would not fit: give "
    f"{shards * transitions} or more, or start a new run"
  )


def _check_limits(
  limits: ml_collections.ConfigDict, counters: run_counters.RunCounters
) -> None:
  """Raises ValueError if the limits would end the resumed run at once."""
  if not _would_end(limits, counters):
    return
  counts = _limited_counts(limits, counters)
  name = limits_lib.find_reached(limits, counts)[0]
  has = limits_lib.describe_count(name, getattr(counts, name))
  none = base.FIELDS[f"limits.{name}"].default
  raise ValueError(
    f"config.limits.{name}={limits[name]!r} is reached: the run has {has}, so "
    f"it would end at once; raise it with --config.limits.{name}=... "
    f"({none!r}: no limit)"
  )


def _would_end(
  limits: ml_collections.ConfigDict, counters: run_counters.RunCounters
) -> bool:
  """Returns whether limits would end a resumed run at once."""
  counts = _limited_counts(limits, counters)
  return limits_lib.find_reason(limits, counts) is not None


def _limited_counts(
  limits: ml_collections.ConfigDict, counters: run_counters.RunCounters
) -> limits_lib.Counts:
  """Returns the counts of a snapshot that have limits."""
  return limits_lib.Counts.from_status(
    counters.status, limits, counters.eval_returns, counters.eval_infos
  )
