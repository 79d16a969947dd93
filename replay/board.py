"""Board: what a machine's proxy and its workers tell one another, in memory.

A file of one page of words and a line of words for each worker, which all of
them map. External processes that collect for a run are workers, too, with lines
after those of the run's own. A word has one writer; reading one costs a worker
50 ns, so that it can look at each step whether it is to pause, how fast to go,
and whether its stream still holds.

Who is alive, the kernel tells: the proxy and each worker hold a lock on a byte
of the file, which goes with their process, however that ends.

A stream that breaks may lose what was in flight, or not: the writer cannot
know. Reverb's would send it again, and where the table has meanwhile evicted or
used up the first copy, an item would be there twice. So each worker's line has
an epoch: the proxy raises it before the worker can notice a broken stream, and
lets nothing of that process in until the worker has acknowledged it, by which
time the old writer is gone and what it had in flight is counted as lost.
"""

import enum
import fcntl
import mmap
import os
import struct

MAX_WORKERS = 256  # of the run's own
MAX_EXTERNALS = 64  # external processes, whose indices follow the workers'
MAX_SHARDS = 16  # replay servers

_MAGIC = b"slipway3"  # the first word
_LINE = 8  # words: a cache line, so that workers do not slow one another
_HEAD = 64  # words before the first line
_LINES = MAX_WORKERS + MAX_EXTERNALS
_SIZE = 8 * (_HEAD + _LINE * _LINES)  # bytes

# Words of the head, written by the proxy; from _REACHABLE on one a shard.
_STARTS, _FLOW, _STEPS_PER_S, _REACHABLE = 1, 16, 17, 32
# Words of a worker's line; the proxy writes the epoch, the worker the others.
_EPOCH, _PID, _ACKNOWLEDGED = range(3)

_PROXY_LOCK = 0  # byte; worker i locks byte 1 + i


class Flow(enum.IntEnum):
  """What the workers of a machine are to do."""

  RUN = 0
  PAUSE = 1  # stop at a step, all confirmed, and wait
  DRAIN = 2  # stop at a step, all confirmed, and end


_FLOWS = tuple(Flow)  # by value: a lookup costs a fifth of `Flow(value)`


class InUseError(ValueError):
  """Another process has the place that was to be taken."""


class _Seat:
  """The mapped file, and the lock that tells that its holder is alive."""

  def __init__(self, path: str, lock: int, holder: str):
    flags = os.O_CREAT | os.O_RDWR | os.O_CLOEXEC
    try:
      # For the lock alone: a mapping would keep it beyond `close`.
      self._descriptor = os.open(path, flags, 0o600)
    except OSError as error:
      raise ValueError(
        f"board path {path!r} cannot be opened ({error.strerror}), so the proxy"
        " and its workers could not hear one another; name one on a tmpfs,"
        " such as /dev/shm."
      ) from error
    try:
      self._take(path, lock, holder)
    except BaseException:
      os.close(self._descriptor)
      raise

  def _take(self, path: str, lock: int, holder: str) -> None:
    start = os.pread(self._descriptor, len(_MAGIC), 0)
    if start not in (b"", bytes(len(_MAGIC)), _MAGIC):
      raise ValueError(
        f"board path {path!r} holds a file that is no board of this release, so"
        " it is not used; remove it or name another path."
      )
    # Zeros are a board on which nothing has been said yet.
    os.posix_fallocate(self._descriptor, 0, _SIZE)
    os.pwrite(self._descriptor, _MAGIC, 0)
    with open(path, "r+b") as file:
      memory = memoryview(mmap.mmap(file.fileno(), _SIZE))
    self._words, self._numbers = memory.cast("Q"), memory.cast("d")
    try:
      self._lock(fcntl.F_OFD_SETLK, lock)
    except BlockingIOError:
      raise InUseError(
        f"board path {path!r} is in use by another {holder}, and two would"
        " undo one another; stop that one, or name another path."
      ) from None

  def close(self) -> None:
    """Gives the place up, as the end of the process would."""
    descriptor, self._descriptor = self._descriptor, -1
    os.close(descriptor)

  def _lock(self, command: int, byte: int) -> int:
    """Calls fcntl; returns the type of the lock that it found."""
    # struct flock of 64-bit Linux. Its locks belong to the open file, not to
    # the process: they also tell threads of one process apart.
    request = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0)
    answer = fcntl.fcntl(self._descriptor, command, request)
    return struct.unpack("hhqqi4x", answer)[0]

  def _is_locked(self, byte: int) -> bool:
    return self._lock(fcntl.F_OFD_GETLK, byte) != fcntl.F_UNLCK


