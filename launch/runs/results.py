"""Results: writes a run's curves.csv, TensorBoard's events and summary.json."""

import csv
import io
import types
from collections.abc import Mapping, Sequence
from typing import Any

import ml_collections
import msgspec
import numpy as np
from absl import logging

from slipway.configs import fields
from slipway.launch.runs import (
  comparison,
  curves,
  events,
  outbox,
  records,
  run_folder,
  run_status,
)

# Columns of curves.csv, by the names of TensorBoard's metrics for them.
_EVALUATION_COLUMNS = {
  "evaluation/mean_return": "eval_return",
  "evaluation/return_std": "eval_return_std",
  "evaluation/mean_length_steps": "eval_length",
  "evaluation/episodes": "eval_episodes",
}


def make_evaluation(
  status: run_status.RunStatus,
  returns: Sequence[float],
  lengths: Sequence[int],
  variables_version: int,
  info: Mapping[str, float] = types.MappingProxyType({}),
) -> curves.Evaluation:
  """Returns an evaluation's row of curves.csv: means over its episodes.

  Args:
    status: the run's current status, with counts and rates for the row.
    returns: [N], undiscounted return of each of N episodes.
    lengths: [N], environment steps of each episode.
    variables_version: version of the variables that were evaluated.
    info: mean of each number that `evaluation.info` names, by name.
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
    info=dict(info),
  )


class Results:
  """Writes curves.csv, TensorBoard's events, summary.json and curves.png.

  In a resumed run, rows that were written after its snapshot are removed.

  ```python
  results = Results(folder)  # or Results(folder, evaluations=7, env_steps=900)
  results.add_metrics(status)
  results.add_evaluation(make_evaluation(status, [21.5], [400], version))
  results.write_summary(status)
  results.draw_curves()
  results.close()
  ```

  Data that a full disk rejects is kept in memory and written later. For other
  reasons, such as missing permissions, each method but `draw_curves` raises an
  OSError of one line with the file's path.
  """

  def __init__(
    self,
    folder: run_folder.RunFolder,
    evaluations: int | None = None,
    env_steps: int | None = None,
    trainer_steps: float = np.inf,
  ):
    """Opens a run's curves.csv, and begins a file of TensorBoard's events.

    Args:
      folder: the run's folder, made by `RunFolder.create`.
      evaluations: number of rows of curves.csv to keep in a resume, or None to
        keep all rows.
      env_steps: environment steps at which the run is resumed, or None if it
        is not resumed. TensorBoard drops older values after this step.
      trainer_steps: the learner's updates at which the run is resumed. Rows of
        later ones are removed, even if the file has fewer than `evaluations`,
        as where the run's folder was lost once.
    """
    self._folder = folder
    self._open_curves(evaluations, trainer_steps)
    self._events = events.Events(folder.events, env_steps)

  def write_config(self, config: ml_collections.ConfigDict) -> None:
    """Adds the run's config to TensorBoard's events, not to config.json.

    TensorBoard shows the config as a text and as hyperparameters.
    """
    self._events.add_config(fields.flatten(config))

  def add_evaluation(self, evaluation: curves.Evaluation) -> None:
    """Appends one evaluation to curves.csv and to TensorBoard's events."""
    outbox.append(self._folder.curves_csv, _to_line(evaluation))
    self._write_evaluation(msgspec.structs.asdict(evaluation))

  def add_metrics(self, status: run_status.RunStatus) -> None:
    """Appends a status's counts and rates to TensorBoard's events.

    The evaluations are left out, since `add_evaluation` appends each once.
    """
    metrics = {
      name: value
      for name, value in status.to_numbers().items()
      if not name.startswith("evaluation/")
    }
    self._events.add(metrics, status.env_steps)

  def write_summary(self, status: run_status.RunStatus) -> None:
    """Writes summary.json, the run's last status."""
    outbox.replace(self._folder.summary, records.to_json(status))

  def draw_curves(self) -> None:
    """Draws curves.csv as curves.png, unless rows of it are unwritten.

    A picture that can't be drawn is only logged, because the run is good.
    """
    outbox.flush()
    if self._folder.curves_csv.name in outbox.unwritten():
      return
    try:
      config = self._folder.read_config()
      if fields.get(config, "environment.external"):  # no evaluations
        return
      target = config.limits.target_return
      group = comparison.read_run(self._folder)
      picture = comparison.draw([group], target=target)
      outbox.replace(self._folder.curves_png, picture)
    except Exception:  # also any error of Matplotlib
      logging.exception(
        "curves.png can't be drawn: `slipway plot` draws curves.csv once the "
        "cause is removed"
      )

  def close(self) -> None:
    """Writes all data that a full disk has rejected before.

    Raises:
      OSError: the disk is still full.
    """
    outbox.flush()
    if names := outbox.unwritten():
      raise OSError(
        f"the disk of {str(self._folder.path)!r} is full, so the end of "
        f"{', '.join(names)} is lost: free some space before the next run"
      )

  def _open_curves(self, evaluations: int | None, trainer_steps: float) -> None:
    """Writes the header of a new curves.csv, or removes rows of an old one."""
    # An unfinished line of a killed process is always removed. In a resumed
    # run, damaged lines and rows after the first `evaluations` are removed,
    # too.
    path = self._folder.curves_csv
    with run_folder.writing(path):
      text = path.read_bytes() if path.exists() else b""
    lines = text[: text.rfind(b"\n") + 1].splitlines(keepends=True)
    if not lines or evaluations is not None:
      rows = [line for line in lines if curves.is_row(line, trainer_steps)]
      header = curves.HEADER + b"\n"
      lines = [header, *rows[:evaluations]]
    kept = b"".join(lines)
    if kept != text:
      outbox.replace(path, kept)

  def _write_evaluation(self, row: Mapping[str, Any]) -> None:
    """Appends a row of curves.csv to TensorBoard's events."""
    metrics = {
      name: row.get(column) for name, column in _EVALUATION_COLUMNS.items()
    }
    for name, value in row.get("info", {}).items():
      metrics[f"evaluation/info/{name}"] = value
    self._events.add(metrics, int(row.get("env_steps") or 0))


def _to_line(evaluation: curves.Evaluation) -> bytes:
  """Returns an evaluation as a line of curves.csv, with a newline."""
  line = io.StringIO()
  writer = csv.DictWriter(
    line, curves.COLUMNS, lineterminator="\n", extrasaction="ignore"
  )
  row = msgspec.structs.asdict(evaluation)
  writer.writerow({name: _format_cell(value) for name, value in row.items()})
  return line.getvalue().encode()


def _format_cell(value: Any) -> Any:
  """Returns a cell of curves.csv; floats have ten significant digits."""
  return f"{value:.10g}" if isinstance(value, float) else value
