"""The control node: serves a run's control to its other nodes."""

import multiprocessing
import os
import pathlib
import shutil
import threading
import time
import typing
from collections.abc import Callable, Mapping

import launchpad as lp
import ml_collections
from absl import logging
from acme import specs

from launch.orchestration import messages, run_control
from launch.orchestration import rates as rates_lib
from launch.runs import run_address, run_folder

_TICK_S = 0.05
_RELEASED_WITHIN_S = 1.5  # for the launcher to receive the last status
_THREADS_ONLY = (
  "all nodes of this run are threads of one process, so the number of workers "
  "does not change: launch it with --launch=local_mp"
)

T = typing.TypeVar("T")


class Control:
  """Serves `run_control.RunControl` by Courier.

  Its public methods take and return numbers, text and the bytes of messages;
  `control_client.ControlClient` gives them types. They are called from other
  threads than `run`. A message that is not of its type is rejected: one line
  in the log, and the run continues.
  """

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    spec: specs.EnvironmentSpec,
    folder: run_folder.RunFolder,
    expected: Mapping[str, int],
    started_at_s: float,
    launcher_pid: int | None = None,
    memory_dir: str | None = None,
    address: lp.Address | None = None,
  ):
    """Opens the run's result files.

    Args:
      config: the whole config.
      spec: of one environment.
      folder: of the run.
      expected: how many nodes of each role will report.
      started_at_s: unix seconds of the user's command.
      launcher_pid: process that the run ends with; None: it is not watched.
      memory_dir: tmpfs directory of the run, with the state of this node's
        predecessor if that was killed; removed here if the launcher is lost.
      address: that this node serves, for `launch.control`; None: none.

    Raises:
      ValueError: one line: a file of the run cannot be read.
    """
    self._folder, self._address = folder, address
    self._memory_dir = memory_dir
    own = launcher_pid in (None, os.getpid())
    self._launcher = None if own else multiprocessing.parent_process()
    self._control = run_control.RunControl(
      config,
      folder,
      expected,
      started_at_s,
      rates_lib.Rates.from_config(config, spec),
      pathlib.Path(memory_dir, "control.json") if memory_dir else None,
      _THREADS_ONLY if own else "",
    )
    self._rejected: set[tuple[str, int]] = set()  # nodes, each logged once
    self._released = threading.Event()

  def report(self, role: str, index: int, report: bytes) -> bytes:
    """Takes a `messages.Report`; returns a `messages.Command`."""
    decoded = self._decode_report(role, index, report)
    if decoded is None:
      return messages.encode(self._control.command(role, index))
    return messages.encode(self._control.report(role, index, decoded))

  def finished(self, role: str, index: int, report: bytes) -> None:
    """Takes the last `messages.Report` of a node that has ended."""
    decoded = self._decode_report(role, index, report)
    if decoded is not None:
      self._control.finished(role, index, decoded)

  def register(self, role: str, index: int) -> bytes:
    """Returns the `messages.Registration` of a node that starts."""
    return messages.encode(self._control.register(role, index))

  def wait_collected(self, version: int, timeout_s: float) -> int:
    """Serves `RunControl.wait_collected`."""
    return self._control.wait_collected(version, timeout_s)

  def counters(self) -> bytes:
    """Returns the `run_counters.RunCounters` of the run."""
    return messages.encode(self._control.counters())

  def variables_version(self) -> int:
    """Serves `RunControl.variables_version`."""
    return self._control.variables_version()

  def evaluated(self, evaluation: bytes) -> bool:
    """Takes a `messages.Evaluation`; returns whether it is the best so far."""
    decoded = _decode(
      "the evaluator", lambda: messages.decode(evaluation, messages.Evaluation)
    )
    return decoded is not None and self._control.evaluated(decoded)

  def place(self, placement: bytes) -> None:
    """Takes a `messages.Placement`."""
    decoded = _decode(
      "the launcher", lambda: messages.decode(placement, messages.Placement)
    )
    if decoded is not None:
      self._control.place(decoded)

  def status(self) -> bytes:
    """Returns the `run_status.RunStatus` of the run."""
    return messages.encode(self._control.status())

  def stop(self, reason: str) -> None:
    """Serves `RunControl.stop`."""
    self._control.stop(reason)

  def pause(self) -> str:
    """Serves `RunControl.pause`."""
    return self._control.pause()

  def resume(self) -> str:
    """Serves `RunControl.resume`."""
    return self._control.resume()

  def save(self) -> str:
    """Serves `RunControl.save`."""
    return self._control.save()

  def set_workers(self, count: int) -> str:
    """Serves `RunControl.set_workers`."""
    return self._control.set_workers(count)

  def set(self, field: str, value: float | str) -> str:
    """Serves `RunControl.set`."""
    return self._control.set(field, value)

  def release(self) -> None:
    """Lets this node end: the launcher has received the last status."""
    self._released.set()

  def run(self) -> None:
    """Watches the run until every node has ended, then writes its results."""
    address = self._address and self._address.resolve()
    with run_address.published(self._folder, address, self._control.outbox):
      self._watch()
      self._control.close()
      self._released.wait(_RELEASED_WITHIN_S)
    if self._launcher_is_lost() and self._memory_dir is not None:
      shutil.rmtree(self._memory_dir, ignore_errors=True)

  def _watch(self) -> None:
    program_stopped = lp.stop_event()
    while not self._control.all_finished():
      time.sleep(_TICK_S)
      self._control.tick()
      if program_stopped.is_set():  # a node has failed for good
        self._control.force_shutdown("failure")
      if self._launcher_is_lost():
        self._control.force_shutdown("launcher_lost")

  def _launcher_is_lost(self) -> bool:
    return self._launcher is not None and not self._launcher.is_alive()

  def _decode_report(
    self, role: str, index: int, report: bytes
  ) -> messages.Report | None:
    """Returns a node's report; None: it is not of its type."""
    node = (role, index)
    decoded = _decode(
      f"{role} {index}",
      lambda: messages.decode_report(report),
      logs=node not in self._rejected,
    )
    if decoded is None:
      self._rejected.add(node)
    return decoded


def _decode(
  sender: str, decode: Callable[[], T], logs: bool = True
) -> T | None:
  """Returns a message, or logs in one line why it is rejected."""
  try:
    return decode()
  except ValueError as error:
    if logs:
      logging.warning(
        "a message from %s is rejected: %s; run the same version of the "
        "program everywhere",
        sender,
        error,
      )
    return None
