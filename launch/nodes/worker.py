"""The worker: collects transitions and writes them."""

import time
import typing
from collections.abc import Mapping

import ml_collections
from absl import logging
from acme import specs

from slipway.agents import core
from slipway.environments import vector
from slipway.launch.nodes import collector, pace, ports
from slipway.launch.orchestration import messages
from slipway.launch.orchestration import rates as rates_lib

_WAIT_S = 0.2  # at most, until the next look at the command
_FLUSH_S = 2.0  # for what is in flight at the end
_LOG_AFTER_S = 1.0  # shorter waits are the rate limiter doing its work
_RUN = messages.Command()


class Worker:
  """Steps a batch of environments with the newest policy, in every mode."""

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
    """Makes the environments.

    Args:
      config: the whole config.
      spec: of one environment.
      builder: of the algorithm.
      rates: of the run.
      index: of this worker, from 0.
      items: where to write to.
      variables: where to read the policy's variables from.
      registration: of the processes that were this worker before.
      environment: see `collector.Collector`.
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
    self._pace = pace.Pace()
    self._published_at_s: float | None = None
    self._waiting_since_s: float | None = None  # monotonic
    self._wait_is_logged = False
    self._version = 0  # of the variables; 0: none yet
    self._loads = 0
    # In rounds: batch steps made in this one, and the version with which this
    # worker has collected its share, all of it confirmed.
    self._made = 0
    self._collected_version = 0

  @property
  def env_steps(self) -> int:
    """Environment steps of this process."""
    return self._collector.env_steps

  @property
  def episodes(self) -> int:
    """Training episodes of this process that have ended."""
    return self._collector.episodes

  @property
  def collected_version(self) -> int:
    """The version with which the share of a round is complete; 0: none."""
    return self._collected_version

  def step(self, command: messages.Command = _RUN) -> int:
    """Steps every environment once, or waits a little if that can't be.

    Args:
      command: of the control node.

    Returns:
      All environment steps so far.
    """
    self._load_variables()
    if self._may_step(command):
      before = self._collector.env_steps
      items = self._collector.step()
      if items is not None:
        self._items.write(*items)
      steps = self._collector.env_steps - before
      self._made += 1
      self._pace.stepped(steps, command.steps_per_s, time.monotonic())
    return self._collector.env_steps

  def keep_stream(self) -> None:
    """Opens the stream of items again if it has broken; between two steps."""
    self._items.wait(0.0)

  def close(self) -> None:
    """Writes what is in flight, and closes the environments."""
    if not self._items.close(_FLUSH_S):
      logging.info(
        "items that the table no longer took: %d", self._items.discarded
      )
    self._collector.close()

  def report(self) -> messages.WorkerReport:
    """Returns the counts of this process."""
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
    """Returns what the next steps depend on, besides the variables.

    Args:
      with_environments: whether the environments can be saved; see
        `Collector.get_state`.
    """
    return self._collector.get_state(with_environments)

  def set_state(self, state: Mapping[str, typing.Any]) -> None:
    """Continues as the worker would have whose state was taken."""
    self._collector.set_state(state)

  def _may_step(self, command: messages.Command) -> bool:
    """Whether a step can be made now; waits a little if not."""
    if self._published_at_s is None:
      time.sleep(self._rates.idle_s)
      return False
    has_collected = self._has_collected(command)
    if command.paused or has_collected:
      if self._note_wait(self._items.flush(_WAIT_S)):
        if has_collected and self._collected_version != self._version:
          self._collected_version = self._version  # reported without a delay
        else:
          time.sleep(self._rates.idle_s)
      return False
    wait_s = self._pace.wait_s(command.steps_per_s, time.monotonic())
    if wait_s > 0:
      time.sleep(min(wait_s, _WAIT_S))
      return False
    return self._note_wait(self._items.wait(_WAIT_S))

  def _has_collected(self, command: messages.Command) -> bool:
    """Whether this worker has its share of the round."""
    workers = command.workers or self._config.topology.workers
    share = self._rates.worker_steps(workers)
    return share is not None and self._made >= share

  def _note_wait(self, ready: bool) -> bool:
    """Notes since when the sink is not ready; logs waits that last."""
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
    snapshot = self._variables.poll()
    if snapshot is None:
      return
    if self._published_at_s is None:
      logging.info("acts on its first variables")
    self._collector.load(snapshot.version, snapshot.variables)
    self._version = snapshot.version
    self._published_at_s = snapshot.published_at_s
    self._loads += 1
    self._made = 0
