"""Event: what a hook is called with."""

import dataclasses
import math
import pathlib
import typing

import ml_collections

from slipway.configs import fields
from slipway.launch.runs import run_status, scalars

Name = typing.Literal["start", "evaluation", "snapshot", "end"]
Hook = typing.Callable[["Event"], typing.Any]


@dataclasses.dataclass(frozen=True)
class Event:
  """Something that has happened in a run.

  ```python
  def notify(event):
    if event.name == "evaluation":
      print(event.status.evaluation.mean_return, event.metrics)
  ```

  Attributes:
    name: 'start' of a run or of its resume, 'evaluation', 'snapshot' or 'end'.
    status: of the run at that moment.
    folder: of the run.
    config: the whole config, read-only.
  """

  name: Name
  status: run_status.RunStatus
  folder: pathlib.Path
  config: ml_collections.FrozenConfigDict

  @property
  def metrics(self) -> dict[str, float]:
    """The known numbers of the status, by TensorBoard's names."""
    evaluation = self.status.evaluation
    found = {
      "progress/environment_steps": self.status.env_steps,
      "evaluation/count": evaluation.count,
      "evaluation/mean_return": evaluation.mean_return,
      "evaluation/best_mean_return": evaluation.best_mean_return,
      "evaluation/episodes": evaluation.episodes,
      **scalars.from_status(self.status),
    }
    return {
      name: value
      for name, value in found.items()
      if isinstance(value, int | float) and math.isfinite(value)
    }

  @property
  def hyperparameters(self) -> dict[str, typing.Any]:
    """The values of the config by dotted name."""
    return fields.flatten(ml_collections.ConfigDict(self.config))

  @property
  def failed(self) -> bool:
    """Whether a fault has ended the run."""
    return self.status.stopped_because in ("failure", "launcher_lost")
