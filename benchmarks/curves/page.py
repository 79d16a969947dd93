"""Pages: learning curves of a task as tables, and of all tasks as one table."""

from collections.abc import Mapping, Sequence

import numpy as np

from benchmarks import report
from benchmarks.curves import data, holding, published
from benchmarks.curves import tasks as tasks_lib
from slipway.launch.runs import curves as run_curves
from slipway.launch.runs import statistics

_ADVICE_SEPARATOR = " | "

_PAGE = """\
# Learning curves: {title}

`python -m benchmarks.curves --task={task}`: for each algorithm and seed a run
of `slipway train --config=<algorithm>:{flags}`,
workers, trainer and evaluator on the same machine. The names of other
libraries' algorithms begin with the library; they have their own tuned values
([README](../../peers/README.md)). Lines are means over the seeds, as far as all
of them have evaluations, bands the 95 % interval of the mean by the bootstrap
(Agarwal et al. 2021), which a single seed does not have; grey are the other
algorithms' means. Wall-clock counts from the command, without the evaluations
of other libraries, during which they do not learn.

![Curves]({task}.png)

{table}
{advice}
- *steps*: environment steps of all workers after which a run ended.
- *evaluations*: number of evaluations of a run, with that of the untrained
  policy. They come per second, so a faster run has fewer.
- *final return*: mean of a run's evaluations in the last tenth of its
  environment steps, as a mean over the seeds, with its 95 % interval. The steps
  count until the last evaluation, which may be well before the run's end.
- *best*: highest single evaluation of a run, which is partly luck, as a mean
  over the seeds.
- *seconds*: time of a run's last evaluation, as a mean over the seeds.
- *at once*: number of runs that shared the machine.
- *commit*: the version of Slipway, or of the program that ran another library.
  Steps and presets are those of this version; today's may differ.
{held}{published}
Every evaluation is in [{task}/]({task}/), with the commit, the flags, the
machine and the versions that it was made with.
"""

_OVERVIEW = """\
# Learning curves

Final return of each algorithm on each task, as a mean over the seeds, whose
number is in brackets. The page of a task, at the head of its column, has the
curves, the intervals and the versions. An algorithm's runs may have other
numbers of environment steps than another's: each page has them.

{table}
"""


def join_advice(line: str, advice: Sequence[str]) -> str:
  """Adds advice of a run to that of others, as one line of a file's head.

  Args:
    line: the line until now; "": there was no advice.
    advice: sentences that the run gave; those of the line are left out.
  """
  sentences = line.split(_ADVICE_SEPARATOR) if line else []
  return _ADVICE_SEPARATOR.join(dict.fromkeys([*sentences, *advice]))


def make_page(
  name: str, task: tasks_lib.Task, kept: Mapping[str, data.Saved]
) -> str:
  """Returns the page of a task, in markdown.

  Args:
    name: the task's name.
    task: the task.
    kept: saved runs by algorithm, at least one.
  """
  held = of_others = ""
  if task.target is not None:
    held = f"\n{holding.make_section(kept, task.target)}\n"
  if task.published:
    of_others = f"\n{published.make_section(kept, task.published)}\n"
  return _PAGE.format(
    title=task.title,
    task=name,
    flags=" ".join((task.preset, *task.flags)),
    table=_make_table(kept),
    advice=_list_advice(kept),
    held=held,
    published=of_others,
  )


def make_overview(kept: Mapping[str, Mapping[str, data.Saved]]) -> str:
  """Returns the page with the final returns of all tasks, in markdown.

  Args:
    kept: saved runs by task, and by algorithm.
  """
  algorithms = sorted({name for of_task in kept.values() for name in of_task})
  rows = []
  for algorithm in algorithms:
    row = {"algorithm": algorithm}
    for task, of_task in kept.items():
      saved = of_task.get(algorithm)
      row[f"[{tasks_lib.TASKS[task].title}]({task}.md)"] = (
        "" if saved is None else _format_final(saved.curves())
      )
    rows.append(row)
  return _OVERVIEW.format(table=report.make_table(rows))


def _format_final(curves: Sequence[data.Curve]) -> str:
  """Returns the mean final return over the seeds, and their number."""
  return f"{_final_returns(curves).mean():,.1f} ({len(curves)})"


def _final_returns(curves: Sequence[data.Curve]) -> np.ndarray:
  """Returns the final return of each seed, [R] of R seeds."""
  return np.array(
    [run_curves.final_return(x.env_steps, x.eval_return) for x in curves]
  )


def _make_table(kept: Mapping[str, data.Saved]) -> str:
  """Returns a markdown table with one row per algorithm."""
  rows = []
  for name, saved in kept.items():
    head, curves = saved.head, saved.curves()
    counts = sorted({len(curve.eval_return) for curve in curves})
    final = _final_returns(curves)
    best = np.array([curve.eval_return.max() for curve in curves])
    seconds = np.mean([curve.wall_s[-1] for curve in curves])
    bounds = statistics.interval(statistics.mean, final)
    if interval := statistics.format_interval(bounds, ",.1f"):
      interval = f" ({interval})"
    rows.append(
      {
        "algorithm": name,
        "seeds": len(curves),
        "steps": f"{int(head['steps']):,}",
        "evaluations": " to ".join(
          map(str, dict.fromkeys((counts[0], counts[-1])))
        ),
        "final return": f"{final.mean():,.1f}{interval}",
        "best": f"{best.mean():,.1f}",
        "seconds": f"{seconds:,.0f}",
        "at once": head["runs at once"],
        "commit": head["commit"],
      }
    )
  return report.make_table(rows)


def _list_advice(kept: Mapping[str, data.Saved]) -> str:
  """Returns a list of the advice that the runs of each algorithm gave."""
  lines = [
    f"- {name}: {sentence}"
    for name, saved in kept.items()
    for sentence in saved.head.get("advice", "").split(_ADVICE_SEPARATOR)
    if sentence
  ]
  if not lines:
    return ""
  return "\nRuns gave this advice:\n\n" + "\n".join(lines) + "\n"
