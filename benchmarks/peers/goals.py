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
    entries.RLLIB_DISTRIBUTED: 8.0,
    entries.SB3_8: 1.0,
    entries.CLEANRL: 1.0,
  },
  "appo_cartpole": {entries.SAMPLE_FACTORY: 1.0},
  "d4pg_pendulum": {entries.ACME_D4PG: 5.0},
}
# Goals for the ratio of Slipway's updates per second to a peer's.
UPDATE_GOALS = {
  "sac_halfcheetah": {
    entries.SB3_SAC: 1.5,
    entries.SB3_SAC_4: 1.5,
    entries.SBX_SAC: 1.2,
    entries.SBX_SAC_4: 1.2,
  },
  "td3_halfcheetah": {
    entries.SB3_TD3: 1.5,
    entries.SB3_TD3_4: 1.5,
    entries.SBX_TD3: 1.2,
    entries.SBX_TD3_4: 1.2,
  },
}
# Goals for the seconds in which all of Slipway's seeds reach the target.
SECONDS_GOALS = {"sac_pendulum": 40.0}
PONG_GOAL = 1.5  # goal for the ratio to the best peer on Pong
_STEPS = "environment steps"
_STEPS_PEER = "CleanRL, PPO"  # whose return is the goal on tasks without target


def of_speed(task: str, raw: Sequence[report.Row]) -> list[str]:
  """Returns a sentence per speed goal of a task, with the measured ratio."""
  present = medians.entry_names(raw)
  lines = [
    _speed_goal(name, medians.ratio(raw, name, column), goal, unit)
    for goals, column, unit in (
      (SPEED_GOALS, "env_steps_per_s", _STEPS),
      (UPDATE_GOALS, "updates_per_s", "updates"),
    )
    for name, goal in goals.get(task, {}).items()
    if name in present
  ]
  if task.endswith("pong"):
    ratios = {
      name: value
      for name in _peer_names(raw)
      if (value := medians.ratio(raw, name, "env_steps_per_s")) is not None
    }
    if ratios:
      best = min(ratios, key=ratios.__getitem__)
      lines.append(
        _speed_goal(f"the best, {best}", ratios[best], PONG_GOAL, _STEPS)
      )
      rounded = entries.OURS["ppo_bfloat16"].name
      if rounded in present:
        lines.append(
          _speed_goal(
            f"{best}, in bfloat16",
            medians.ratio(raw, best, "env_steps_per_s", rounded),
            PONG_GOAL,
            _STEPS,
          )
        )
  return lines


def _peer_names(raw: Sequence[report.Row]) -> list[str]:
  """Returns the names of the peers' entries that have rows."""
  peers = {entry.name for entry in entries.PEERS}
  return [name for name in medians.entry_names(raw) if name in peers]


def _speed_goal(name: str, value: float | None, goal: float, unit: str) -> str:
  if value is None:
    return f"Ratio of Slipway's speed to that of {name}: not measured."
  return goal_lib.at_least(
    f"{value:.1f} times the {unit} per second of {name}, goal at least "
    f"{goal:g}",
    value,
    goal,
  )


def of_learning(task: str, raw: Sequence[report.Row]) -> list[str]:
  """Returns the sentences on the goals of the seconds to learn a task."""
  if task not in entries.CAPS_S:
    return []
  return [
    line
    for entry in entries.find_learners(task)
    for line in (
      *_all_seeds_goals(task, raw, entry.name),
      *_first_goals(task, raw, entry.name),
    )
  ]


def _all_seeds_goals(
  task: str, raw: Sequence[report.Row], ours: str
) -> list[str]:
  """Returns the sentence on the goal that each seed is fast, if there is one.

  Args:
    task: a name from `entries.TASKS`.
    raw: rows of measurements, from `rounds.run`.
    ours: name of Slipway's entry.
  """
  seconds = medians.all_seconds(raw, ours)
  if task not in SECONDS_GOALS or not seconds:
    return []
  goal_s = SECONDS_GOALS[task]
  count = sum(value <= goal_s for value in seconds)
  return [
    goal_lib.at_most(
      f"{count} of {len(seconds)} seeds learned in time, the slowest in "
      f"{_format_seconds(max(seconds))}, goal all in {goal_s:.0f} s",
      max(seconds),
      goal_s,
    )
  ]


def _first_goals(task: str, raw: Sequence[report.Row], ours: str) -> list[str]:
  """Returns the sentences on the goals to learn a task before all peers.

  Args:
    task: a name from `entries.TASKS`.
    raw: rows of measurements, from `rounds.run`.
    ours: name of Slipway's entry.
  """
  mine = medians.median_seconds(raw, ours)
  others = {
    name: value
    for name in _peer_names(raw)
    if (value := medians.median_seconds(raw, name)) is not None
  }
  if mine is None or not others:
    return []
  best = min(others, key=others.__getitem__)
  lines = [
    goal_lib.verdict(
      f"{ours} learned in {_format_seconds(mine)}, the fastest peer, {best}, "
      f"in {_format_seconds(others[best])}, goal to be ahead of all",
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
