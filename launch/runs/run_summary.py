"""RunSummary: a run's last counts and mean rates, in summary.json."""

import msgspec

from slipway.launch.runs import error_text, run_folder, run_status, scalars


class RunSummary(msgspec.Struct, frozen=True):
  """The content of summary.json: a run's last counts and mean rates.

  Rates are means since the first update, or since the first update after a
  resume. So steps that only fill the replay do not count. Rates are null for a
  run without an update. Fields that are not listed here have the same name and
  meaning in `RunStatus`.

  Attributes:
    eval_return: mean return of the last evaluation.
    eval_episodes: number of episodes of the last evaluation.
    recent_eval_return: mean of the last 10 evaluations' mean returns.
    best_eval_return: highest mean return of an evaluation, from a repetition
      with other episodes.
    eval_info: mean of each number that `evaluation.info` names, of the last
      evaluation.
    samples_per_insert: measured samples per inserted item, or null without a
      table.
    variables_age_s: mean seconds since the workers' variables were published.
    items_confirmed: items that the server has confirmed.
    items_lost: items lost with a broken stream or a dead process.
    items_discarded: items that a table no longer accepted at the run's end.
    snapshots: number of the newest snapshot.
    last_snapshot_late: whether the run's last snapshot was abandoned, since it
      took too long.
    snapshots_uploaded: number of the newest uploaded snapshot, or null if there
      is none.
    snapshot_upload_failures: number of failed uploads of snapshots.
    env_steps_per_s: environment steps per second since the first update.
    trainer_steps_per_s: updates per second since the first update.
    trainer_steps_per_env_step: the replay ratio: updates per environment step.
  """

  mode: str
  eval_return: float | None
  eval_episodes: int
  recent_eval_return: float | None
  best_eval_return: float | None
  env_steps: int
  episodes: int
  trainer_steps: int
  wall_s: float
  start_up_s: float | None
  samples_per_insert: float | None
  variables_age_s: float | None
  items_confirmed: int
  items_lost: int
  items_discarded: int
  reconnects: int
  restarts: int
  node_restarts: dict[str, int]
  resumes: int
  snapshots: int
  snapshot_upload_failures: int
  stopped_because: str | None
  env_steps_per_s: float | None
  trainer_steps_per_s: float | None
  trainer_steps_per_env_step: float | None
  # Runs of before these fields have none of them.
  advice: list[str] = []
  last_snapshot_late: bool = False
  eval_info: dict[str, float] = {}
  snapshots_uploaded: int | None = None

  @property
  def ended_before_first_update(self) -> bool:
    """Whether the time limit ended the run before it had learned anything."""
    return self.stopped_because == "wall_clock_s" and not self.trainer_steps

  @classmethod
  def read(cls, folder: run_folder.RunFolder) -> "RunSummary":
    """Reads a run's summary.json.

    Raises:
      FileNotFoundError: there is no such file, since the run has not ended.
      ValueError: the file can't be read, or has no valid content.
    """
    try:
      return msgspec.json.decode(folder.summary.read_bytes(), type=cls)
    except FileNotFoundError:
      raise
    except (OSError, ValueError, RecursionError) as error:
      text = error_text.one_line(error)
      raise ValueError(
        f"{str(folder.summary)!r} can't be read ({text}), so the run's results "
        "are unknown: restore the file, or remove it; a resumed run writes a "
        "new one at its end"
      ) from error

  @classmethod
  def from_status(cls, status: run_status.RunStatus) -> "RunSummary":
    """Returns the summary of a run, from its last status."""
    env_steps, trainer_steps, wall_s = scalars.count_since_first_update(status)
    return cls(
      mode=status.mode,
      eval_return=status.evaluation.mean_return,
      eval_episodes=status.evaluation.episodes,
      recent_eval_return=status.evaluation.recent_mean_return,
      best_eval_return=status.evaluation.best_mean_return,
      env_steps=status.env_steps,
      episodes=status.episodes,
      trainer_steps=status.trainer_steps,
      wall_s=status.wall_s,
      start_up_s=status.start_up_s,
      samples_per_insert=status.replay and status.replay.samples_per_insert,
      variables_age_s=status.variables.mean_age_s,
      items_confirmed=status.items.confirmed,
      items_lost=status.items.lost,
      items_discarded=status.items.discarded,
      reconnects=status.reconnects,
      restarts=status.restarts,
      node_restarts=status.node_restarts,
      resumes=status.resumes,
      snapshots=status.snapshots.written,
      snapshot_upload_failures=status.snapshots.upload_failures,
      stopped_because=status.stopped_because,
      env_steps_per_s=scalars.ratio(env_steps, wall_s),
      trainer_steps_per_s=scalars.ratio(trainer_steps, wall_s),
      trainer_steps_per_env_step=scalars.ratio(trainer_steps, env_steps),
      advice=status.advice,
      last_snapshot_late=status.snapshots.late,
      eval_info=status.evaluation.info,
      snapshots_uploaded=status.snapshots.uploaded,
    )
