"""Scalars: converts a run's status to metrics for TensorBoard."""

from collections.abc import Mapping
from typing import Any

import msgspec

from slipway.launch.runs import run_status


def from_info(info: Mapping[str, float]) -> dict[str, float]:
  """Returns an evaluation's numbers of infos, by their names in TensorBoard."""
  return {f"evaluation/info/{name}": value for name, value in info.items()}


def from_status(status: run_status.RunStatus) -> dict[str, Any]:
  """Returns the metrics of a run's status, by their names in TensorBoard.

  A metric is None if it is unknown.
  """
  rates, snapshots = status.rates, status.snapshots
  variables, items = status.variables, status.items
  env_steps, trainer_steps, _ = count_since_first_update(status)
  scalars = {
    "throughput/environment_steps_per_s": rates.env_steps_per_s,
    "throughput/trainer_steps_per_s": rates.trainer_steps_per_s,
    "progress/trainer_steps": status.trainer_steps,
    "progress/episodes": status.episodes,
    "progress/wall_clock_s": status.wall_s,
    "replay/trainer_steps_per_environment_step": ratio(
      trainer_steps, env_steps
    ),
    "items/confirmed": items.confirmed,
    "items/lost": items.lost,
    "items/discarded": items.discarded,
    "items/per_s": rates.items_per_s,
    "workers/reconnects": status.reconnects,
    "nodes/restarts": status.restarts,
    "run/resumes": status.resumes,
    "snapshots/written": snapshots.written,
    "snapshots/age_s": snapshots.age_s,
    "snapshots/pause_s": snapshots.pause_s,
    "snapshots/newest_uploaded": snapshots.uploaded,
    "snapshots/upload_failures": snapshots.upload_failures,
    "variables/version": variables.version,
    "variables/loads_per_trainer_step": variables.loads_per_trainer_step,
    "variables/mean_age_s": variables.mean_age_s,
    "training/mean_return": status.training_return,
  }
  if status.replay is not None:
    scalars |= {
      "replay/size_items": status.replay.size,
      "replay/inserted_items": status.replay.inserted,
      "replay/sampled_items": status.replay.sampled,
      "replay/samples_per_insert": status.replay.samples_per_insert,
    }
  groups: dict[str, dict[str, Any]] = {"learner": status.metrics}
  if status.proxy is not None:
    groups["proxy"] = msgspec.structs.asdict(status.proxy)
  for index, worker in status.workers.items():
    groups[f"worker_{index}"] = msgspec.structs.asdict(worker)
  for group, values in groups.items():
    for name, value in values.items():
      scalars[f"{group}/{name}"] = value
  return scalars


def count_since_first_update(
  status: run_status.RunStatus,
) -> tuple[int, int, float]:
  """Counts a run's steps and seconds since its first update.

  A resumed run counts from the first update after the resume.

  Returns:
    Environment steps, trainer steps and seconds; all are 0 for a run without
    an update.
  """
  since = status.learning_since
  if since is None:
    return 0, 0, 0.0
  return (
    status.env_steps - since.env_steps,
    status.trainer_steps - since.trainer_steps,
    status.wall_s - since.wall_s,
  )


def ratio(count: float, divisor: float) -> float | None:
  """Returns `count` / `divisor`, or None if the divisor is 0."""
  return count / divisor if divisor > 0 else None
