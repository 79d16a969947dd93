"""MlflowRun: a hook that logs a run to MLflow.

MLflow's environment variables configure it: MLFLOW_TRACKING_URI, by default the
folder mlruns/ of the working directory, and MLFLOW_EXPERIMENT_NAME.
"""

import os
import time
import typing

from slipway.launch.hooks import event as event_lib

# Name of the file in the run's folder with the id of the MLflow run, which a
# resumed run continues.
_RUN_ID_FILE = "mlflow_run_id"
# Name of the MLflow experiment, unless MLFLOW_EXPERIMENT_NAME is set.
_DEFAULT_EXPERIMENT = "slipway"
# Characters of a config value that are logged; every MLflow server accepts so
# many in a parameter.
_MAX_VALUE_LENGTH = 500


class MlflowRun:
  """A hook that logs the config and each evaluation's metrics to MLflow."""

  def __init__(self):
    """Imports MLflow, and makes a client of its tracking server."""
    import mlflow  # pyright: ignore[reportMissingImports]
    from mlflow import entities  # pyright: ignore[reportMissingImports]

    self._client, self._entities = mlflow.MlflowClient(), entities
    self._id: str | None = None

  def __call__(self, event: event_lib.Event) -> None:
    """Logs an event: metrics at an evaluation, also the outcome at the end."""
    if self._id is None:
      self._id = self._continue_or_create_run(event)
    if event.name in ("evaluation", "end"):
      now_ms, step = int(1_000 * time.time()), event.status.env_steps
      self._client.log_batch(
        self._id,
        metrics=[
          self._entities.Metric(name, value, now_ms, step)
          for name, value in event.metrics.items()
        ],
      )
    if event.name == "end":
      because = str(event.status.stopped_because)
      self._client.set_tag(self._id, "stopped_because", because)
      self._client.set_terminated(
        self._id, "FAILED" if event.failed else "FINISHED"
      )

  def _continue_or_create_run(self, event: event_lib.Event) -> str:
    """Continues or creates the MLflow run of a run; returns the MLflow id."""
    path = event.folder / _RUN_ID_FILE
    if path.exists():
      run_id = path.read_text(encoding="utf-8")
      self._client.update_run(run_id, status="RUNNING")
      return run_id
    run = self._client.create_run(
      self._find_or_create_experiment(), run_name=event.status.name
    )
    path.write_text(run.info.run_id, encoding="utf-8")
    self._client.log_batch(
      run.info.run_id,
      params=[
        self._entities.Param(name, str(value)[:_MAX_VALUE_LENGTH])
        for name, value in event.hyperparameters.items()
      ],
    )
    return run.info.run_id

  def _find_or_create_experiment(self) -> typing.Any:
    """Returns the id of the MLflow experiment, which is created if missing."""
    name = os.environ.get("MLFLOW_EXPERIMENT_NAME", _DEFAULT_EXPERIMENT)
    found = self._client.get_experiment_by_name(name)
    if found is not None:
      return found.experiment_id
    return self._client.create_experiment(name)
