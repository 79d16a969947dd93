"""Event: the argument with which a hook is called."""

import dataclasses
import pathlib
import typing

import ml_collections

from slipway.configs import fields
from slipway.launch.runs import run_status

# Reason of a stop by a hook, or what it begins with.
HOOK_STOP = "a hook stopped it"
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
      if event.status.evaluation.info.get("success", 0.0) >= 0.9:
        event.stop("it succeeds")
  ```

  Attributes:
    name: 'start' (also of a resume), 'evaluation', 'snapshot' or 'end'.
    status: the run's status at that moment.
    folder: the run's folder.
    config: the whole config, read-only.
    stop_run: function that stops the run, for `stop`.
  """

  name: Name
  status: run_status.RunStatus
  folder: pathlib.Path
  config: ml_collections.ConfigDict
  stop_run: typing.Callable[[str], object]

  def stop(self, reason: str = "") -> None:
    """Stops the run, which saves and ends; has no effect once it is stopping.

    Args:
      reason: words for the user, such as 'it succeeds'.
    """
    self.stop_run(f"{HOOK_STOP}: {reason}" if reason else HOOK_STOP)

  @property
  def metrics(self) -> dict[str, float]:
    """Finite numbers of the run's status; see `RunStatus.to_numbers`."""
    return self.status.to_numbers()

  @property
  def hyperparameters(self) -> dict[str, typing.Any]:
    """All values of the config, by dotted field name."""
    return fields.flatten(ml_collections.ConfigDict(self.config))

  @property
  def failed(self) -> bool:
    """Whether a failure, or the loss of the launcher, ended the run."""
    return self.status.stopped_because == "failure"
