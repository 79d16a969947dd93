"""Examination: the findings about a run, from its folder and its environment.

```python
for finding in examination.examine("runs/first"):
  print(finding.severity, finding.name, finding.sentence)
```
"""

import math
import os
from collections.abc import Iterator

import numpy as np

from slipway.configs import base
from slipway.environments import hanging, probe_layers, random_play, user_code
from slipway.launch.api import running
from slipway.launch.diagnosis import finding, table
from slipway.launch.runs import (
  curves,
  events,
  run_folder,
  run_status,
  user_modules,
)

_LAST_PART = 0.25  # of a run's metrics, whose medians are examined


def examine(
  path: str | os.PathLike[str], trust: bool = False, play: bool = True
) -> list[finding.Finding]:
  """Returns facts about a run, and the findings, the worst first.

  Args:
    path: path of the folder of a run that is active or has ended.
    trust: whether another user may have written the folder's files.
    play: whether to play the run's environment for some seconds, in this
      process.

  Raises:
    ValueError: the folder is not a run's, its files can't be read, or the run
      has neither findings nor results yet.
  """
  folder = run_folder.RunFolder.open(path, trust)
  config = folder.read_config()
  _, status, _ = running.read_state(folder)
  status = status or run_status.RunStatus()
  probe, faults = None, {}
  if play and not config.environment.external:
    user_modules.prefer_recorded(folder, config)
    try:
      with hanging.detect_hanging(config.environment.step_timeout_s):
        probe = random_play.play(config.environment)
        faults = probe_layers.find_faults(config.environment, probe)
    except Exception as error:  # of the user's code, of any type
      faults["environment"] = f"it can't be played: {user_code.describe(error)}"
  rows = curves.read_evaluations(folder.curves_csv)
  rows = {name: x[-base.RETURNS_KEPT :].tolist() for name, x in rows.items()}
  evidence = finding.Evidence(
    config,
    status,
    _read_metrics(folder, status),
    rows["eval_return"],
    rows["eval_length"],
    probe,
    faults,
  )
  found = table.find(evidence)
  if not (found or status.trainer_steps):
    raise ValueError(
      f"run {str(folder.path)!r} has made no update, so it can't be judged yet"
    )
  return [*_describe(evidence), *found]


def _read_metrics(
  folder: run_folder.RunFolder, status: run_status.RunStatus
) -> dict[str, float | None]:
  """Returns medians of the last part of the learner's metrics, by name."""
  # What is not finite in the newest status is None.
  metrics = dict(status.learner)
  for name, values in events.read_scalars(folder.events).items():
    name = name.removeprefix("learner/")
    if metrics.get(name) is not None:
      last = values[-math.ceil(_LAST_PART * len(values)) :]
      metrics[name] = float(np.median(last))
  return metrics


def _describe(e: finding.Evidence) -> Iterator[finding.Finding]:
  """Yields facts: what the run has done, what binds it, and its returns."""
  status, replay = e.status, e.status.replay
  text = (
    f"{status.phase}: {status.env_steps:,} environment steps and "
    f"{status.trainer_steps:,} updates"
  )
  if (rate := status.rates.mean_env_steps_per_s) and e.probe is not None:
    share = rate * e.probe.step_s
    text += f"; stepping environments takes {share:.0%} of one core"
  yield finding.ok("progress", text)
  if replay is not None and replay.samples_per_insert_target:
    is_waiting = status.phase == "running" and status.waiting
    yield finding.ok(
      "rates",
      f"{replay.samples_per_insert:.3g} samples per insert, of "
      f"{replay.samples_per_insert_target:g}: "
      + (is_waiting or "the slower of workers and trainer binds the other"),
    )
  if e.returns and e.probe is not None and e.probe.returns:
    yield finding.ok(
      "returns",
      f"{np.mean(e.probe.returns):,.4g} of random play, {e.returns[-1]:,.4g} "
      "of the last evaluation" + ", the target" * e.is_solved,
    )
