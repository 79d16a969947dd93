"""Worker: steps environments with the newest policy, and writes items."""

import time
import typing
from collections.abc import Mapping

import ml_collections
from absl import logging
from acme import specs

from slipway.agents import core
from slipway.environments import vector
from slipway.launch.control import messages, waits
from slipway.launch.control import rates as rates_lib
from slipway.launch.nodes import collector, ports, throttle
from slipway.launch.runs import run_status

_MAX_WAIT_S = 0.2  # longest wait in seconds before the next command is read
_CLOSE_TIMEOUT_S = 2.0  # seconds that `close` waits for items in flight
# Seconds after which a wait for the table is logged. Shorter waits are normal
# with a limiter.
_LOG_AFTER_S = 1.0
# The default command: step without limits.
_RUN = messages.Command()


class Worker:
  """Steps a batch of environments and writes their items to a table.

  The class is the same in every mode; only its ports differ (`ports`).
  """

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    spec: specs.EnvironmentSpec,
    builder: core.Builder,
    rates: rates_lib.Rates,
    index: int,
    items: ports.ItemSink,
    variables: ports.VariablesSource,
    registration: messages.Registration,
    environment: vector.VectorEnvironment | None = None,
  ):
    """Makes the worker's environments, actor and adder.

    Args:
      index: index of the worker in the run, from 0.
      variables: source of the policy's variables.
      registration: counts of the worker's earlier processes.
      environment: batch of environments, or None to make them from the config;
        see `collector.Collector`.
    """
    self._config, self._rates, self._items = config, rates, items
    self._variables = variables
    self._collector = collector.Collector(
      config,
      spec,
      builder,
      index,
      registration.restart_count,
      registration.env_steps,
      environment,
    )
    self._throttle = throttle.Throttle()
    # Unix seconds at which the loaded variables were published.
    self._published_at_s: float | None = None
    self._waiting_since_s: float | None = None  # monotonic
    self._wait_is_logged = False
    self._version = 0  # of the loaded variables; 0 before the first
    self._loads = 0  # number of versions that were loaded
    # For runs in rounds: the batch steps in the current round, and the newest
    # version with which this worker has collected its share of a round, after
    # all its items were confirmed.
    self._round_steps = 0
    self._collected_version = 0

  @property
  def env_steps(self) -> int:
    """Number of environment steps in this process; autoresets do not count."""
    return self._collector.env_steps

  @property
  def episodes(self) -> int:
    """Number of training episodes that have ended in this process."""
    return self._collector.episodes

  @property
  def collected_version(self) -> int:
    """Newest version with which this worker has collected its share of a round.

    All items of that round are confirmed. The version is 0 before the first
    round's end, and in runs without rounds.
    """
    return self._collected_version

  def step(self, command: messages.Command = _RUN) -> int:
    """Steps every environment once, or waits up to 0.2 s if no step is allowed.

    A step is not allowed without variables, during a pause, after the worker's
    share of a round, above the rate limit, or while the table accepts no items.

    Args:
      command: the newest command of the proxy or the control.

    Returns:
      The number of environment steps of this process so far.
    """
    self._load_variables(command)
    if self._may_step(command):
      before = self._collector.env_steps
      self._collect()
      steps = self._collector.env_steps - before
      self._round_steps += 1
      self._throttle.record_steps(steps, command.steps_per_s, time.monotonic())
    return self._collector.env_steps

  def finish_episodes(self) -> None:
    """Writes the last items of episodes that have just ended, before a stop.

    The adder returns these items in the autoreset after the episodes' end,
    which this method makes. It does nothing if an environment's episode is
    unfinished, or if the table takes no items within 2 s.
    """
    if self._collector.episodes_have_ended and (
      self._items.wait(_CLOSE_TIMEOUT_S)
    ):
      self._collect()

  def reopen_broken_stream(self) -> None:
    """Replaces the stream of items if it has broken, without waiting.

    To be called while `step` waits in an environment.
    """
    self._items.wait(0.0)

  def close(self) -> None:
    """Waits up to 2 s for items in flight, and closes the environments."""
    if not self._items.close(_CLOSE_TIMEOUT_S):
      logging.info(
        "items that the table rejected at the end: %d", self._items.discarded
      )
    self._collector.close()

  def report(self) -> messages.WorkerReport:
    """Returns this process's current counts, for the control."""
    published_at_s, items = self._published_at_s, self._items
    return messages.WorkerReport(
      counts=run_status.NodeCounts(
        env_steps=self._collector.env_steps,
        episodes=self._collector.episodes,
        truncations=self._collector.truncations,
        items_written=items.written,
        items_confirmed=items.confirmed,
        items_lost=items.lost,
        items_discarded=items.discarded,
        reconnects=max(0, items.streams - 1),
        variable_loads=self._loads,
      ),
      variables_version=self._version,
      collected_version=self._collected_version,
      training_return=self._collector.training_return,
      variables_age_s=published_at_s and time.time() - published_at_s,
      wait=waits.since(items.waits_for, self._waiting_since_s)
      or self._collector.wait,
      unwritten=self._collector.unwritten,
    )

  def get_state(self, with_environments: bool) -> dict[str, typing.Any]:
    """Returns the worker's state for pickling, without the variables.

    Args:
      with_environments: whether to include the environments and their
        unfinished episodes; see `Collector.get_state`.
    """
    return self._collector.get_state(with_environments)

  def set_state(self, state: Mapping[str, typing.Any]) -> None:
    """Restores a state that `get_state` returned; see `Collector.set_state`."""
    self._collector.set_state(state)

  def _collect(self) -> None:
    """Steps every environment once, and writes the completed items."""
    items = self._collector.step()
    if items is not None:
      self._items.write(*items)

  def _may_step(self, command: messages.Command) -> bool:
    """Returns whether the environments may step now; waits briefly if not."""
    # Once the worker's share of a round is collected and all its items are
    # confirmed, this method also updates `collected_version`.
    if self._published_at_s is None:
      time.sleep(self._rates.idle_s)
      return False
    has_collected = self._has_collected_share(command)
    if command.paused or has_collected:
      if self._record_wait(self._items.flush(_MAX_WAIT_S)):
        if has_collected and self._collected_version != self._version:
          # No sleep, so that the new version is reported at once.
          self._collected_version = self._version
        else:
          time.sleep(self._rates.idle_s)
      return False
    wait_s = self._throttle.get_wait_s(command.steps_per_s, time.monotonic())
    if wait_s > 0:
      time.sleep(min(wait_s, _MAX_WAIT_S))
      return False
    return self._record_wait(self._items.wait(_MAX_WAIT_S))

  def _has_collected_share(self, command: messages.Command) -> bool:
    """Returns whether this worker has made its steps of the current round."""
    workers = command.workers or self._config.topology.workers
    share = self._rates.worker_steps(workers)
    return share is not None and self._round_steps >= share

  def _record_wait(self, ready: bool) -> bool:
    """Records when a wait for the table begins or ends; logs long waits."""
    now_s = time.monotonic()
    if ready:
      if self._wait_is_logged:
        logging.info("continues; items lost so far: %d", self._items.lost)
      self._waiting_since_s, self._wait_is_logged = None, False
      return True
    self._waiting_since_s = self._waiting_since_s or now_s
    if (
      now_s - self._waiting_since_s > _LOG_AFTER_S and not self._wait_is_logged
    ):
      self._wait_is_logged = True
      logging.info("waits for %s", self._items.waits_for)
    return False

  def _load_variables(self, command: messages.Command) -> None:
    """Loads the next version of the variables, if any, and begins a round."""
    # A trainer that was restarted may publish it within a round, which then
    # continues: its steps complete the rollouts that have begun. Otherwise
    # each later rollout would have steps of two rounds.
    snapshot = self._variables.poll()
    if snapshot is None:
      return
    if self._published_at_s is None:
      logging.info("acts with its first variables")
    self._collector.load(snapshot.version, snapshot.variables)
    self._version = snapshot.version
    self._published_at_s = snapshot.published_at_s
    self._loads += 1
    if self._has_collected_share(command):
      self._round_steps = 0
