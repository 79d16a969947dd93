"""Slots: trains the runs of a sweep on the machines of a Ray cluster."""

import contextlib
import time

import ml_collections

from slipway.configs import fields
from slipway.launch.machines import cluster as cluster_lib
from slipway.launch.runs import config_file, error_text
from slipway.launch.sweeps import slot, sweep_folder

_PERIOD_S = 1.0  # seconds between two polls of a run
_MAX_LOSSES = 5  # of its machine, after which a run has failed
_FAILED = 1  # exit status of a run that a slot could not train


class Slots:
  """The slots of a cluster, each of which has the CPUs that one run needs."""

  def __init__(self, cluster: cluster_lib.Cluster, cpus: int):
    """Keeps the cluster.

    Args:
      cluster: connection to the cluster.
      cpus: CPUs of a slot.

    Raises:
      ValueError: no machine has so many CPUs.
    """
    self._cluster, self._cpus = cluster, cpus
    if not self.count():
      most = max((x.cpus for x in cluster.machines()), default=0)
      raise ValueError(
        f"a run of this sweep needs {cpus} CPUs, and no machine of the cluster "
        f"at {cluster.address} has more than {most:g}, so none could be "
        "trained: use --mode=single or fewer topology.workers, or add a machine"
      )

  def count(self) -> int:
    """Returns how many slots the machines that are alive have."""
    return sum(int(x.cpus) // self._cpus for x in self._cluster.machines())

  def start(
    self, run: sweep_folder.SweepRun, config: ml_collections.ConfigDict
  ) -> "SlotProcess":
    """Starts or resumes a run on any machine with a free slot.

    Args:
      run: the run.
      config: the config of the run's setting.
    """
    return SlotProcess(self._cluster, self._cpus, run, config)

  def close(self) -> None:
    """Disconnects from the cluster; Ray then ends all remaining runs."""
    self._cluster.close()


class SlotProcess:
  """One run on a machine of the cluster; has the methods of `TrainProcess`.

  A run whose machine is lost continues on another one.
  """

  def __init__(
    self,
    cluster: cluster_lib.Cluster,
    cpus: int,
    run: sweep_folder.SweepRun,
    config: ml_collections.ConfigDict,
  ):
    """Starts the run.

    Args:
      cluster: connection to the cluster.
      cpus: CPUs that Ray reserves for the run.
      run: the run, whose folder may exist from an earlier process.
      config: the config of the run's setting.

    Raises:
      OSError, ValueError: as `SweepRun.has_snapshot`.
    """
    self.run = run
    self.log_start = run.log.stat().st_size if run.log.exists() else 0
    self._cluster, self._cpus = cluster, cpus
    self._config = fields.replace(config, "seed", run.seed)
    self._stops = 0  # interrupts so far
    self._losses = 0  # of its machine so far
    self._status: int | None = None
    self._start()

  def poll(self) -> int | None:
    """Returns the exit status, or None while the run lasts."""
    if self._status is None:
      self._receive()
    return self._status

  def stop(self) -> None:
    """Requests that the run stops with a last snapshot; a second call kills."""
    self._stops += 1
    if self._status is None:
      self._slot.send("stop")

  def _start(self) -> None:
    """Starts the slot, which waits until a machine has the CPUs for it."""
    run = self.run
    task = slot.SlotTask(
      str(run.folder.path.absolute()),
      str(run.log.absolute()),
      run.seed,
      config_file.to_json(self._config),
      run.has_snapshot(self._config, run.log.exists()),
    )
    self._slot = self._cluster.start_actor(slot.Slot, task, num_cpus=self._cpus)
    self._began = False
    self._call_poll()

  def _call_poll(self) -> None:
    self._called_at_s = time.monotonic()
    self._slot.call("poll")

  def _receive(self) -> None:
    """Handles the slot's reply, if there is one, and calls it again."""
    if not self._slot.pending:
      if time.monotonic() - self._called_at_s > _PERIOD_S:
        self._call_poll()
      return
    try:
      status = self._slot.get_result()
      self._began = True
      if status is not None:
        self._end(status)
    except TimeoutError:
      if self._stops and not self._began:  # it still waits for a machine
        self._fail("stopped before a machine was free")
    except cluster_lib.ActorDiedError as error:
      self._handle_loss(error)
    except RuntimeError as error:
      self._fail(error_text.one_line(error))

  def _handle_loss(self, error: cluster_lib.ActorDiedError) -> None:
    """Starts the run again on another machine, or ends it."""
    self._losses += 1
    self._write_log(f"the run's machine was lost: {error}")
    if self._stops or self._losses == _MAX_LOSSES:
      self._end(_FAILED)
      return
    try:
      self._start()
    except (OSError, ValueError) as start_error:
      self._fail(error_text.one_line(start_error))

  def _fail(self, error: str) -> None:
    """Ends the slot, and writes an error to the log."""
    self._write_log(error)
    self._end(_FAILED)

  def _write_log(self, line: str) -> None:
    """Appends a line to the run's log, unless the disk is full."""
    with contextlib.suppress(OSError), self.run.log.open("ab") as log:
      log.write(f"train: {line}\n".encode())

  def _end(self, status: int) -> None:
    """Ends the slot, and sets the exit status."""
    self._status = status
    self._slot.shut_down()
    # Ray ends an actor without a handle once the last call has returned.
    del self._slot
