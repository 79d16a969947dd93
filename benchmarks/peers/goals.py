"""Goals: the goals of the comparison, and whether a task reached them."""

import math
from collections.abc import Sequence

from benchmarks import goal as goal_lib
from benchmarks import report
from benchmarks.peers import entries, medians

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


def of_speed(task: str, raw: Sequence[report.Row]) -> list[str]:
  """Returns a sentence per speed goal of a task, with the measured ratio."""
  present = medians.entry_names(raw)
  goals = {
    name: goal
    for name, goal in SPEED_GOALS.get(task, {}).items()
    if name in present
  }
  lines = [
    _speed_goal(name, medians.ratio(raw, name, "env_steps_per_s"), goal)
    for name, goal in goals.items()
  ]
  if task.endswith("pong"):
    ratios = {
      name: value
      for name in present
      if any(entry.name == name for entry in entries.PEERS)
      and (value := medians.ratio(raw, name, "env_steps_per_s")) is not None
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


def of_learning(task: str, raw: Sequence[report.Row]) -> list[str]:
  """Returns the sentences on the goals to learn a task before all peers."""
  if task not in entries.CAPS_S:
    return []
  ours = entries.find_learner(task).name
  mine = medians.median_seconds(raw, ours)
  others = {
    name: value
    for name in medians.entry_names(raw)
    if name != ours and (value := medians.median_seconds(raw, name)) is not None
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
  mine = medians.median(raw, ours, "mean_return")
  theirs = medians.median(raw, _STEPS_PEER, "mean_return")
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
