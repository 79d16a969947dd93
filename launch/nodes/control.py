"""Control node: runs `RunControl`, and serves its methods at a unix socket."""

import multiprocessing
import os
import pathlib
import shutil
import time
from collections.abc import Mapping

import launchpad as lp
import ml_collections
from acme import specs

from slipway.configs import fields
from slipway.launch.orchestration import control_service, run_control
from slipway.launch.orchestration import rates as rates_lib
from slipway.launch.rpc import server
from slipway.launch.runs import run_address, run_folder

_TICK_PERIOD_S = 0.05  # seconds between two calls of `RunControl.tick`
# Seconds that the control node waits at its end for the launcher to receive the
# run's last status.
_RELEASE_TIMEOUT_S = 1.5
# Text of the error if a user changes the number of workers of a run whose nodes
# are threads.
_WORKERS_ARE_FIXED = (
  "all nodes of this run are threads of one process, so the number of workers "
  "can't change: launch it with --launch=local_mp"
)


class Control:
  """Node that counts a run's steps and sends commands to the other nodes.

  It runs `run_control.RunControl`, whose methods other processes call.
  """

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    spec: specs.EnvironmentSpec,
    folder: run_folder.RunFolder,
    expected: Mapping[str, int],
    started_at_s: float,
    launcher_pid: int | None,
    memory_dir: str,
    socket_path: str,
  ):
    """Opens the run's result files, and restores the state before a restart.

    Args:
      config: the whole config.
      spec: specification of one environment.
      folder: the run's folder.
      expected: number of nodes of each role that will report.
      started_at_s: unix seconds of the user's command.
      launcher_pid: pid of the launcher, whose death ends the run, or None if
        the run does not depend on a launcher.
      memory_dir: tmpfs directory of the run, in which this node's state is
        saved for a restart. The directory is removed if the launcher dies.
      socket_path: path at which `control_service.ControlService` is served.

    Raises:
      ValueError: a file of the run cannot be read.
    """
    self._folder, self._memory_dir = folder, memory_dir
    self._socket_path = socket_path
    is_thread = launcher_pid in (None, os.getpid())
    self._launcher = None if is_thread else multiprocessing.parent_process()
    # The capacity of a queue depends on the number of all workers.
    whole = fields.replace(config, "topology.workers", expected["worker"])
    self._control = run_control.RunControl(
      config,
      folder,
      expected,
      started_at_s,
      rates_lib.Rates.from_config(whole, spec),
      pathlib.Path(memory_dir, "control.json"),
      _WORKERS_ARE_FIXED if is_thread else "",
    )

  def run(self) -> None:
    """Controls the run until every node has ended, then writes the results."""
    service, outbox = control_service.ControlService, self._control.outbox
    with (
      server.Server(self._socket_path, service, self._control),
      run_address.published(self._folder, self._socket_path, outbox),
    ):
      self._tick_until_finished()
      self._control.close()
      self._control.wait_released(_RELEASE_TIMEOUT_S)
    if self._launcher_is_lost():
      shutil.rmtree(self._memory_dir, ignore_errors=True)

  def _tick_until_finished(self) -> None:
    """Calls `RunControl.tick` regularly until all nodes of the run have ended.

    The run is stopped if its program stops or the launcher dies.
    """
    program_stopped = lp.stop_event()
    while not self._control.all_finished():
      time.sleep(_TICK_PERIOD_S)
      self._control.tick()
      if program_stopped.is_set():  # a node has used up its restart budget
        self._control.force_shutdown("failure")
      if self._launcher_is_lost():
        self._control.force_shutdown("launcher_lost")

  def _launcher_is_lost(self) -> bool:
    """Returns whether the launcher's process has died.

    It is False if the node is a thread of the launcher, or has no launcher.
    """
    return self._launcher is not None and not self._launcher.is_alive()
