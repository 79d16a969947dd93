"""Control block: shared memory between a machine's proxy and its workers.

The control block is a file that the proxy and all workers of a machine map. It
has a header and one slot per worker; both consist of fields of 8 bytes. Slots
of external processes follow those of the run's workers. Each field has one
writer. Reading a field takes 50 ns. So at each step, a worker reads the
command, the limit of its rate, and whether its stream has broken.

The proxy and each worker lock one byte of the file. The kernel releases a lock
when its process ends, for whatever reason, so a lock shows that a process is
alive. A slot whose byte is not locked counts as empty: the process id in it may
be that of another process by now.

When a stream breaks, its writer cannot know whether the items in flight have
arrived. Reverb's writer would send them again; if the table has evicted or used
up the first copy, the same item would be inserted twice. Therefore each
worker's slot has an epoch. The proxy increments the epoch before the worker can
notice the broken stream. Then the proxy admits no connection of that process
until the worker has acknowledged the epoch. By then the worker has closed the
old writer and has counted its items in flight as lost.
"""

import enum
import fcntl
import mmap
import os
import struct

# Maximum number of workers per machine, external processes excluded.
MAX_WORKERS = 256
# Maximum number of external processes per machine. Their indices start at
# `MAX_WORKERS`.
MAX_EXTERNALS = 64
# Maximum number of shards (replay servers) of a run.
MAX_SHARDS = 16

# First field of the file, which identifies its format and version.
_MAGIC = b"slipway3"
# Fields per slot, of 8 bytes each. A slot fills a cache line, so that workers
# do not slow each other down.
_SLOT = 8
# Fields of the header, which precede the first slot.
_HEADER = 64
# Number of slots in the file.
_SLOTS = MAX_WORKERS + MAX_EXTERNALS
# Size of the file in bytes.
_SIZE = 8 * (_HEADER + _SLOT * _SLOTS)

# Indices of the header's fields, which the proxy writes: number of proxy
# starts, command, steps per second, and the first of MAX_SHARDS reachability
# flags.
_STARTS, _COMMAND, _STEPS_PER_S, _REACHABLE = 1, 16, 17, 32
# Indices of a slot's fields. The proxy writes the epoch of broken streams. The
# worker writes its process id and the last epoch that it has acknowledged.
_EPOCH, _PID, _ACKNOWLEDGED = range(3)

# Offset of the byte of the file that the proxy locks; worker i locks byte 1 +
# i.
_PROXY_LOCK = 0


class WorkerCommand(enum.IntEnum):
  """Command of a proxy to all workers of its machine."""

  RUN = 0
  PAUSE = 1  # pause between two steps, when all items are confirmed
  DRAIN = 2  # exit between two steps, when all items are confirmed


# Members of `WorkerCommand` in the order of their values. Indexing this tuple
# takes a fifth of the time of `WorkerCommand(value)`.
_COMMANDS = tuple(WorkerCommand)


class InUseError(ValueError):
  """Error for a slot, or the proxy's lock, that another live process holds."""


class _Handle:
  """Mapped control block, with a lock that shows that its holder is alive."""

  def __init__(self, path: str, lock: int, holder: str):
    flags = os.O_CREAT | os.O_RDWR | os.O_CLOEXEC
    # For the lock alone: a mapping would keep it beyond `close`.
    self._descriptor = os.open(path, flags, 0o600)
    try:
      self._map(path, lock, holder)
    except BaseException:
      os.close(self._descriptor)
      raise

  def _map(self, path: str, lock: int, holder: str) -> None:
    """Maps the file and locks one byte, with the arguments of `__init__`."""
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
      self._call_fcntl(fcntl.F_OFD_SETLK, lock)
    except BlockingIOError:
      raise InUseError(
        f"control block path {path!r} is in use by another {holder}, and the"
        " two would overwrite each other's fields; stop that one, or give"
        " another path."
      ) from None

  def close(self) -> None:
    """Releases the lock, so this holder counts as dead."""
    descriptor, self._descriptor = self._descriptor, -1
    if descriptor >= 0:
      os.close(descriptor)

  def _call_fcntl(self, command: int, byte: int) -> int:
    """Applies a lock command of fcntl(2) to one byte of the file."""
    # struct flock of 64-bit Linux. Its locks belong to the open file, not to
    # the process: they also distinguish threads of one process.
    request = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0)
    reply = fcntl.fcntl(self._descriptor, command, request)
    return struct.unpack("hhqqi4x", reply)[0]

  def _is_locked(self, byte: int) -> bool:
    """Returns whether another holder has locked a byte of the file."""
    return self._call_fcntl(fcntl.F_OFD_GETLK, byte) != fcntl.F_UNLCK


