"""Event: the argument with which a hook is called."""

import dataclasses
import math
import pathlib
import typing

import ml_collections

from slipway.configs import fields
from slipway.launch.runs import run_status, scalars

# Names of the events.
Name = typing.Literal["start", "evaluation", "snapshot", "end"]
# Type of a hook: a function that takes an event, and whose result is ignored.
Hook = typing.Callable[["Event"], typing.Any]


@dataclasses.dataclass(frozen=True)
class Event:
  """An event of a run: its start, an evaluation, a snapshot or its end.

  ```python
  def notify(event):
    if event.name == "evaluation":
      print(event.status.evaluation.mean_return, event.metrics)
  ```

  Attributes:
    name: 'start' (also of a resume), 'evaluation', 'snapshot' or 'end'.
    status: the run's status at that moment.
    folder: the run's folder.
    config: the whole config, read-only.
  """

  name: Name
  status: run_status.RunStatus
  folder: pathlib.Path
  config: ml_collections.ConfigDict

  @property
  def metrics(self) -> dict[str, float]:
    """Finite metrics of the run's status, by their names in TensorBoard."""
    evaluation = self.status.evaluation
    values = {
      "progress/environment_steps": self.status.env_steps,
      "evaluation/count": evaluation.count,
      "evaluation/mean_return": evaluation.mean_return,
      "evaluation/recent_mean_return": evaluation.recent_mean_return,
      "evaluation/best_mean_return": evaluation.best_mean_return,
      "evaluation/episodes": evaluation.episodes,
      **scalars.from_info(evaluation.info),
      **scalars.from_status(self.status),
    }
    return {
      name: value
      for name, value in values.items()
      if isinstance(value, int | float) and math.isfinite(value)
    }

  @property
  def hyperparameters(self) -> dict[str, typing.Any]:
    """All values of the config, by dotted field name."""
    return fields.flatten(ml_collections.ConfigDict(self.config))

  @property
  def failed(self) -> bool:
    """Whether a failure, or the loss of the launcher, ended the run."""
    return self.status.stopped_because == "failure"
