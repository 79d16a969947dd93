"""Comparison: the report of medians, ratios and goals of measured rounds."""

import math
import pathlib
import statistics
from collections.abc import Sequence

from benchmarks import goal as goal_lib
from benchmarks import report
from benchmarks.peers import entries, picture, rounds

# Goals for the ratio of Slipway's environment steps per second to a peer's, by
# task and by the name of the peer's entry.
SPEED_GOALS = {
  "cartpole": {
    entries.ACME_DISTRIBUTED: 8.0,
    entries.RLLIB_APEX: 8.0,
    entries.SB3_8: 1.0,
    entries.CLEANRL: 1.0,
  },
  "appo_cartpole": {entries.SAMPLE_FACTORY: 1.0},
}
PONG_GOAL = 1.5  # goal for the ratio to the best peer on Pong
_STEPS_PEER = "CleanRL, PPO"  # whose return is the goal on tasks without target

_TITLES = {
  "cartpole": "DQN on CartPole: Slipway and other libraries",
  "lunarlander": "DQN on LunarLander: Slipway and other libraries",
  "pong": "DQN on Pong: Slipway and other libraries",
  "ppo_cartpole": "PPO on CartPole: Slipway and other libraries",
  "ppo_lunarlander": "PPO on LunarLander: Slipway and other libraries",
  "ppo_halfcheetah": "PPO on HalfCheetah: Slipway and other libraries",
  "ppo_pong": "PPO on Pong: Slipway and other libraries",
  "appo_cartpole": "Asynchronous PPO on CartPole: Slipway and Sample Factory",
}

_SPEED = """\
Speed: each library does the same work, which [README.md](../peers/README.md)
describes. Its counts are measured for {window_s:.0f} s, from 3 s after it has
begun to learn. CPU seconds and memory (PSS) are those of all its processes.
"Slipway / it" is the median, over the rounds, of Slipway's rate divided by the
library's, with the same kind of replay or rollouts."""

_LEARNING = """\
Learning: seconds from the command, start-up included, until the mean return of
20 episodes, of training or of a greedy evaluation, reaches {target:g}. A peer's
evaluations are not counted. The limit is {cap_s:.0f} s."""

_STEPS = """\
Learning: seconds from the command, start-up included, until {steps:,}
environment steps, and the mean return of the last 20 training episodes then,
whose actions are drawn from the policy. The limit is {cap_s:.0f} s."""


def measure(
  task: str, folders: tuple[str, ...], seeds: int, folder: pathlib.Path
) -> report.Report:
  """Measures Slipway and peers on a task, and draws the picture.

  Args:
    task: a name from `entries.TASKS`.
    folders: the peers' names from `entries.FOLDERS`.
    seeds: number of rounds.
    folder: folder in which the picture is saved.

  Returns:
    The report of the comparison.
  """
  raw = rounds.run(task, entries.select(folders), seeds)
  comparison = compare(task, raw)
  picture.draw(task, raw, folder / f"{comparison.name}.png")
  return comparison


def compare(task: str, raw: Sequence[report.Row]) -> report.Report:
  """Makes the report of a task's measurements.

  Args:
    task: a name from `entries.TASKS`.
    raw: rows of measurements, from `rounds.run`.
  """
  count = max(row["repetition"] for row in raw)
  method = [
    f"{count} round{'s' * (count > 1)} of all libraries, one after the other, "
    "each in fresh processes and alone."
  ]
  if task in entries.WINDOWS_S:
    method.append(_SPEED.format(window_s=entries.WINDOWS_S[task]))
  if task in entries.TARGETS:
    method.append(
      _LEARNING.format(target=entries.TARGETS[task], cap_s=entries.CAPS_S[task])
    )
  if task in entries.STEPS:
    method.append(
      _STEPS.format(steps=entries.STEPS[task], cap_s=entries.CAPS_S[task])
    )
  name = f"peers_{task}"
  method.append(f"![Speed and learning of all libraries]({name}.png)")
  return report.Report(
    name=name,
    title=_TITLES[task],
    method="\n\n".join(method),
    raw=raw,
    medians=[_medians(task, raw, entry) for entry in _entry_names(raw)],
    goals=[*_speed_goals(task, raw), *_learning_goals(task, raw)],
  )


def ratio(raw: Sequence[report.Row], name: str, column: str) -> float | None:
  """Returns the ratio of Slipway's rate to a peer's, as the median of rounds.

  Args:
    raw: rows of measurements, from `rounds.run`.
    name: name of the peer's entry.
    column: column of the rate, such as 'env_steps_per_s'.

  Returns:
    The ratio; None if no round has measured both rates.
  """
  (peer,) = [entry for entry in entries.PEERS if entry.name == name]
  ours = entries.OURS[peer.compared_with].name
  rows = [row for row in raw if row[column] is not None]
  both = {row["repetition"] for row in rows if row["entry"] == ours} & {
    row["repetition"] for row in rows if row["entry"] == name
  }
  if not both:
    return None
  return report.ratio(
    [row for row in rows if row["repetition"] in both],
    column,
    {"entry": ours},
    {"entry": name},
  )


