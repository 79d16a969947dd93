"""Examination: the findings about a run, from its folder and its environment.

```python
for finding in examination.examine("runs/first").findings:
  print(finding.severity, finding.name, finding.sentence)
```
"""

import contextlib
import math
import os
import typing
from collections.abc import Sequence

import ml_collections
import msgspec
import numpy as np

from slipway.configs import base
from slipway.environments import hanging, random_play, user_code
from slipway.launch.api import running
from slipway.launch.control import limits
from slipway.launch.diagnosis import finding, table
from slipway.launch.runs import (
  curves,
  events,
  run_counters,
  run_folder,
  run_status,
  snapshot_store,
  user_modules,
)

# Part of a run's metrics whose medians are examined: the last ones.
_LAST_PART = 0.25


class Examination(msgspec.Struct, frozen=True):
  """What is known about a run.

  Attributes:
    run: path of the run's folder.
    facts: sentences about the run that are no findings.
    findings: the findings, the worst first.
    can_be_judged: whether the run has made updates, or has a finding.
  """

  run: str
  facts: list[str]
  findings: list[finding.Finding]
  can_be_judged: bool


def examine(
  path: str | os.PathLike[str], trust: bool = False, play: bool = True
) -> Examination:
  """Examines a run that is active or has ended.

  Args:
    path: path of the run's folder.
    trust: whether another user may have written the folder's files.
    play: whether to play the run's environment for some seconds, in this
      process.

  Raises:
    ValueError: the folder is not a run's, or its files can't be read.
  """
  folder = run_folder.RunFolder.open(path, trust)
  config = folder.read_config()
  status = _read_status(folder)
  probe, failures = None, []
  if play and not config.environment.external:
    user_modules.prefer_recorded(folder, config)
    try:
      with hanging.detect_hanging(config.environment.step_timeout_s):
        probe = random_play.play(config.environment, examine_layers=True)
    except Exception as error:  # of the user's code, of any type
      text = user_code.describe(error)
      sentence = f"the environment can't be played: {text}"
      failures = [finding.Finding("environment", finding.PROBLEM, sentence)]
  evidence = _collect(folder, config, status, probe)
  found = [*failures, *table.find(evidence)]
  has_learned = status is not None and status.trainer_steps > 0
  return Examination(
    str(folder.path),
    list(_describe(evidence)),
    found,
    bool(found) or has_learned,
  )


def _read_status(folder: run_folder.RunFolder) -> run_status.RunStatus | None:
  """Returns the newest status of a run, or None if there is none."""
  with contextlib.suppress(running.RunUnavailableError):
    if not running.has_ended(folder):
      with running.connect(folder) as control:
        return control.status()
  with contextlib.suppress(FileNotFoundError):
    return run_status.read_summary(folder)
  newest = snapshot_store.SnapshotStore(folder).newest()  # it was killed
  return run_counters.RunCounters.read(newest.path).status if newest else None


def _collect(
  folder: run_folder.RunFolder,
  config: ml_collections.ConfigDict,
  status: run_status.RunStatus | None,
  probe: random_play.Probe | None,
) -> finding.Evidence:
  """Returns the evidence about a run."""
  rows = curves.read_evaluations(folder.curves_csv)
  rows = {name: x[-base.RETURNS_KEPT :].tolist() for name, x in rows.items()}
  returns = rows["eval_return"]
  metrics: dict[str, float | None] = {**_read_medians(folder)}
  for name, value in (status.learner if status else {}).items():
    # In a status, what is not finite is None.
    metrics[name] = math.nan if value is None else metrics.get(name, value)
  return finding.Evidence(
    config,
    metrics,
    returns,
    rows["eval_length"],
    info=status.evaluation.info if status and returns else None,
    training_return=status.training_return if status else None,
    is_solved=limits.count_at_targets(config.limits, returns, [])[0] > 0,
    status=status,
    probe=probe,
  )


def _read_medians(folder: run_folder.RunFolder) -> dict[str, float]:
  """Returns medians of the last part of the learner's metrics, by name."""
  return {
    name.removeprefix("learner/"): float(
      np.median(values[-math.ceil(_LAST_PART * len(values)) :])
    )
    for name, values in events.read_scalars(folder.events).items()
    if name.startswith("learner/")
  }


def _describe(e: finding.Evidence) -> typing.Iterator[str]:
  """Yields sentences about what binds the run, and what it has reached."""
  status, probe = e.status, e.probe
  if status is None:
    yield "the run has no status yet: it has not started, or was killed early"
    return
  text = (
    f"{status.phase}: {status.env_steps:,} environment steps and "
    f"{status.trainer_steps:,} updates"
  )
  rate = status.rates.mean_env_steps_per_s
  if rate and probe is not None:
    share = rate * probe.step_s
    text += f"; stepping environments takes {share:.0%} of one core"
  yield text
  if status.replay is not None and status.replay.samples_per_insert_target:
    is_waiting = status.phase == "running" and status.waiting
    yield (
      f"{status.replay.samples_per_insert:.3g} samples per insert, of "
      f"{status.replay.samples_per_insert_target:g}: "
      + (is_waiting or "the slower of workers and trainer binds the other")
    )
  if e.returns and probe is not None and probe.returns:
    yield (
      f"mean return of random play: {np.mean(probe.returns):,.4g}; of the last "
      f"evaluation: {e.returns[-1]:,.4g}" + ", the target" * e.is_solved
    )


def count(findings: Sequence[finding.Finding]) -> str:
  """Returns a text such as '2 findings', or 'no findings'."""
  number = len(findings) or "no"
  return f"{number} finding{'s' * (len(findings) != 1)}"
