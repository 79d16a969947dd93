"""Results: what a run leaves behind of its numbers."""

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from launch.runs import curves, events, run_folder

# What the summary takes from the status as it is.
_SUMMARY = (
  "mode",
  "eval_return",
  "eval_episodes",
  "best_eval_return",
  "env_steps",
  "trainer_steps",
  "wall_s",
  "start_up_s",
  "samples_per_insert",
  "variables_age_s",
  "items_confirmed",
  "items_lost",
  "env_steps_lost",
  "trainer_steps_lost",
  "reconnects",
  "restarts",
  "node_restarts",
  "resumes",
  "snapshots",
  "snapshot_upload_failures",
  "stopped_because",
)

# TensorBoard's name: the status's key.
_METRICS = {
  "throughput/environment_steps_per_s": "env_steps_per_s",
  "throughput/trainer_steps_per_s": "trainer_steps_per_s",
  "progress/trainer_steps": "trainer_steps",
  "progress/environment_steps_lost": "env_steps_lost",
  "progress/trainer_steps_lost": "trainer_steps_lost",
  "progress/wall_clock_s": "wall_s",
  "replay/size_items": "replay_size",
  "replay/inserted_items": "inserted",
  "replay/sampled_items": "sampled",
  "replay/samples_per_insert": "samples_per_insert",
  "replay/shards_up": "replay_shards_up",
  "items/confirmed": "items_confirmed",
  "items/lost": "items_lost",
  "items/per_s": "items_per_s",
  "workers/reconnects": "reconnects",
  "nodes/restarts": "restarts",
  "run/resumes": "resumes",
  "snapshots/written": "snapshots",
  "snapshots/age_s": "snapshot_age_s",
  "snapshots/pause_s": "snapshot_pause_s",
  "snapshots/newest_uploaded": "snapshot_uploaded",
  "snapshots/upload_failures": "snapshot_upload_failures",
  "variables/version": "variables_version",
  "variables/loads_per_trainer_step": "variable_loads_per_trainer_step",
  "variables/mean_age_s": "variables_age_s",
  "training/mean_return": "training_return",
}

# TensorBoard's name of the replay ratio as it was since learning began.
_REPLAY_RATIO = "replay/trainer_steps_per_environment_step"

# TensorBoard's name: the column of an evaluation.
_EVALUATION = {
  "evaluation/mean_return": "eval_return",
  "evaluation/return_std": "eval_return_std",
  "evaluation/mean_length_steps": "eval_length",
  "evaluation/episodes": "eval_episodes",
}


def evaluation_row(
  status: Mapping[str, Any],
  returns: Sequence[float],
  lengths: Sequence[int],
  variables_version: int,
) -> dict[str, Any]:
  """Returns one evaluation as a row of curves.csv.

  Args:
    status: The run's, of which the counts and rates are taken.
    returns: The sums of each episode's rewards, [N].
    lengths: Environment steps of each episode, [N].
    variables_version: Of the variables that played.
  """
  counts = (
    "wall_s",
    "env_steps",
    "trainer_steps",
    "env_steps_per_s",
    "trainer_steps_per_s",
  )
  return {
    **{key: status.get(key) for key in counts},
    "eval_return": float(np.mean(returns)),
    "eval_return_std": float(np.std(returns)),
    "eval_episodes": len(returns),
    "eval_length": float(np.mean(lengths)),
    "variables_version": variables_version,
  }


