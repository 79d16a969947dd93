"""Trainer: runs a learner's updates, and publishes its variables."""

import time

import ml_collections
import numpy as np

from slipway.agents import core
from slipway.agents.updates import core as updates_core
from slipway.launch.control import limits, messages, waits
from slipway.launch.control import rates as rates_lib
from slipway.launch.nodes import ports

# The default command: train without limits.
_RUN = messages.Command()


class Trainer:
  """Runs a learner's updates when they are due, and publishes its variables.

  The class is the same in every mode; only its ports differ (`ports`).

  Attributes:
    version: newest version of the variables that the trainer has published.
  """

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    rates: rates_lib.Rates,
    learner: core.Learner,
    updates: updates_core.Updates,
    variables: ports.VariablesSink,
    version: int | None = None,
  ):
    """Publishes the learner's variables, and traces its update.

    Args:
      learner: the learner, with its state restored.
      updates: the learner's updates and their source of batches.
      variables: publisher of the learner's variables.
      version: version under which the learner's variables are published
        already, or None to publish them now.
    """
    self._rates, self._learner, self._updates = rates, learner, updates
    self._variables = variables
    # Updates that are left in the trainer's phase of a round; at 0, the
    # workers' phase begins. Unused without rounds.
    self._updates_left = 0
    self._steps = self._started_at = int(learner.steps)
    self._limit = limits.last_trainer_step(config.limits)  # 0 if there is none
    self._metrics: dict[str, float | None] = {}  # of the last update
    self._first_step_at_s: float | None = None  # unix
    self._waiting_since_s: float | None = time.monotonic()
    is_recorded = core.is_recorded(config)
    self._wait_reason = waits.RECORDED if is_recorded else waits.TRANSITIONS
    self.version = self._publish() if version is None else version
    updates.trace()  # while workers start and collect with what is published

  @property
  def steps(self) -> int:
    """Number of trainer steps of the run so far, also before it was resumed."""
    return self._steps

  @property
  def waits_for_round(self) -> bool:
    """Whether it is the workers' phase of a round, so no update may run.

    It is always False in runs without rounds.
    """
    return self._rates.in_rounds and self._updates_left == 0

  def step(self, command: messages.Command = _RUN) -> int:
    """Runs one call of the learner's updates, if any update is due.

    It also publishes the variables when that is due.

    Args:
      command: the control's newest command.

    Returns:
      The number of trainer steps of the run so far.
    """
    if command.trainer_steps_limit is not None:
      self._limit = command.trainer_steps_limit
    if command.paused:
      self._waiting_since_s = None
    elif updates := self._next_updates(command):
      self._update(updates)
    return self._steps

  def close(self) -> None:
    """Closes the connections to the variables and the batches."""
    self._variables.close()
    self._updates.close()

  def report(self) -> messages.TrainerReport:
    """Returns the trainer's counts and metrics, for the control.

    The caller adds the counts of tables and snapshots.
    """
    return messages.TrainerReport(
      trainer_steps=self._steps,
      first_step_at_s=self._first_step_at_s,
      variables_version=self.version,
      wait=waits.since(self._wait_reason, self._waiting_since_s),
      metrics=self._metrics,
    )

  def _next_updates(self, command: messages.Command) -> int:
    """Returns the number of updates to run next, or 0 if none is due."""
    updates = self._rates.updates_per_call
    if self._limit:
      updates = max(0, min(updates, self._limit - self._steps))
    if not self._rates.in_rounds:
      return updates
    if self.waits_for_round and command.collected_version >= self.version:
      granted = self._rates.updates_of_round(self._updates.statuses())
      if granted:
        if self._rates.rounds_are_whole(command.workers):
          # Otherwise each later batch would have some of them.
          self._updates.drop_rest()
        self._updates_left = granted
      else:
        # No update is due yet. A new version, with the same variables, makes
        # the workers collect another round.
        self.version = self._publish()
    return min(updates, self._updates_left)

  def _update(self, updates: int) -> None:
    """Runs updates in one call, and publishes the variables if that is due."""
    last = self._updates.run(updates)
    before, self._steps = self._steps, int(self._learner.steps)
    # Also without a result, a call may have made some updates.
    period = self._rates.publish_period
    is_due = self._steps // period > before // period
    if self._rates.in_rounds:
      self._updates_left -= self._steps - before
      is_due = self._updates_left <= 0 and self._steps > before
    if last is None:
      self._waiting_since_s = self._waiting_since_s or time.monotonic()
      # Updates that have no batch any more are made in the next round.
      if self._rates.in_rounds:
        granted = self._rates.updates_of_round(self._updates.statuses())
        self._updates_left = min(self._updates_left, granted)
    else:
      self._metrics = {
        **last.metrics,
        **_measure_ages(last.versions, self.version),
      }
      self._waiting_since_s = None
    if self._steps > self._started_at:
      self._first_step_at_s = self._first_step_at_s or time.time()
    if is_due:
      self.version = self._publish()

  def _publish(self) -> int:
    """Publishes the learner's variables; returns the newest version."""
    return self._variables.publish(self._learner.get_variables())


def _measure_ages(versions: np.ndarray | None, newest: int) -> dict[str, float]:
  """Returns by how many versions a batch's policies lag, mean and maximum."""
  # A version is published every `variables.publish_period` trainer steps, or
  # after each call of the learner's updates if one call runs more steps.
  if versions is None:
    return {}
  return {
    "policy_age_versions_mean": newest - float(versions.mean()),
    "policy_age_versions_max": float(newest - versions.min()),
  }
