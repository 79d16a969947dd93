"""WandbRun: a hook that logs a run to Weights & Biases (W&B).

W&B's environment variables configure it: WANDB_API_KEY, WANDB_PROJECT,
WANDB_ENTITY, and WANDB_MODE=offline for a machine without network.
"""

import secrets
import typing

from slipway.launch.hooks import event as event_lib

# Name of the metric that is the x axis of W&B's charts.
_STEP_METRIC = "run/env_steps"
# Name of the file in the run's folder with the id of the W&B run, which a
# resumed run continues.
_RUN_ID_FILE = "wandb_run_id"


class WandbRun:
  """A hook that logs the config and each evaluation's metrics to W&B."""

  def __init__(self):
    """Imports W&B's package."""
    import wandb  # pyright: ignore[reportMissingImports]

    self._wandb = wandb
    self._run: typing.Any = None

  def __call__(self, event: event_lib.Event) -> None:
    """Logs an event: metrics at an evaluation, also the outcome at the end."""
    if self._run is None:
      self._run = self._continue_or_create_run(event)
    if event.name in ("evaluation", "end"):
      self._run.log(event.metrics)
    if event.name == "end":
      self._run.summary["stopped_because"] = event.status.stopped_because
      self._run.finish(exit_code=int(event.failed))
      # Waits until W&B's own process is done: it dies with this process.
      self._wandb.teardown()

  def _continue_or_create_run(self, event: event_lib.Event) -> typing.Any:
    """Continues or creates the W&B run of a run; returns a `wandb` run."""
    path = event.folder / _RUN_ID_FILE
    if not path.exists():
      path.write_text(secrets.token_hex(8), encoding="utf-8")
    run = self._wandb.init(
      id=path.read_text(encoding="utf-8"),
      resume="allow",
      name=event.status.name,
      dir=event.folder,
      config=event.hyperparameters,
      # W&B must not replace the standard streams of this process.
      settings=self._wandb.Settings(console="off", silent=True),
    )
    run.define_metric(_STEP_METRIC)
    run.define_metric("*", step_metric=_STEP_METRIC)
    return run
