"""Curves: reads a run's evaluations from curves.csv."""

import os
from collections.abc import Mapping

import msgspec
import numpy as np
from absl import logging


class Evaluation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """One evaluation, as a row of curves.csv; None is written as an empty cell.

  The file has a column for each attribute but `info`, whose names differ
  between runs.

  Attributes:
    wall_s: duration of the run in seconds.
    env_steps: number of environment steps of all workers.
    trainer_steps: number of updates of the learner.
    eval_return: mean undiscounted return of the episodes.
    eval_return_std: standard deviation of the episodes' returns.
    eval_episodes: number of episodes.
    eval_length: mean length of the episodes in environment steps.
    variables_version: version of the variables that was evaluated.
    env_steps_per_s: environment steps per second at the evaluation's end.
    trainer_steps_per_s: trainer steps per second at the evaluation's end.
    info: mean of each number that `evaluation.info` names, by name.
  """

  wall_s: float | None = None
  env_steps: int | None = None
  trainer_steps: int | None = None
  eval_return: float | None = None
  eval_return_std: float | None = None
  eval_episodes: int | None = None
  eval_length: float | None = None
  variables_version: int | None = None
  env_steps_per_s: float | None = None
  trainer_steps_per_s: float | None = None
  info: dict[str, float] = {}


# Names of the columns of curves.csv, in the order of the file.
COLUMNS: tuple[str, ...] = tuple(
  name for name in Evaluation.__struct_fields__ if name != "info"
)

HEADER = ",".join(COLUMNS).encode()  # first line of the file
# Indices of two columns.
_ENV_STEPS, _TRAINER_STEPS = map(COLUMNS.index, ("env_steps", "trainer_steps"))
# Highest valid number of environment steps in a row. Up to this number, float64
# represents integers exactly.
_MAX_STEPS = 2**53

# Part of a run's steps after which `final_return` begins.
_FINAL_PART = 0.9


def read(
  path: str | os.PathLike[str], missing_ok: bool = False
) -> dict[str, np.ndarray]:
  """Reads the columns of curves.csv.

  Damaged lines are left out, with one warning in the log.

  Args:
    missing_ok: whether a missing file counts as one without rows.

  Returns:
    Columns by name: each a float64 array [N] for N rows, with nan for empty
    cells.

  Raises:
    ValueError: the file can't be read.
  """
  try:
    with open(path, "rb") as file:
      header, *lines = file.read().split(b"\n")
  except OSError as error:
    if not (missing_ok and isinstance(error, FileNotFoundError)):
      raise ValueError(
        f"{os.fspath(path)!r} cannot be read as a run's curves "
        f"({error.strerror}): restore the file"
      ) from error
    header, lines = HEADER, []
  rows = [_parse_row(line) for line in lines if line.strip()]
  damaged = rows.count(None) + (header.strip() != HEADER)
  if damaged:
    logging.warning(
      "%r has %d damaged lines, which are left out", os.fspath(path), damaged
    )
  valid = np.array([row for row in rows if row], np.float64)
  return dict(zip(COLUMNS, valid.reshape(-1, len(COLUMNS)).T, strict=True))


def read_evaluations(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
  """Reads the rows of a curves.csv that have a mean return; see `read`.

  There are none without the file, which a run makes only once it has started.
  """
  rows = read(path, missing_ok=True)
  known = np.isfinite(rows["eval_return"])
  return {name: column[known] for name, column in rows.items()}


def get_progress(rows: Mapping[str, np.ndarray]) -> np.ndarray:
  """Returns the steps by which a run has progressed at each evaluation, [N].

  They are environment steps, or the learner's updates in a run that learns from
  recorded data, which steps no environment.

  Args:
    rows: columns of curves.csv, by name; see `read`.
  """
  env_steps = rows["env_steps"]
  return env_steps if (env_steps > 0).any() else rows["trainer_steps"]


def final_return(steps: np.ndarray, returns: np.ndarray) -> float:
  """Returns the mean return at a run's end, by which runs are compared.

  It is the mean of the evaluations in the last tenth of the steps. The last N
  evaluations would be another part of each run: a short run has few of them,
  and so does a fast one in the modes 'async' and 'sync', which evaluate per
  second, not per step.

  Args:
    steps: [N], environment steps of at least one evaluation, in their order, or
      its updates; see `get_progress`.
    returns: [N], mean return of each evaluation.
  """
  is_final = steps >= _FINAL_PART * steps[-1]
  is_final[-1] = True  # even where its steps are unknown
  return float(returns[is_final].mean())


def is_row(line: bytes, max_trainer_steps: float = np.inf) -> bool:
  """Returns whether a line of curves.csv is a valid row, not the header.

  Args:
    max_trainer_steps: the learner's updates above which the result is False.
  """
  row = _parse_row(line) if line.strip() else None
  return row is not None and not row[_TRAINER_STEPS] > max_trainer_steps


def _parse_row(line: bytes) -> list[float] | None:
  """Returns the numbers of a line of curves.csv, or None if it is damaged."""
  # The numbers have the order of `COLUMNS`, with nan for an empty cell.
  cells = line.split(b",")
  try:
    row = [float(cell.strip() or b"nan") for cell in cells]
  except ValueError:
    return None
  if len(row) != len(COLUMNS) or abs(row[_ENV_STEPS]) > _MAX_STEPS:
    return None
  return row
