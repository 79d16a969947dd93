"""Results: what a run leaves behind of its numbers."""

import csv
import io
import json
import math
import numbers
import os
import socket
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tensorboard.compat.proto import event_pb2
from tensorboard.summary.writer import record_writer

from launch import curves, run_folder

# What the summary takes from the status as it is.
_SUMMARY = (
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
  "reconnects",
  "node_restarts",
  "stopped_because",
)

# TensorBoard's name: the status's key.
_METRICS = {
  "throughput/environment_steps_per_s": "env_steps_per_s",
  "throughput/trainer_steps_per_s": "trainer_steps_per_s",
  "progress/trainer_steps": "trainer_steps",
  "progress/wall_clock_s": "wall_s",
  "replay/size_items": "replay_size",
  "replay/inserted_items": "inserted",
  "replay/sampled_items": "sampled",
  "replay/samples_per_insert": "samples_per_insert",
  "items/confirmed": "items_confirmed",
  "items/lost": "items_lost",
  "items/per_s": "items_per_s",
  "workers/reconnects": "reconnects",
  "nodes/restarts": "restarts",
  "variables/version": "variables_version",
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

  A run that is resumed goes on where its curves ended. All of it is written
  without TensorFlow, whose import would cost its process seconds.

  results = Results(folder)
  results.add_metrics(status)
  results.add_evaluation({"wall_s": 9.0, "env_steps": 500, "eval_return": 21.5})
  results.write_summary(status)
  results.draw_curves()
  results.close()

  Each method raises an OSError of one line, naming the file, when the disk is
  full or read-only; what was written before is kept.
  """

  def __init__(self, folder: run_folder.RunFolder):
    """Opens `folder`, made by `RunFolder.create`."""
    self._folder = folder
    self._learning_since: dict[str, float] | None = None
    with run_folder.writing(folder.curves_csv):
      _open_curves(folder)
    self._events_path = folder.events / (
      f"events.out.tfevents.{time.time():.0f}.{socket.gethostname()}"
      f".{os.getpid()}"
    )
    with run_folder.writing(self._events_path):
      # Unbuffered: what a full disk refused is not tried again by close().
      self._events_file = self._events_path.open("ab", buffering=0)
    self._events = record_writer.RecordWriter(self._events_file)
    header = event_pb2.Event()
    header.file_version = "brain.Event:2"
    self._write_event(header)

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
    self._write_scalars(
      {name: row.get(column) for name, column in _EVALUATION.items()},
      row.get("env_steps"),
    )

  def add_metrics(self, status: Mapping[str, Any]) -> None:
    """Appends the status to TensorBoard's events, by environment steps."""
    self._notice_learning(status)
    scalars = {name: status.get(key) for name, key in _METRICS.items()}
    scalars[_REPLAY_RATIO] = self._growth(status, "trainer_steps", "env_steps")
    groups = {"learner": status.get("metrics"), "proxy": status.get("proxy")}
    for index, worker in (status.get("workers") or {}).items():
      groups[f"worker_{index}"] = worker
    for group, values in groups.items():
      for name, value in (values or {}).items():
        scalars[f"{group}/{name}"] = value
    self._write_scalars(scalars, status.get("env_steps"))

  def write_summary(self, status: Mapping[str, Any]) -> None:
    """Writes summary.json: the last status, and rates over all the learning.

    The rates, and the trainer steps an environment step (the replay ratio),
    are null for a run that has not learned: they count the steps since the
    first status after start-up, not those that filled the replay.
    """
    self._notice_learning(status)
    summary = {key: status.get(key) for key in _SUMMARY}
    for key in ("env_steps", "trainer_steps"):
      summary[f"{key}_per_s"] = self._growth(status, key, "wall_s")
    summary["trainer_steps_per_env_step"] = self._growth(
      status, "trainer_steps", "env_steps"
    )
    known = {key: _finite_or_none(value) for key, value in summary.items()}
    with run_folder.replacing(self._folder.summary) as path:
      path.write_text(json.dumps(known, indent=2) + "\n", encoding="utf-8")

  def draw_curves(self) -> None:
    """Draws curves.csv into curves.png: `curves.draw`."""
    curves.draw(self._folder)

  def close(self) -> None:
    self._events_file.close()

  def _notice_learning(self, status: Mapping[str, Any]) -> None:
    if self._learning_since is None and status.get("start_up_s") is not None:
      self._learning_since = {
        key: status.get(key) or 0
        for key in ("wall_s", "env_steps", "trainer_steps")
      }

  def _growth(
    self, status: Mapping[str, Any], key: str, by: str
  ) -> float | None:
    """How much `key` has grown for each unit of `by` since learning began."""
    since = self._learning_since
    if since is None:
      return None
    grown = (status.get(by) or 0) - since[by]
    return ((status.get(key) or 0) - since[key]) / grown if grown > 0 else None

  def _write_scalars(
    self, scalars: Mapping[str, Any], step: int | None
  ) -> None:
    event = event_pb2.Event()
    event.step = int(step or 0)
    for name, value in scalars.items():
      if isinstance(value, numbers.Real):  # None: not known yet.
        event.summary.value.add(tag=name, simple_value=value)
    self._write_event(event)

  def _write_event(self, event: Any) -> None:
    event.wall_time = time.time()
    with run_folder.writing(self._events_path):
      self._events.write(event.SerializeToString())


def _open_curves(folder: run_folder.RunFolder) -> None:
  """Writes the header, or cuts off a line that a full disk left unfinished."""
  with open(folder.curves_csv, "a+b") as file:
    file.seek(0)
    text = file.read()
    whole = text.rfind(b"\n") + 1
    file.truncate(whole)
    if whole == 0:
      file.write(",".join(curves.COLUMNS).encode() + b"\n")


def _cell(value: Any) -> Any:
  """Ten digits: more than any measurement has, and readable."""
  return f"{value:.10g}" if isinstance(value, float) else value


def _finite_or_none(value: Any) -> Any:
  """JSON has no nan and no inf."""
  return (
    None if isinstance(value, float) and not math.isfinite(value) else value
  )
