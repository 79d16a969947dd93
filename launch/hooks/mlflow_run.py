"""MlflowRun: a hook that logs to MLflow.

MLflow's environment variables configure it: MLFLOW_TRACKING_URI, by default the
folder mlruns/ of the working directory, and MLFLOW_EXPERIMENT_NAME.
"""

import os
import time
import typing

from slipway.launch.hooks import event as event_lib

# File in the run's folder with MLflow's id, so that a resume continues its run.
_ID_FILE = "mlflow_run_id"
_EXPERIMENT = "slipway"
_MAX_VALUE_LENGTH = 500  # characters that every server accepts in a parameter


class MlflowRun:
  """A hook that logs the config once, and the metrics of each evaluation."""

  def __init__(self):
    """Imports MLflow and makes a client."""
    import mlflow  # pyright: ignore[reportMissingImports]
    from mlflow import entities  # pyright: ignore[reportMissingImports]

    self._client, self._entities = mlflow.MlflowClient(), entities
    self._id: str | None = None

  def __call__(self, event: event_lib.Event) -> None:
    """Logs an event to the MLflow run."""
    if self._id is None:  # also after a restart of the control node
      self._id = self._begin(event)
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

  def _begin(self, event: event_lib.Event) -> str:
    """Continues or creates the MLflow run; returns its id."""
    path = event.folder / _ID_FILE
    if path.exists():
      run_id = path.read_text(encoding="utf-8")
      self._client.update_run(run_id, status="RUNNING")
      return run_id
    run = self._client.create_run(
      self._experiment_id(), run_name=event.status.name
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

  def _experiment_id(self) -> typing.Any:
    """Returns the id of MLflow's experiment, which is made if missing."""
    name = os.environ.get("MLFLOW_EXPERIMENT_NAME", _EXPERIMENT)
    found = self._client.get_experiment_by_name(name)
    if found is not None:
      return found.experiment_id
    return self._client.create_experiment(name)
