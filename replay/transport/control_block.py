"""Control block: shared memory between a machine's proxy and its workers.

The control block is a file that the proxy and all workers of a machine map. It
has a header and one slot per worker; both consist of fields of 8 bytes.
External processes that collect for a run have slots after those of its workers.
Each field has one writer. Reading a field costs a worker 50 ns, so a worker
checks at each step whether to pause, how fast to step, and whether its stream
broke.

The proxy and each worker lock one byte of the file. The kernel releases a lock
when its process ends, for whatever reason, so a lock shows that a process is
alive.

When a stream breaks, its writer cannot know whether the items in flight have
arrived. Reverb's writer would send them again; if the table has evicted or used
up the first copy, the same item would be inserted twice. Therefore each
worker's slot has an epoch. The proxy increments it before the worker can notice
the broken stream, and then admits no connection of that process until the
worker has acknowledged the epoch. By then the worker has closed the old writer
and has counted its items in flight as lost.
"""

import enum
import fcntl
import mmap
import os
import struct

MAX_WORKERS = 256  # of the run's own
MAX_EXTERNALS = 64  # external processes, whose indices follow the workers'
MAX_SHARDS = 16  # replay servers

_MAGIC = b"slipway3"  # the first field
_SLOT = 8  # fields: a cache line, so that workers do not slow one another
_HEADER = 64  # fields before the first slot
_SLOTS = MAX_WORKERS + MAX_EXTERNALS
_SIZE = 8 * (_HEADER + _SLOT * _SLOTS)  # bytes

# Fields of the header, which the proxy writes; from _REACHABLE on, one per
# shard.
_STARTS, _COMMAND, _STEPS_PER_S, _REACHABLE = 1, 16, 17, 32
# Fields of a worker's slot; the proxy writes the epoch, the worker the others.
_EPOCH, _PID, _ACKNOWLEDGED = range(3)

_PROXY_LOCK = 0  # byte; worker i locks byte 1 + i


class WorkerCommand(enum.IntEnum):
  """Command to all workers of a machine."""

  RUN = 0
  PAUSE = 1  # pause between two steps, when all items are confirmed
  DRAIN = 2  # exit between two steps, when all items are confirmed


# By value: a lookup costs a fifth of `WorkerCommand(value)`.
_COMMANDS = tuple(WorkerCommand)


class InUseError(ValueError):
  """Another process has the slot."""


class _Handle:
  """The mapped file, and the lock that shows that this process is alive."""

  def __init__(self, path: str, lock: int, holder: str):
    flags = os.O_CREAT | os.O_RDWR | os.O_CLOEXEC
    try:
      # For the lock alone: a mapping would keep it beyond `close`.
      self._descriptor = os.open(path, flags, 0o600)
    except OSError as error:
      raise ValueError(
        f"control block path {path!r} cannot be opened ({error.strerror}), so"
        " the proxy and its workers could not share commands; give a path on a"
        " tmpfs, such as /dev/shm."
      ) from error
    try:
      self._map(path, lock, holder)
    except BaseException:
      os.close(self._descriptor)
      raise

  def _map(self, path: str, lock: int, holder: str) -> None:
    """Maps the file, and locks one byte for a `holder` (proxy or worker)."""
    start = os.pread(self._descriptor, len(_MAGIC), 0)
    if start not in (b"", bytes(len(_MAGIC)), _MAGIC):
      raise ValueError(
        f"control block path {path!r} is a file that this release did not"
        " write, so it is not used; remove it or give another path."
      )
    # A new file is all zeros: no proxy and no worker has written to it.
    os.posix_fallocate(self._descriptor, 0, _SIZE)
    os.pwrite(self._descriptor, _MAGIC, 0)
    with open(path, "r+b") as file:
      memory = memoryview(mmap.mmap(file.fileno(), _SIZE))
    self._fields, self._floats = memory.cast("Q"), memory.cast("d")
    try:
      self._lock(fcntl.F_OFD_SETLK, lock)
    except BlockingIOError:
      raise InUseError(
        f"control block path {path!r} is in use by another {holder}, and the"
        " two would overwrite each other's fields; stop that one, or give"
        " another path."
      ) from None

  def close(self) -> None:
    """Releases the lock, as the end of the process would."""
    descriptor, self._descriptor = self._descriptor, -1
    os.close(descriptor)

  def _lock(self, command: int, byte: int) -> int:
    """Calls fcntl on one byte; returns the type of the lock that it found."""
    # struct flock of 64-bit Linux. Its locks belong to the open file, not to
    # the process: they also distinguish threads of one process.
    request = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0)
    reply = fcntl.fcntl(self._descriptor, command, request)
    return struct.unpack("hhqqi4x", reply)[0]

  def _is_locked(self, byte: int) -> bool:
    return self._lock(fcntl.F_OFD_GETLK, byte) != fcntl.F_UNLCK