class ProxySeat(_Seat):
  """The proxy's place at the board; its `gate` is a relay's `ClientGate`."""

  def __init__(self, path: str):
    """Opens the board, which may be a predecessor's.

    Streams through a predecessor are broken, and its workers are told so. What
    they were told to do stays, but for an order to end.

    Args:
      path: of the file, in a directory on a tmpfs.

    Raises:
      ValueError: the path cannot be used, or another proxy uses it.
    """
    super().__init__(path, _PROXY_LOCK, "proxy")
    self.restarts = self._words[_STARTS]  # of proxies before this one
    self._words[_STARTS] += 1
    for shard in range(MAX_SHARDS):
      self._words[_REACHABLE + shard] = 0
    if self._words[_FLOW] == Flow.DRAIN:
      self._words[_FLOW] = Flow.RUN
    for line in range(_HEAD, len(self._words), _LINE):
      self._words[line + _EPOCH] += 1

  def direct(self, flow: Flow, steps_per_s: float) -> None:
    """Tells the workers what to do.

    Args:
      flow: run, pause, or end.
      steps_per_s: environment steps a second of all workers of the machine
        together, in equal parts; 0: no limit.
    """
    share = steps_per_s / max(1, len(self.workers()))
    if self._numbers[_STEPS_PER_S] != share:
      self._numbers[_STEPS_PER_S] = share
    if self._words[_FLOW] != flow:
      self._words[_FLOW] = flow

  def workers(self) -> dict[int, int]:
    """Process ids of the workers that are alive, by index.

    Indices from `MAX_WORKERS` on are those of external processes. After `close`
    there are none: nobody can be asked.
    """
    if self._descriptor < 0:
      return {}
    return {
      index: self._words[_HEAD + _LINE * index + _PID]
      for index in range(_LINES)
      if self._words[_HEAD + _LINE * index + _PID]
      and self._is_locked(1 + index)
    }

  def admit(self, pid: int) -> bool:
    """Whether a process may connect: not before it knows of a broken stream."""
    return all(
      self._words[line + _ACKNOWLEDGED] == self._words[line + _EPOCH]
      for line in self._lines_of(pid)
    )

  def broke(self, pid: int) -> None:
    """Tells the workers of a process that their streams are broken."""
    for line in self._lines_of(pid):
      self._words[line + _EPOCH] += 1

  def reaches(self, shard: int, reachable: bool) -> None:
    """Tells the workers of a shard whether its server can be reached."""
    self._words[_REACHABLE + shard] = reachable

  def gate(self, shard: int) -> "ShardGate":
    """The gate of the relay to a shard.

    Args:
      shard: of its server, below `MAX_SHARDS`.
    """
    return ShardGate(self, shard)

  @property
  def server_is_reachable(self) -> bool:
    """What the gate of the first shard was last told."""
    return bool(self._words[_REACHABLE])

  def _lines_of(self, pid: int) -> list[int]:
    if not pid:  # unknown
      return []
    return [
      line
      for line in range(_HEAD, len(self._words), _LINE)
      if self._words[line + _PID] == pid
    ]


class ShardGate:
  """The `ClientGate` of one relay; a process writes through one of them."""

  def __init__(self, seat: ProxySeat, shard: int):
    """Passes all on to the proxy's seat.

    Args:
      seat: of the proxy.
      shard: that the relay leads to.
    """
    self._seat, self._shard = seat, shard

  def admit(self, pid: int) -> bool:
    """Whether a process may connect: not before it knows of a broken stream."""
    return self._seat.admit(pid)

  def broke(self, pid: int) -> None:
    """Tells the workers of a process that their streams are broken."""
    self._seat.broke(pid)

  def upstream(self, reachable: bool) -> None:
    """Tells the workers of the shard whether its server can be reached."""
    self._seat.reaches(self._shard, reachable)


class WorkerSeat(_Seat):
  """A worker's place at the board.

  Attributes:
    server: what the worker writes to, in words.
  """

  def __init__(self, path: str, index: int, shard: int | None = None):
    """Takes the worker's line, whether there is a proxy yet or not.

    Args:
      path: as given to `ProxySeat`.
      index: of the worker on its machine, below `MAX_WORKERS`; of an external
        process, from `MAX_WORKERS` on.
      shard: that the worker writes to; None: there is one server.

    Raises:
      InUseError: another worker has the line.
      ValueError: the path cannot be used.
    """
    if not 0 <= index < _LINES:
      raise ValueError(
        f"worker index {index} has no line on the board of its machine, which"
        f" has {MAX_WORKERS} for workers and {MAX_EXTERNALS} for external"
        " processes; start fewer of them on a machine."
      )
    super().__init__(path, 1 + index, f"worker {index}")
    self.server = "the replay server"
    if shard is not None:
      self.server = f"the server of replay shard {shard}"
    self._reachable = _REACHABLE + (shard or 0)
    self._line = _HEAD + _LINE * index
    self.acknowledge()
    self._words[self._line + _PID] = os.getpid()

  def close(self) -> None:
    """Gives the line up; the process may have others."""
    self._words[self._line + _PID] = 0
    super().close()

  @property
  def flow(self) -> Flow:
    """What to do now."""
    return _FLOWS[self._words[_FLOW]]

  @property
  def steps_per_s(self) -> float:
    """Environment steps a second for this worker; 0: no limit."""
    return self._numbers[_STEPS_PER_S]

  @property
  def stream_is_broken(self) -> bool:
    """Whether streams have broken that were opened before `acknowledge`."""
    words, line = self._words, self._line
    return words[line + _EPOCH] != words[line + _ACKNOWLEDGED]

  def acknowledge(self) -> None:
    """Says that nothing is left of broken streams: the proxy lets in again."""
    words, line = self._words, self._line
    words[line + _ACKNOWLEDGED] = words[line + _EPOCH]

  @property
  def proxy_is_alive(self) -> bool:
    """Whether a proxy is at the board."""
    return self._is_locked(_PROXY_LOCK)

  @property
  def server_is_reachable(self) -> bool:
    """Whether the proxy reaches the server, as far as it knows."""
    return bool(self._words[self._reachable])