class Results:
  """Writes curves.csv, TensorBoard's events, summary.json and curves.png.

  A run that is resumed goes on where its snapshot was made: what was written
  after that is gone from its curves.

  results = Results(folder)  # or Results(folder, evaluations=7, env_steps=900)
  results.add_metrics(status)
  results.add_evaluation({"wall_s": 9.0, "env_steps": 500, "eval_return": 21.5})
  results.write_summary(status)
  results.draw_curves()
  results.close()

  Each method raises an OSError of one line, naming the file, when the disk is
  full or read-only; what was written before is kept.
  """

  def __init__(
    self,
    folder: run_folder.RunFolder,
    evaluations: int | None = None,
    env_steps: int | None = None,
  ):
    """Opens `folder`, made by `RunFolder.create`.

    Args:
      folder: Of the run.
      evaluations: Rows of curves.csv that count, of a run that is resumed;
        those after them are cut off. None: all of them.
      env_steps: Environment steps from which a run is resumed; TensorBoard
        drops what it has read from there on. None: the run begins, or only
        who writes its results was started again, and nothing is lost.
    """
    self._folder = folder
    with run_folder.writing(folder.curves_csv):
      _open_curves(folder, evaluations)
    self._events = events.Events(folder.events, env_steps)
    if env_steps is not None:
      self._write_evaluations_since(env_steps)

  def add_evaluation(self, row: Mapping[str, Any]) -> None:
    """Appends one evaluation to curves.csv and to TensorBoard's events.

    Args:
      row: Values of some of `curves.COLUMNS`; the others' cells stay empty.

    Raises:
      ValueError: A name in `row` is not a column.
    """
    line = io.StringIO()
    writer = csv.DictWriter(line, curves.COLUMNS, lineterminator="\n")
    writer.writerow({name: _cell(value) for name, value in row.items()})
    path = self._folder.curves_csv
    with run_folder.writing(path), open(path, "a", encoding="utf-8") as file:
      file.write(line.getvalue())
    self._write_evaluation(row)

  def add_metrics(self, status: Mapping[str, Any]) -> None:
    """Appends the status to TensorBoard's events, by environment steps."""
    scalars = {name: status.get(key) for name, key in _METRICS.items()}
    scalars[_REPLAY_RATIO] = _growth(status, "trainer_steps", "env_steps")
    groups = {"learner": status.get("metrics"), "proxy": status.get("proxy")}
    for index, worker in (status.get("workers") or {}).items():
      groups[f"worker_{index}"] = worker
    for group, values in groups.items():
      for name, value in (values or {}).items():
        scalars[f"{group}/{name}"] = value
    self._events.add(scalars, status.get("env_steps") or 0)

  def write_summary(self, status: Mapping[str, Any]) -> None:
    """Writes summary.json: the last status, and rates over all the learning.

    The rates, and the trainer steps an environment step (the replay ratio),
    are null for a run that has not learned: they count the steps since the
    first status after start-up, not those that filled the replay. Those of a
    run that was resumed count since it learned again.
    """
    summary = {key: status.get(key) for key in _SUMMARY}
    for key in ("env_steps", "trainer_steps"):
      summary[f"{key}_per_s"] = _growth(status, key, "wall_s")
    summary["trainer_steps_per_env_step"] = _growth(
      status, "trainer_steps", "env_steps"
    )
    known = {key: _finite_or_none(value) for key, value in summary.items()}
    with run_folder.replacing(self._folder.summary) as path:
      path.write_text(json.dumps(known, indent=2) + "\n", encoding="utf-8")

  def draw_curves(self) -> None:
    """Draws curves.csv into curves.png: `curves.draw`."""
    curves.draw(self._folder)

  def close(self) -> None:
    self._events.close()

  def _write_evaluations_since(self, env_steps: int) -> None:
    """Evaluations of that very step count, but TensorBoard drops them too."""
    rows = curves.read(self._folder.curves_csv)
    for i in np.flatnonzero(rows["env_steps"] >= env_steps):
      row = {name: values[i] for name, values in rows.items()}
      self._write_evaluation({k: v for k, v in row.items() if v == v})

  def _write_evaluation(self, row: Mapping[str, Any]) -> None:
    self._events.add(
      {name: row.get(column) for name, column in _EVALUATION.items()},
      int(row.get("env_steps") or 0),
    )


def _growth(status: Mapping[str, Any], key: str, by: str) -> float | None:
  """How much `key` has grown for each unit of `by` since learning began."""
  since = status.get("learning_since")
  if since is None:
    return None
  grown = (status.get(by) or 0) - since[by]
  return ((status.get(key) or 0) - since[key]) / grown if grown > 0 else None


def _open_curves(folder: run_folder.RunFolder, evaluations: int | None) -> None:
  """Writes the header, or cuts off what counts no more.

  That is a line that a full disk left unfinished, and rows after the first
  `evaluations`.
  """
  path = folder.curves_csv
  text = path.read_bytes() if path.exists() else b""
  lines = text[: text.rfind(b"\n") + 1].splitlines(keepends=True)
  if not lines:
    lines = [",".join(curves.COLUMNS).encode() + b"\n"]
  kept = b"".join(lines if evaluations is None else lines[: 1 + evaluations])
  if kept != text:
    with run_folder.replacing(path) as beside:
      beside.write_bytes(kept)


def _cell(value: Any) -> Any:
  """Ten digits: more than any measurement has, and readable."""
  return f"{value:.10g}" if isinstance(value, float) else value


def _finite_or_none(value: Any) -> Any:
  """JSON has no nan and no inf."""
  return (
    None if isinstance(value, float) and not math.isfinite(value) else value
  )
