"""Scores of the Behaviour Suite, by its own analyses, and their picture."""
# pyright: reportMissingImports=false

import csv
import math
import pathlib
import typing
import warnings
from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd
from bsuite import sweep
from bsuite.experiments import summary_analysis
from bsuite.logging import csv_logging, logging_utils

from benchmarks import machine
from slipway.launch.runs import run_folder

# Names of the experiments, but for those that download MNIST when they start.
EXPERIMENTS = tuple(
  name
  for name in summary_analysis.BSUITE_INFO
  if name not in ("mnist", "mnist_noise", "mnist_scale")
)
# What experiments measure: the axes of the picture, by the suite's tag.
TAGS = {
  "basic": "basic",
  "noise": "noise",
  "scale": "scale",
  "exploration": "exploration",
  "credit_assignment": "credit assignment",
  "memory": "memory",
  "generalization": "generalization",
}


def choose_ids(experiments: Iterable[str], settings: int) -> list[str]:
  """Chooses settings of each experiment, evenly spaced from first to last.

  Args:
    experiments: names from `EXPERIMENTS`.
    settings: number of settings of each experiment; more than an experiment
      has: all of them.

  Returns:
    Their bsuite ids, such as 'catch/0'.
  """
  chosen = []
  for experiment in experiments:
    ids = [x for x in sweep.SWEEP if _experiment_of(x) == experiment]
    places = np.linspace(0, len(ids) - 1, min(settings, len(ids)))
    chosen += [ids[round(place)] for place in places]
  return chosen


def count_episodes(bsuite_id: str) -> int:
  """Returns the number of training episodes that the suite prescribes.

  Args:
    bsuite_id: experiment and setting, such as 'catch/0'.
  """
  return summary_analysis.BSUITE_INFO[_experiment_of(bsuite_id)].episode


def _experiment_of(bsuite_id: str) -> str:
  """Returns the experiment of a bsuite id."""
  return bsuite_id.split(sweep.SEPARATOR)[0]


def read_run(folder: pathlib.Path, bsuite_id: str) -> list[dict[str, str]]:
  """Reads what the environment of a run has recorded.

  Args:
    folder: folder of the CSV file.
    bsuite_id: experiment and setting of the environment.

  Returns:
    The rows, with a column `bsuite_id` before those of the suite.
  """
  name = bsuite_id.replace(sweep.SEPARATOR, csv_logging.SAFE_SEPARATOR)
  path = folder / f"{csv_logging.BSUITE_PREFIX}{name}.csv"
  with open(path, newline="", encoding="utf-8") as file:
    return [{"bsuite_id": bsuite_id, **row} for row in csv.DictReader(file)]


class Recorded:
  """The rows of an algorithm's finished runs, kept in a CSV file.

  Each experiment has columns of its own, which are empty for the others. Rows
  of another commit do not count, nor do any rows if files were changed, as the
  code may differ.
  """

  def __init__(self, path: pathlib.Path):
    """Reads the file, if there is one.

    Args:
      path: path of the CSV file.
    """
    self._path, self._commit = path, machine.commit()
    self._rows: list[dict[str, str]] = []
    if path.exists() and machine.is_clean(self._commit):
      with open(path, newline="", encoding="utf-8") as file:
        self._rows = [
          row
          for row in csv.DictReader(file)
          if row.get("commit") == self._commit
        ]

  @property
  def ids(self) -> set[str]:
    """The bsuite ids of the runs."""
    return {row["bsuite_id"] for row in self._rows}

  def add(self, rows: Iterable[dict[str, str]]) -> None:
    """Adds the rows of a run, and replaces the file atomically.

    Args:
      rows: result of `read_run`.
    """
    self._rows += [{"commit": self._commit, **row} for row in rows]
    self._rows.sort(key=lambda row: sweep.SWEEP.index(row["bsuite_id"]))
    self._path.parent.mkdir(parents=True, exist_ok=True)
    with (
      run_folder.replacing(self._path) as temporary,
      open(temporary, "w", newline="", encoding="utf-8") as file,
    ):
      columns = dict.fromkeys(name for row in self._rows for name in row)
      writer = csv.DictWriter(file, list(columns), lineterminator="\n")
      writer.writeheader()
      writer.writerows(self._rows)

  def score(self, ids: Iterable[str]) -> list["Score"]:
    """Computes scores by the suite's own analysis of each experiment.

    Args:
      ids: bsuite ids of the runs that count.
    """
    table = pd.read_csv(self._path).drop(columns="commit")
    table = logging_utils.join_metadata(table[table.bsuite_id.isin(list(ids))])
    found = []
    for experiment, rows in table.groupby("bsuite_env", sort=False):
      info = summary_analysis.BSUITE_INFO[str(experiment)]
      rows = rows.dropna(axis="columns", how="all")
      with warnings.catch_warnings():  # of what later pandas no longer has
        warnings.simplefilter("ignore", FutureWarning)
        score = float(info.score(rows))
      settings = rows.bsuite_id.nunique()
      found.append(Score(str(experiment), tuple(info.tags), score, settings))
    return found


class Score(typing.NamedTuple):
  """The score of an algorithm in one experiment.

  Attributes:
    experiment: name of the experiment.
    tags: what it measures, keys of `TAGS`.
    score: from 0, a random agent, to 1.
    settings: number of its settings that were run.
  """

  experiment: str
  tags: tuple[str, ...]
  score: float
  settings: int


def by_tag(scores: Iterable[Score]) -> dict[str, float]:
  """Returns the mean score of the experiments with each tag, by tag.

  Args:
    scores: scores of one algorithm.
  """
  found: dict[str, list[float]] = {tag: [] for tag in TAGS}
  for each in scores:
    for tag in each.tags:
      found[tag].append(each.score)
  return {
    tag: float(np.mean(values)) if values else math.nan
    for tag, values in found.items()
  }


def draw(
  tag_scores: Mapping[str, Mapping[str, float]], path: pathlib.Path
) -> None:
  """Draws the radar picture: an axis per tag, a line per algorithm.

  Args:
    tag_scores: result of `by_tag` of each algorithm, by its name.
    path: path of the PNG file.
  """
  from matplotlib import figure

  picture = figure.Figure(figsize=(7.5, 5.5), dpi=110, layout="constrained")
  axes: typing.Any = picture.subplots(subplot_kw={"projection": "polar"})
  angles = np.linspace(0, 2 * np.pi, len(TAGS) + 1)  # the last is the first
  for name, scores in tag_scores.items():
    values = [scores[tag] for tag in (*TAGS, next(iter(TAGS)))]
    (line,) = axes.plot(angles, values, linewidth=1.8, label=name)
    axes.fill(angles, values, color=line.get_color(), alpha=0.12)
  axes.set_xticks(angles[:-1], TAGS.values())
  axes.set_ylim(0, 1)
  axes.set_yticks([0.25, 0.5, 0.75, 1])
  axes.tick_params(axis="x", pad=14)
  axes.grid(color="#d5d9dd", linewidth=0.8)
  picture.legend(loc="outside right upper", frameon=False)
  picture.savefig(path)
