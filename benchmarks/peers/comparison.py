"""Comparison: the report of medians, ratios and goals of measured rounds."""

import math
import pathlib
from collections.abc import Mapping, Sequence

from benchmarks import partial_results, report
from benchmarks.peers import entries, goals, medians, picture, rounds
from benchmarks.peers.common import continuous

_TITLES = {
  "cartpole": "DQN on CartPole: Slipway and other libraries",
  "lunarlander": "DQN on LunarLander: Slipway and other libraries",
  "pong": "DQN on Pong: Slipway and other libraries",
  "ppo_cartpole": "PPO on CartPole: Slipway and other libraries",
  "ppo_lunarlander": "PPO on LunarLander: Slipway and other libraries",
  "ppo_halfcheetah": "PPO on HalfCheetah: Slipway and other libraries",
  "ppo_pong": "PPO on Pong: Slipway and other libraries",
  "appo_cartpole": "Asynchronous PPO on CartPole: Slipway and Sample Factory",
  "sac_halfcheetah": "SAC on HalfCheetah: Slipway and other libraries",
  "td3_halfcheetah": "TD3 on HalfCheetah: Slipway and other libraries",
  "sac_lunarlander": "SAC on LunarLander: Slipway and other libraries",
  "sac_pendulum": "SAC on Pendulum: Slipway and other libraries",
  "d4pg_pendulum": "D4PG on Pendulum: Slipway and Acme",
}

_SPEED = """\
Speed: each library does the same work, which [README.md](../peers/README.md)
describes. Its counts are measured for {window_s:.0f} s, from 3 s after it has
begun to learn. CPU seconds and memory (PSS) are those of all its processes.
"Slipway / it" is the median, over the rounds, of Slipway's rate divided by the
library's, with the same kind of replay or rollouts."""

_LEARNING = """\
Learning: seconds from the command, start-up included, until the mean return of
20 episodes, of training or of a greedy evaluation, reaches {target:g}{row}.
A peer's evaluations are not counted. The limit is {cap_s:.0f} s."""

_STEPS = """\
Learning: seconds from the command, start-up included, until {steps:,}
environment steps, and the mean return of the last 20 training episodes then,
whose actions are drawn from the policy. The limit is {cap_s:.0f} s."""


def measure(
  task: str,
  folders: tuple[str, ...],
  seeds: int,
  in_a_row: int,
  head: Mapping[str, str],
  folder: pathlib.Path,
) -> report.Report:
  """Measures Slipway and peers on a task, and writes page and picture.

  Args:
    task: a name from `entries.TASKS`.
    folders: the peers' names from `entries.FOLDERS`.
    seeds: number of rounds.
    in_a_row: evaluations in a row that must reach the target.
    head: description of the machine, by name.
    folder: folder in which the picture is saved.

  Returns:
    The report of the comparison.
  """
  chosen = entries.select(folders)
  name = _page_name(task, in_a_row)
  with partial_results.PartialResults(folder, name) as partial:
    raw = rounds.run(task, chosen, seeds, partial, in_a_row)
    picture.draw(task, raw, folder / f"{name}.png")
    comparison = compare(task, raw, in_a_row)
    comparison.write(folder, head)
  return comparison


def compare(
  task: str, raw: Sequence[report.Row], in_a_row: int = 1
) -> report.Report:
  """Makes the report of a task's measurements.

  Args:
    task: a name from `entries.TASKS`.
    raw: rows of measurements, from `rounds.run`.
    in_a_row: evaluations in a row that had to reach the target.
  """
  count = max(row["repetition"] for row in raw)
  method = [
    f"{count} round{'s' * (count > 1)} of all libraries, one after the other, "
    "each in fresh processes and alone."
  ]
  if _has_speed(raw):
    method.append(_SPEED.format(window_s=entries.WINDOWS_S[task]))
  if task in entries.TARGETS:
    method.append(
      _LEARNING.format(
        target=entries.TARGETS[task],
        cap_s=entries.CAPS_S[task],
        row=f" {in_a_row} times in a row" if in_a_row > 1 else "",
      )
    )
  if task in entries.STEPS:
    method.append(
      _STEPS.format(steps=entries.STEPS[task], cap_s=entries.CAPS_S[task])
    )
  measured = medians.entry_names(raw)
  releases = dict.fromkeys(
    entries.get_release(entry.folder)
    for entry in entries.PEERS
    if entry.name in measured
  )
  if releases:
    method.append(f"Releases: {', '.join(releases)}.")
  page = _page_name(task, in_a_row)
  method.append(f"![Speed and learning of all libraries]({page}.png)")
  return report.Report(
    name=page,
    title=_TITLES[task],
    method="\n\n".join(method),
    raw=raw,
    medians=[_medians(task, raw, name) for name in measured],
    goals=[
      *(goals.of_speed(task, raw) if _has_speed(raw) else []),
      *goals.of_learning(task, raw),
    ],
  )


def _page_name(task: str, in_a_row: int) -> str:
  """Returns the name of a task's page, of its table and of its picture."""
  return f"peers_{task}_in_a_row" if in_a_row > 1 else f"peers_{task}"


def _has_speed(raw: Sequence[report.Row]) -> bool:
  """Returns whether speed was measured."""
  return any(row["measured"] == "speed" for row in raw)


def _medians(task: str, raw: Sequence[report.Row], name: str) -> report.Row:
  """Returns an entry's row of the report, by title of the column."""
  found: dict[str, object] = {"library": name}
  is_peer = any(entry.name == name for entry in entries.PEERS)
  if _has_speed(raw):
    for title, column in (
      ("steps/s", "env_steps_per_s"),
      ("updates/s", "updates_per_s"),
      ("steps/CPU s", "env_steps_per_cpu_s"),
      ("cores", "cores"),
      ("MiB", "memory_mib"),
    ):
      found[title] = medians.median(raw, name, column)
    ratios = [
      ("Slipway / it, per second", "env_steps_per_s"),
      ("Slipway / it, per CPU second", "env_steps_per_cpu_s"),
    ]
    if task in continuous.TASKS:  # which the updates limit
      ratios.insert(0, ("Slipway / it, updates/s", "updates_per_s"))
    for title, column in ratios:
      found[title] = medians.ratio(raw, name, column) if is_peer else None
  if task in entries.CAPS_S:
    mine = [
      row
      for row in raw
      if row["entry"] == name and row["measured"] == "learning"
    ]
    median_s = medians.median_seconds(raw, name)
    cap = f">{entries.CAPS_S[task]:.0f}"
    until = "the target" if task in entries.TARGETS else "the last step"
    found[f"median s to {until}"] = cap if median_s == math.inf else median_s
    if task in entries.STEPS:
      found["median return"] = medians.median(raw, name, "mean_return")
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