class ProxyHandle(_Handle):
  """Access of the proxy to the control block of its machine.

  Attributes:
    restarts: proxies that have used this control block before.
  """

  def __init__(self, path: str):
    """Opens the control block, which an earlier proxy may have made.

    All streams through an earlier proxy are marked as broken. Its last command
    stays in force, except that DRAIN becomes RUN.

    Args:
      path: path of the file, in a directory on a tmpfs.

    Raises:
      ValueError: the path cannot be used, or another proxy uses it.
    """
    super().__init__(path, _PROXY_LOCK, "proxy")
    self.restarts = self._fields[_STARTS]
    self._fields[_STARTS] += 1
    for shard in range(MAX_SHARDS):
      self._fields[_REACHABLE + shard] = 0
    if self._fields[_COMMAND] == WorkerCommand.DRAIN:
      self._fields[_COMMAND] = WorkerCommand.RUN
    for slot in range(_HEADER, len(self._fields), _SLOT):
      self._fields[slot + _EPOCH] += 1

  def set_command(self, command: WorkerCommand, steps_per_s: float) -> None:
    """Sets the command of all workers of the machine.

    Args:
      command: run, pause or drain.
      steps_per_s: environment steps per second of all workers of the machine
        together, in equal parts; 0: no limit.
    """
    share = steps_per_s / max(1, len(self.workers()))
    if self._floats[_STEPS_PER_S] != share:
      self._floats[_STEPS_PER_S] = share
    if self._fields[_COMMAND] != command:
      self._fields[_COMMAND] = command

  def workers(self) -> dict[int, int]:
    """Returns the process ids of the live workers, by index.

    Indices from `MAX_WORKERS` on are those of external processes. After `close`
    there are none, as locks can no longer be read.
    """
    if self._descriptor < 0:
      return {}
    return {
      index: self._fields[_HEADER + _SLOT * index + _PID]
      for index in range(_SLOTS)
      if self._fields[_HEADER + _SLOT * index + _PID]
      and self._is_locked(1 + index)
    }

  def admit(self, pid: int) -> bool:
    """Returns whether a process has acknowledged all of its broken streams."""
    return all(
      self._fields[slot + _ACKNOWLEDGED] == self._fields[slot + _EPOCH]
      for slot in self._slots_of(pid)
    )

  def mark_broken(self, pid: int) -> None:
    """Marks the streams of a process as broken."""
    for slot in self._slots_of(pid):
      self._fields[slot + _EPOCH] += 1

  def set_reachable(self, shard: int, reachable: bool) -> None:
    """Sets whether the server of a shard can be reached."""
    self._fields[_REACHABLE + shard] = reachable

  @property
  def server_is_reachable(self) -> bool:
    """Whether the server of the first shard can be reached."""
    return bool(self._fields[_REACHABLE])

  def _slots_of(self, pid: int) -> list[int]:
    if not pid:  # unknown
      return []
    return [
      slot
      for slot in range(_HEADER, len(self._fields), _SLOT)
      if self._fields[slot + _PID] == pid
    ]


class ShardAdmission:
  """The `relay_admission.Admission` of the relay to one shard.

  A worker process writes to one shard only.
  """

  def __init__(self, handle: ProxyHandle, shard: int):
    """Keeps the arguments.

    Args:
      handle: handle of the proxy.
      shard: index of the shard whose server the relay connects to, below
        `MAX_SHARDS`.
    """
    self._handle, self._shard = handle, shard

  def admit(self, pid: int) -> bool:
    """Returns whether a process has acknowledged all of its broken streams."""
    return self._handle.admit(pid)

  def on_broken(self, pid: int) -> None:
    """Marks the streams of a process as broken."""
    self._handle.mark_broken(pid)

  def on_reachable(self, reachable: bool) -> None:
    """Sets whether the server of the shard can be reached."""
    self._handle.set_reachable(self._shard, reachable)


class WorkerHandle(_Handle):
  """Access of one worker to the control block of its machine.

  Attributes:
    server: description of the server that the worker writes to.
  """

  def __init__(self, path: str, index: int, shard: int | None = None):
    """Takes the worker's slot; the proxy need not run yet.

    Args:
      path: the path that was passed to `ProxyHandle`.
      index: index of the worker on its machine, below `MAX_WORKERS`; of an
        external process, from `MAX_WORKERS` on.
      shard: index of the shard that the worker writes to; None: there is one
        server.

    Raises:
      InUseError: another worker has the slot.
      ValueError: the path cannot be used.
    """
    if not 0 <= index < _SLOTS:
      raise ValueError(
        f"worker index {index} has no slot in the control block of its machine,"
        f" which has {MAX_WORKERS} for workers and {MAX_EXTERNALS} for external"
        " processes; start fewer of them per machine."
      )
    super().__init__(path, 1 + index, f"worker {index}")
    self.server = "the replay server"
    if shard is not None:
      self.server = f"the server of replay shard {shard}"
    self._reachable = _REACHABLE + (shard or 0)
    self._slot = _HEADER + _SLOT * index
    self.acknowledge()
    self._fields[self._slot + _PID] = os.getpid()

  def close(self) -> None:
    """Releases the slot; the process may have others."""
    self._fields[self._slot + _PID] = 0
    super().close()

  @property
  def command(self) -> WorkerCommand:
    """The command to execute now."""
    return _COMMANDS[self._fields[_COMMAND]]

  @property
  def steps_per_s(self) -> float:
    """Environment steps per second for this worker; 0: no limit."""
    return self._floats[_STEPS_PER_S]

  @property
  def stream_is_broken(self) -> bool:
    """Whether a stream has broken since the last `acknowledge`."""
    fields, slot = self._fields, self._slot
    return fields[slot + _EPOCH] != fields[slot + _ACKNOWLEDGED]

  def acknowledge(self) -> None:
    """Confirms that all broken streams are closed, so the proxy admits new."""
    fields, slot = self._fields, self._slot
    fields[slot + _ACKNOWLEDGED] = fields[slot + _EPOCH]

  @property
  def proxy_is_alive(self) -> bool:
    """Whether a proxy process holds the proxy's lock."""
    return self._is_locked(_PROXY_LOCK)

  @property
  def server_is_reachable(self) -> bool:
    """Whether the proxy's last attempt to reach the server succeeded."""
    return bool(self._fields[self._reachable])