def median_seconds(raw: Sequence[report.Row], name: str) -> float | None:
  """Returns the median of the seconds in which an entry reached the target.

  Args:
    raw: rows of measurements, from `rounds.run`.
    name: name of the entry.

  Returns:
    Seconds; inf if most runs were over the limit, None if there are no runs.
  """
  values = [
    math.inf if row["seconds"] is None else row["seconds"]
    for row in raw
    if row["entry"] == name
    and row["measured"] == "learning"
    and (row["seconds"] is not None or row["note"].startswith(">"))
  ]
  return statistics.median(values) if values else None


def _entry_names(raw: Sequence[report.Row]) -> list[str]:
  """Returns the names of the measured entries, in the order of their rows."""
  return list(dict.fromkeys(row["entry"] for row in raw))


def _medians(task: str, raw: Sequence[report.Row], name: str) -> report.Row:
  """Returns an entry's row of the report, by title of the column."""
  found: dict[str, object] = {"library": name}
  is_peer = any(entry.name == name for entry in entries.PEERS)
  if task in entries.WINDOWS_S:
    for title, column in (
      ("steps/s", "env_steps_per_s"),
      ("updates/s", "updates_per_s"),
      ("steps/CPU s", "env_steps_per_cpu_s"),
      ("cores", "cores"),
      ("MiB", "memory_mib"),
    ):
      found[title] = _median(raw, name, column)
    for title, column in (
      ("Slipway / it, per second", "env_steps_per_s"),
      ("Slipway / it, per CPU second", "env_steps_per_cpu_s"),
    ):
      found[title] = ratio(raw, name, column) if is_peer else None
  if task in entries.CAPS_S:
    mine = [
      row
      for row in raw
      if row["entry"] == name and row["measured"] == "learning"
    ]
    median_s = median_seconds(raw, name)
    cap = f">{entries.CAPS_S[task]:.0f}"
    until = "the target" if task in entries.TARGETS else "the last step"
    found[f"median s to {until}"] = cap if median_s == math.inf else median_s
    if task in entries.STEPS:
      found["median return"] = _median(raw, name, "mean_return")
    found["seeds that reached it"] = (
      f"{sum(row['seconds'] is not None for row in mine)} of {len(mine)}"
      if mine
      else None
    )
  notes = [
    row["note"]
    for row in raw
    if row["entry"] == name and row["note"] and not row["note"].startswith(">")
  ]
  # One note is enough, since the CSV file has all of them.
  found["remark"] = notes[0].replace("|", "/")[:120] if notes else None
  return found


def _median(raw: Sequence[report.Row], name: str, column: str) -> float | None:
  """Returns the median of an entry's column; None if it has no values."""
  rows = [row for row in raw if row[column] is not None]
  if not any(row["entry"] == name for row in rows):
    return None
  return report.median(rows, column, entry=name)


def _speed_goals(task: str, raw: Sequence[report.Row]) -> list[str]:
  """Returns a sentence per speed goal of a task, with the measured ratio."""
  present = _entry_names(raw)
  goals = {
    name: goal
    for name, goal in SPEED_GOALS.get(task, {}).items()
    if name in present
  }
  lines = [
    _speed_goal(name, ratio(raw, name, "env_steps_per_s"), goal)
    for name, goal in goals.items()
  ]
  if task.endswith("pong"):
    ratios = {
      name: value
      for name in present
      if any(entry.name == name for entry in entries.PEERS)
      and (value := ratio(raw, name, "env_steps_per_s")) is not None
    }
    if ratios:
      best = min(ratios, key=ratios.__getitem__)
      lines.append(_speed_goal(f"the best, {best}", ratios[best], PONG_GOAL))
  return lines


def _speed_goal(name: str, value: float | None, goal: float) -> str:
  if value is None:
    return f"Ratio of Slipway's speed to that of {name}: not measured."
  return goal_lib.at_least(
    f"{value:.1f} times the environment steps per second of {name}, goal at "
    f"least {goal:g}",
    value,
    goal,
  )


def _learning_goals(task: str, raw: Sequence[report.Row]) -> list[str]:
  """Returns the sentences on the goals to learn a task before all peers."""
  if task not in entries.CAPS_S:
    return []
  ours = entries.find_learner(task).name
  mine = median_seconds(raw, ours)
  others = {
    name: value
    for name in _entry_names(raw)
    if name != ours and (value := median_seconds(raw, name)) is not None
  }
  if mine is None or not others:
    return []
  best = min(others, key=others.__getitem__)
  lines = [
    goal_lib.verdict(
      f"learned in {_format_seconds(mine)}, the fastest peer, {best}, in "
      f"{_format_seconds(others[best])}, goal to be ahead of all",
      mine < others[best],
    )
  ]
  mine = _median(raw, ours, "mean_return")
  theirs = _median(raw, _STEPS_PEER, "mean_return")
  if task in entries.STEPS and mine is not None and theirs is not None:
    lines.append(
      goal_lib.verdict(
        f"a mean return of {mine:,.0f} after {entries.STEPS[task]:,} "
        f"environment steps, that of {_STEPS_PEER}: {theirs:,.0f}, goal to be "
        "at least as high",
        mine >= theirs,
      )
    )
  return lines


def _format_seconds(value: float) -> str:
  return "no time within the limit" if value == math.inf else f"{value:.0f} s"
