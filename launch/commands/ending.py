"""Ending: describes and checks a run that `slipway train` has finished."""

import math
import shlex
import signal

import ml_collections

from slipway.agents import core
from slipway.configs import base
from slipway.launch.control import limits
from slipway.launch.runs import run_folder, run_status

# Names of counts in `RunStatus` that differ from those of their limits.
_COUNTS = {"environment_steps": "env_steps", "wall_clock_s": "wall_s"}


def describe(
  folder: run_folder.RunFolder,
  config: ml_collections.ConfigDict,
  shown: run_folder.RunFolder,
) -> str:
  """Returns lines with an ended run's results, and how to continue with it.

  `shown` is the same folder, by the path that is shown to the user.
  """
  path = shlex.quote(str(shown.path))
  picture = ", curves.png" if folder.curves_png.exists() else ""
  lines = [
    f"results:  {path} (summary.json, curves.csv{picture}; for "
    f"TensorBoard: {shlex.quote(str(shown.events))})"
  ]
  if folder.best.exists():
    lines.append(f"evaluate: slipway evaluate --run={path}")
  elif core.is_recorded(config):
    lines.append(
      f"evaluate: slipway evaluate --run={path} --which=all --dataset="
      f"{shlex.quote(config.dataset.path)}"
    )
  if any(folder.snapshots.glob("[0-9]*")):
    summary = run_status.read_summary(folder)
    flag = _flag_past_limit(config.limits, summary)
    lines.append(f"resume:   slipway train --resume={path}{flag}")
  return "\n".join(lines)


def check(
  folder: run_folder.RunFolder, config: ml_collections.ConfigDict
) -> None:
  """Checks that a run has learned, and that it has its last snapshot.

  If the config has a URL for snapshots, that one must have it, too. A signal
  leaves a few seconds for writing and upload, since the processes may be killed
  soon, so the snapshot may be missing then.

  Raises:
    RuntimeError: the time limit has ended the run before its first update; or
      the last snapshot was abandoned, since it took too long, or was not
      uploaded.
  """
  summary = run_status.read_summary(folder)
  if summary.ended_before_first_update:
    raise RuntimeError(
      f"config.limits.wall_clock_s={config.limits.wall_clock_s} had passed "
      "before the first update, so nothing was learned: give more seconds; "
      "they count from the command, and the start takes the first few"
    )
  if summary.stopped_because in signal.Signals.__members__:
    return
  newest = summary.snapshots.written
  if summary.snapshots.late:
    follows = (
      f"a resumed run continues from snapshot {newest}, before the run's end"
      if newest
      else "it was the first one, and the run can't be resumed"
    )
    raise RuntimeError(
      "the last snapshot was abandoned, because it took too long to write: "
      f"{follows}; use a faster disk, or lower replay.capacity"
    )
  uploaded = summary.snapshots.uploaded or 0
  if config.snapshot.url and uploaded < newest:
    raise RuntimeError(
      f"the last snapshot, {newest}, was not uploaded to config.snapshot.url="
      f"{config.snapshot.url!r}, so it is on this machine only: once the URL "
      "can be written, resume the run, which uploads it"
    )


def _flag_past_limit(
  limits_config: ml_collections.ConfigDict, summary: run_status.RunStatus
) -> str:
  """Returns the flag with which a resume continues past a limit."""
  because = summary.stopped_because
  names = limits.find_configured(limits_config)
  if because == limits.ALL_LIMITS and names:
    because = names[0]
  if because not in names:  # also if the limit was set during the run
    return ""
  if because.startswith("target_"):
    none = base.FIELDS[f"limits.{because}"].default
    return f" --config.limits.{because}={none}"
  # The count is past a limit that was raised during the run.
  reached = getattr(summary, _COUNTS.get(because, because), 0)
  value = 2 * limits_config[because]
  while value <= reached:
    value *= 2
  return f" --config.limits.{because}={math.ceil(value)}"
