"""Results: the files that keep a run's numbers."""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

import ml_collections
import msgspec
import numpy as np

from slipway.configs import fields
from slipway.launch.runs import (
  curves,
  events,
  run_folder,
  run_status,
  scalars,
)
from slipway.launch.runs import outbox as outbox_lib

# TensorBoard's name: the column of an evaluation.
_EVALUATION = {
  "evaluation/mean_return": "eval_return",
  "evaluation/return_std": "eval_return_std",
  "evaluation/mean_length_steps": "eval_length",
  "evaluation/episodes": "eval_episodes",
}


class Summary(msgspec.Struct, frozen=True):
  """summary.json: a run's last status, and rates over all its learning.

  The rates and the replay ratio are null for a run that has not learned: they
  count the steps since the first update, not those that filled the replay. The
  rates of a run that was resumed count since its first update after that.

  Attributes:
    eval_return: mean return of the last evaluation.
    env_steps_per_s: environment steps since the first update.
    trainer_steps_per_s: updates since the first one.
    trainer_steps_per_env_step: the replay ratio.
  """

  mode: str
  eval_return: float | None
  eval_episodes: int
  best_eval_return: float | None
  env_steps: int
  episodes: int
  trainer_steps: int
  wall_s: float
  start_up_s: float | None
  samples_per_insert: float | None
  variables_age_s: float | None
  items_confirmed: int
  items_lost: int
  items_discarded: int
  env_steps_lost: int
  trainer_steps_lost: int
  reconnects: int
  restarts: int
  node_restarts: dict[str, int]
  resumes: int
  snapshots: int
  snapshot_upload_failures: int
  stopped_because: str | None
  env_steps_per_s: float | None
  trainer_steps_per_s: float | None
  trainer_steps_per_env_step: float | None

  @classmethod
  def from_status(cls, status: run_status.RunStatus) -> "Summary":
    """Returns the summary of a run's last status."""
    env_steps, trainer_steps, wall_s = scalars.growth(status)
    return cls(
      mode=status.mode,
      eval_return=status.evaluation.mean_return,
      eval_episodes=status.evaluation.episodes,
      best_eval_return=status.evaluation.best_mean_return,
      env_steps=status.env_steps,
      episodes=status.episodes,
      trainer_steps=status.trainer_steps,
      wall_s=status.wall_s,
      start_up_s=status.start_up_s,
      samples_per_insert=status.replay and status.replay.samples_per_insert,
      variables_age_s=status.variables.mean_age_s,
      items_confirmed=status.items.confirmed,
      items_lost=status.items.lost,
      items_discarded=status.items.discarded,
      env_steps_lost=status.env_steps_lost,
      trainer_steps_lost=status.trainer_steps_lost,
      reconnects=status.reconnects,
      restarts=status.restarts,
      node_restarts=status.node_restarts,
      resumes=status.resumes,
      snapshots=status.snapshots.written,
      snapshot_upload_failures=status.snapshots.upload_failures,
      stopped_because=status.stopped_because,
      env_steps_per_s=scalars.ratio(env_steps, wall_s),
      trainer_steps_per_s=scalars.ratio(trainer_steps, wall_s),
      trainer_steps_per_env_step=scalars.ratio(trainer_steps, env_steps),
    )


def make_evaluation(
  status: run_status.RunStatus,
  returns: Sequence[float],
  lengths: Sequence[int],
  variables_version: int,
) -> curves.Evaluation:
  """Returns one evaluation as a row of curves.csv.

  Args:
    status: The run's, of which the counts and rates are taken.
    returns: The sums of each episode's rewards, [N].
    lengths: Environment steps of each episode, [N].
    variables_version: Of the variables that were evaluated.
  """
  return curves.Evaluation(
    wall_s=status.wall_s,
    env_steps=status.env_steps,
    trainer_steps=status.trainer_steps,
    eval_return=float(np.mean(returns)),
    eval_return_std=float(np.std(returns)),
    eval_episodes=len(returns),
    eval_length=float(np.mean(lengths)),
    variables_version=variables_version,
    env_steps_per_s=status.rates.env_steps_per_s,
    trainer_steps_per_s=status.rates.trainer_steps_per_s,
  )