class ProxyHandle(_Handle):
  """Access of a proxy to the control block of its machine.

  Attributes:
    restarts: number of earlier proxies that have used this control block.
  """

  def __init__(self, path: str):
    """Opens or creates the control block.

    Marks all streams through an earlier proxy as broken, and all servers as
    unreachable. Keeps that proxy's last command, but replaces DRAIN by RUN,
    because DRAIN would make the workers of the new proxy exit.

    Raises:
      InUseError: another live proxy uses the control block.
      ValueError: the file is not a control block.
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
      steps_per_s: limit of environment steps per second, shared equally by the
        live workers of the machine; 0: no limit.
    """
    share = steps_per_s / max(1, len(self.workers()))
    if self._floats[_STEPS_PER_S] != share:
      self._floats[_STEPS_PER_S] = share
    if self._fields[_COMMAND] != command:
      self._fields[_COMMAND] = command

  def workers(self) -> dict[int, int]:
    """Returns the process ids of the live workers, by the worker's index.

    Indices from `MAX_WORKERS` on are those of external processes. After
    `close`, the result is empty, as locks can no longer be read.
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
    """Returns whether to admit a new connection of a process.

    A process is admitted if it has acknowledged all its broken streams.

    Args:
      pid: process id; 0 (unknown) is always admitted.
    """
    return all(
      self._fields[slot + _ACKNOWLEDGED] == self._fields[slot + _EPOCH]
      for slot in self._slots_of(pid)
    )

  def mark_broken(self, pid: int) -> None:
    """Marks the stream of each worker in a process as broken.

    Call it before the client's side of the stream is closed, so that the client
    is informed before it connects again. A worker process writes to only one
    shard, so all of its streams pass the same relay.

    Args:
      pid: process id; 0 (unknown) has no effect.
    """
    for slot in self._slots_of(pid):
      self._fields[slot + _EPOCH] += 1

  def set_reachable(self, shard: int, reachable: bool) -> None:
    """Sets for the workers whether the server of a shard can be reached.

    Args:
      shard: index of the shard, below `MAX_SHARDS`.
      reachable: whether the proxy has reached the server.
    """
    self._fields[_REACHABLE + shard] = reachable

  @property
  def server_is_reachable(self) -> bool:
    """Whether the server of the first shard can be reached."""
    return bool(self._fields[_REACHABLE])

  def _slots_of(self, pid: int) -> list[int]:
    """Returns the indices of the first fields of a live process's slots."""
    return [
      _HEADER + _SLOT * index
      for index, holder in self.workers().items()
      if holder == pid
    ]


class WorkerHandle(_Handle):
  """Access of one worker to the control block of its machine.

  Attributes:
    server_description: text for messages about the server that the worker
      writes to, such as 'the replay server'.
  """

  def __init__(self, path: str, index: int, shard: int | None = None):
    """Opens or creates the control block, and locks the worker's slot.

    Args:
      path: the path that the proxy's `ProxyHandle` has; either may be opened
        first.
      index: index of the worker on its machine: below `MAX_WORKERS` for a
        worker of the run, and from there on for an external process.
      shard: index of the shard that the worker writes to; None: there is one
        server.

    Raises:
      InUseError: another live worker has the same index.
      ValueError: the index is invalid, or the file is not a control block.
    """
    if not 0 <= index < _SLOTS:
      raise ValueError(
        f"worker index {index} has no slot in the control block of its machine,"
        f" which has {MAX_WORKERS} for workers and {MAX_EXTERNALS} for external"
        " processes; start fewer of them per machine."
      )
    super().__init__(path, 1 + index, f"worker {index}")
    self.server_description = "the replay server"
    if shard is not None:
      self.server_description = f"the server of replay shard {shard}"
    # Indices of fields: the flag whether the worker's server can be reached,
    # and the first field of the worker's slot.
    self._reachable_field = _REACHABLE + (shard or 0)
    self._slot = _HEADER + _SLOT * index
    # A stream that broke before this worker began is not this worker's.
    self.acknowledge_broken_stream()
    self._fields[self._slot + _PID] = os.getpid()

  def close(self) -> None:
    """Releases the worker's slot.

    Slots that other handles of this process hold stay locked.
    """
    self._fields[self._slot + _PID] = 0
    super().close()

  @property
  def command(self) -> WorkerCommand:
    """Current command of the proxy, which the worker has to execute."""
    return _COMMANDS[self._fields[_COMMAND]]

  @property
  def steps_per_s(self) -> float:
    """Limit of this worker's environment steps per second; 0: no limit."""
    return self._floats[_STEPS_PER_S]

  @property
  def stream_is_broken(self) -> bool:
    """Whether a stream has broken that the worker has not acknowledged."""
    fields, slot = self._fields, self._slot
    return fields[slot + _EPOCH] != fields[slot + _ACKNOWLEDGED]

  def acknowledge_broken_stream(self) -> None:
    """Confirms that the worker knows of its broken stream, and has closed it.

    The proxy admits a new stream of this process once all workers of the
    process have confirmed this.
    """
    fields, slot = self._fields, self._slot
    fields[slot + _ACKNOWLEDGED] = fields[slot + _EPOCH]

  @property
  def proxy_is_alive(self) -> bool:
    """Whether a proxy process holds the proxy's lock."""
    return self._is_locked(_PROXY_LOCK)

  @property
  def server_is_reachable(self) -> bool:
    """Whether the proxy's last attempt to reach the server succeeded."""
    return bool(self._fields[self._reachable_field])
