"""The worker node: collects transitions and writes them."""

import time
import typing

import ml_collections
from absl import logging
from acme import specs

from agents import registry
from launch import addresses, collector, link
from replay import tables
from replay import writer as writer_lib

_WAIT_S = 0.2  # of one look at a full table, and at the link between two
_CLOSE_S = 1.0  # for what is in flight at the end


class Worker:
  """Steps a batch of environments with the newest variables."""

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    spec: specs.EnvironmentSpec,
    index: int,
    data: addresses.DataAddresses,
    control: typing.Any,
  ):
    """Makes the environments; connects lazily.

    Args:
      config: the whole config.
      spec: of one environment.
      index: of this worker, from 0.
      data: where to write to, and where variables come from.
      control: Courier client of the control node.
    """
    self._index = index
    self._control = control
    self._collector = collector.Collector(
      config, spec, registry.make_builder(config.agent), index
    )
    self._variables = data.make_variables_source()
    self._data = data
    self._writer: writer_lib.ItemWriter | None = None
    self._published_at_s: float | None = None
    self._waiting_since_s: float | None = None

  def step(self) -> int:
    """One step of every environment, as `run` does; returns all steps so far.

    Raises:
      RuntimeError: there are no variables to act on yet.
    """
    self._load_variables()
    if self._published_at_s is None:
      raise RuntimeError("no variables have been published yet: step later")
    self._collect(stopping=lambda: False)
    return self._collector.env_steps

  def run(self) -> None:
    """Collects until the run stops."""
    with link.Link(
      self._control, "worker", self._index, self._metrics
    ) as node_link:
      while self._published_at_s is None and not node_link.wait(0.02):
        self._load_variables()
      logging.info("acting on the first variables")
      while not node_link.stopping:
        self._load_variables()
        self._collect(stopping=lambda: node_link.stopping)
      if self._writer is not None and not self._writer.close(_CLOSE_S):
        logging.info("the last items were not confirmed: the table is full")
      self._collector.close()

  def _collect(self, stopping: typing.Callable[[], bool]) -> None:
    items = self._collector.step()
    if items is None:
      return
    if self._writer is None:
      # Connecting blocks while there is no server: with variables, there is.
      self._writer = writer_lib.ItemWriter(
        self._data.write_address(), tables.TRANSITIONS
      )
    self._writer.write(items.rows, items.priorities)
    while not self._writer.wait(_WAIT_S):
      self._waiting_since_s = self._waiting_since_s or time.monotonic()
      if stopping():
        return
    self._waiting_since_s = None

  def _load_variables(self) -> None:
    snapshot = self._variables.poll()
    if snapshot is not None:
      self._collector.actor.load(snapshot.variables)
      self._published_at_s = snapshot.published_at_s

  def _metrics(self) -> dict[str, typing.Any]:
    published_at_s, waiting_since_s = (
      self._published_at_s,
      self._waiting_since_s,
    )
    return {
      "env_steps": self._collector.env_steps,
      "items": self._writer.written if self._writer else 0,
      "training_return": self._collector.training_return,
      "variables_age_s": published_at_s and time.time() - published_at_s,
      "waiting_s": waiting_since_s and time.monotonic() - waiting_since_s,
    }
