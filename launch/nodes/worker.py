"""Worker: collects items with the newest policy, and writes them."""

import time
import typing
from collections.abc import Mapping

import ml_collections
from absl import logging
from acme import specs

from slipway.agents import core
from slipway.environments import vector
from slipway.launch.nodes import collector, ports, throttle
from slipway.launch.orchestration import messages
from slipway.launch.orchestration import rates as rates_lib

_WAIT_S = 0.2  # longest wait before the next command is read
_FLUSH_S = 2.0  # longest wait for items in flight at the end
# Seconds after which a wait is logged. Shorter ones are normal with a limiter.
_LOG_AFTER_S = 1.0
_RUN = messages.Command()


class Worker:
  """Steps a batch of environments and writes items, in every mode."""

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
      config: the whole config.
      spec: specification of one environment.
      builder: the algorithm's builder.
      rates: the run's schedule.
      index: index of the worker, from 0.
      items: destination of the items.
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
    """Number of environment steps of this process."""
    return self._collector.env_steps

  @property
  def episodes(self) -> int:
    """Number of training episodes that have ended in this process."""
    return self._collector.episodes

  @property
  def collected_version(self) -> int:
    """Newest version with which this worker has collected its share of a round.

    It is 0 before the first round has ended.
    """
    return self._collected_version

  def step(self, command: messages.Command = _RUN) -> int:
    """Steps every environment once, or waits briefly if it must not step.

    Args:
      command: the newest command of the proxy or the control node.

    Returns:
      The environment steps of this process so far.
    """
    self._load_variables()
    if self._may_step(command):
      before = self._collector.env_steps
      items = self._collector.step()
      if items is not None:
        self._items.write(*items)
      steps = self._collector.env_steps - before
      self._round_steps += 1
      self._throttle.record_steps(steps, command.steps_per_s, time.monotonic())
    return self._collector.env_steps

  def keep_stream(self) -> None:
    """Reopens a broken stream of items; may be called between two steps."""
    self._items.wait(0.0)

  def close(self) -> None:
    """Waits for items in flight, and closes the environments."""
    if not self._items.close(_FLUSH_S):
      logging.info(
        "items that the table rejected at the end: %d", self._items.discarded
      )
    self._collector.close()

  def report(self) -> messages.WorkerReport:
    """Returns a report of this process."""
    published_at_s, waiting_since_s = (
      self._published_at_s,
      self._waiting_since_s,
    )
    items = self._items
    return messages.WorkerReport(
      env_steps=self._collector.env_steps,
      episodes=self._collector.episodes,
      items_written=items.written,
      items_confirmed=items.confirmed,
      items_lost=items.lost,
      items_discarded=items.discarded,
      reconnects=max(0, items.streams - 1),
      variables_version=self._version,
      variable_loads=self._loads,
      collected_version=self._collected_version,
      training_return=self._collector.training_return,
      variables_age_s=published_at_s and time.time() - published_at_s,
      waiting_s=waiting_since_s and time.monotonic() - waiting_since_s,
      waiting_for=items.waits_for if waiting_since_s else None,
    )

  def get_state(self, with_environments: bool) -> dict[str, typing.Any]:
    """Returns the worker's state without its variables, for pickling.

    Args:
      with_environments: whether the environments can be saved; see
        `Collector.get_state`.
    """
    return self._collector.get_state(with_environments)

  def set_state(self, state: Mapping[str, typing.Any]) -> None:
    """Restores a state of `get_state`."""
    self._collector.set_state(state)

  def _may_step(self, command: messages.Command) -> bool:
    """Returns whether a step may begin now; waits briefly if not.

    When the share of a round is collected and confirmed, it also updates
    `collected_version`.
    """
    if self._published_at_s is None:
      time.sleep(self._rates.idle_s)
      return False
    has_collected = self._has_collected(command)
    if command.paused or has_collected:
      if self._record_wait(self._items.flush(_WAIT_S)):
        if has_collected and self._collected_version != self._version:
          # No sleep, so that the new version is reported at once.
          self._collected_version = self._version
        else:
          time.sleep(self._rates.idle_s)
      return False
    wait_s = self._throttle.get_wait_s(command.steps_per_s, time.monotonic())
    if wait_s > 0:
      time.sleep(min(wait_s, _WAIT_S))
      return False
    return self._record_wait(self._items.wait(_WAIT_S))

  def _has_collected(self, command: messages.Command) -> bool:
    """Returns whether this worker has collected its share of the round."""
    workers = command.workers or self._config.topology.workers
    share = self._rates.worker_steps(workers)
    return share is not None and self._round_steps >= share

  def _record_wait(self, ready: bool) -> bool:
    """Records the start or the end of a wait, and logs a long one.

    Args:
      ready: whether the worker has nothing to wait for.

    Returns:
      The argument.
    """
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

  def _load_variables(self) -> None:
    """Loads the newest variables if they are new, and begins a round."""
    snapshot = self._variables.poll()
    if snapshot is None:
      return
    if self._published_at_s is None:
      logging.info("acts with its first variables")
    self._collector.load(snapshot.version, snapshot.variables)
    self._version = snapshot.version
    self._published_at_s = snapshot.published_at_s
    self._loads += 1
    self._round_steps = 0