class Results:
  """Writes curves.csv, TensorBoard's events, summary.json and curves.png.

  A resumed run continues at its snapshot: what was written after the snapshot
  is removed from its curves.

  results = Results(folder)  # or Results(folder, evaluations=7, env_steps=900)
  results.add_metrics(status)
  results.add_evaluation(make_evaluation(status, [21.5], [400], version))
  results.write_summary(status)
  results.draw_curves()
  results.close()

  What a full disk rejects is kept in memory and written when there is space.
  For any other reason, such as a folder without permission, each method raises
  an OSError of one line that names the file.

  Attributes:
    outbox: writes the files.
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
        its control node was started again, and nothing is lost.
    """
    self._folder = folder
    self.outbox = outbox_lib.Outbox()
    self._open_curves(evaluations)
    self._events = events.Events(folder.events, self.outbox, env_steps)
    if env_steps is not None:
      self._write_evaluations_since(env_steps)

  def write_config(self, config: ml_collections.ConfigDict) -> None:
    """Adds a config to TensorBoard's events, as text and hyperparameters."""
    self._events.add_config(fields.flatten(config))

  def add_evaluation(self, evaluation: curves.Evaluation) -> None:
    """Appends one evaluation to curves.csv and to TensorBoard's events."""
    self.outbox.append(self._folder.curves_csv, _to_line(evaluation))
    self._write_evaluation(msgspec.structs.asdict(evaluation))

  def restore_evaluation(self, evaluation: curves.Evaluation) -> None:
    """Adds the last evaluation of a killed writer, unless curves.csv has it."""
    path = self._folder.curves_csv
    with run_folder.writing(path):
      lines = path.read_bytes() if path.exists() else b""
    if not lines.endswith(_to_line(evaluation)):
      self.add_evaluation(evaluation)

  def add_metrics(self, status: run_status.RunStatus) -> None:
    """Appends the status to TensorBoard's events, by environment steps."""
    self._events.add(scalars.from_status(status), status.env_steps)

  def write_summary(self, status: run_status.RunStatus) -> None:
    """Writes summary.json: a `Summary`; numbers without a value are null."""
    text = msgspec.json.encode(Summary.from_status(status))
    content = msgspec.json.format(text, indent=2) + b"\n"
    self.outbox.replace(self._folder.summary, content)

  def draw_curves(self) -> None:
    """Draws curves.csv into curves.png: `curves.draw`."""
    self.outbox.flush()
    if self._folder.curves_csv.name not in self.outbox.unwritten:
      self.outbox.replace(self._folder.curves_png, curves.draw(self._folder))

  def close(self) -> None:
    """Writes what is left.

    Raises:
      OSError: One line: the disk is still full.
    """
    self.outbox.flush()
    if names := self.outbox.unwritten:
      raise OSError(
        f"the disk of {str(self._folder.path)!r} is full, so the end of "
        f"{', '.join(names)} is lost: free some space, and resume the run"
      )

  def _open_curves(self, evaluations: int | None) -> None:
    """Writes the header, or cuts off what no longer counts.

    That is a line that a killed process left unfinished, and where a run is
    resumed, damaged lines and rows after the first `evaluations`.
    """
    path = self._folder.curves_csv
    with run_folder.writing(path):
      text = path.read_bytes() if path.exists() else b""
    lines = text[: text.rfind(b"\n") + 1].splitlines(keepends=True)
    if not lines or evaluations is not None:
      rows = [line for line in lines if curves.is_row(line)]
      header = ",".join(curves.COLUMNS).encode() + b"\n"
      lines = [header, *rows[:evaluations]]
    kept = b"".join(lines)
    if kept != text:
      self.outbox.replace(path, kept)

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


def _to_line(evaluation: curves.Evaluation) -> bytes:
  """Returns an evaluation as a line of curves.csv."""
  line = io.StringIO()
  writer = csv.DictWriter(line, curves.COLUMNS, lineterminator="\n")
  row = msgspec.structs.asdict(evaluation)
  writer.writerow({name: _cell(value) for name, value in row.items()})
  return line.getvalue().encode()


def _cell(value: Any) -> Any:
  """Ten digits: more than any measurement has, and readable."""
  return f"{value:.10g}" if isinstance(value, float) else value
