"""Processes: runs measurements in new processes, without warm caches."""

import contextlib
import multiprocessing
import os
import sys
import time
import traceback
import typing
from collections.abc import Callable, Iterable, Iterator
from concurrent import futures
from unittest import mock

import psutil

_CONTEXT = multiprocessing.get_context("spawn")
_START_UP_S = 120.0
_CALL_S = 120.0
_CLOSE_S = 5.0

# The program's variables for workers: small batches gain nothing from threads.
ONE_THREAD = {
  "OMP_NUM_THREADS": "1",
  "OPENBLAS_NUM_THREADS": "1",
  "TF_NUM_INTRAOP_THREADS": "1",
  "TF_NUM_INTEROP_THREADS": "1",
}

Result = typing.TypeVar("Result")


def call(
  function: Callable[..., Result],
  *args,
  environment: dict[str, str] | None = None,
) -> Result:
  """Calls a function in a new process; returns its result or raises its error.

  Args:
    function: a module's top-level function.
    *args: picklable arguments.
    environment: environment variables of the new process, added to this one's.
  """
  with (
    mock.patch.dict(os.environ, environment or {}),
    futures.ProcessPoolExecutor(1, mp_context=_CONTEXT) as pool,
  ):
    return pool.submit(function, *args).result()


class Member:
  """A process that executes calls, so that it imports modules only once.

  The output of its C++ libraries is discarded. On an error, the process prints
  the traceback and exits.
  """

  def __init__(self):
    """Starts the process; `crew` stops it."""
    self._here, there = _CONTEXT.Pipe()
    self._process = _CONTEXT.Process(target=_work, args=(there,), daemon=True)
    self._process.start()
    there.close()
    self.pid = typing.cast(int, self._process.pid)

  def begin(self, function: Callable, *args) -> None:
    """Starts a call of a module's function; `end` must follow."""
    self._here.send((function, args))

  def end(self):
    """Waits for the started call, and returns its result.

    Raises:
      RuntimeError: the call raised an error, or the process died.
      TimeoutError: the call did not return within two minutes.
    """
    if not self._here.poll(_CALL_S):
      raise TimeoutError(
        f"process {self.pid} of a benchmark did not end its call within "
        f"{_CALL_S:.0f} s"
      )
    try:
      return self._here.recv()
    except EOFError as error:
      raise RuntimeError(
        f"process {self.pid} of a benchmark failed; see above for why"
      ) from error

  def call(self, function: Callable, *args):
    """Calls a module's function in the process; behaves like `end`."""
    self.begin(function, *args)
    return self.end()

  def close(self) -> None:
    """Stops the process, immediately if it is busy."""
    self._here.close()
    self._process.join(_CLOSE_S)
    if self._process.is_alive():
      self._process.kill()
      self._process.join()


@contextlib.contextmanager
def crew(
  size: int, prepare: Callable[[], object], environment: dict[str, str]
) -> Iterator[list[Member]]:
  """Starts processes, and stops them at the end of the block.

  Args:
    size: number of processes.
    prepare: a module's function that each process calls first.
    environment: environment variables of the processes, added to this one's.

  Yields:
    The processes, once all are prepared.
  """
  members: list[Member] = []
  try:
    with mock.patch.dict(os.environ, environment):
      members.extend(Member() for _ in range(size))
    for member in members:
      member.begin(prepare)
    for member in members:
      member.end()
    yield members
  finally:
    for member in members:
      member.close()


def quiet() -> None:
  """Discards this process's C++ output; Python's errors are still shown."""
  sys.stderr = os.fdopen(os.dup(2), "w", buffering=1)
  nowhere = os.open(os.devnull, os.O_WRONLY)
  os.dup2(nowhere, 2)
  os.close(nowhere)


def pin(pid: int, cores: Iterable[int]) -> None:
  """Pins all present and future threads of a process to cores.

  Args:
    pid: id of the process.
    cores: numbers of the cores, as in `os.sched_getaffinity`.
  """
  cores, pinned = set(cores), set()
  # Until none is new: one that was not yet pinned may have started another.
  while new := {int(t) for t in os.listdir(f"/proc/{pid}/task")} - pinned:
    for thread in new:
      with contextlib.suppress(ProcessLookupError):
        os.sched_setaffinity(thread, cores)
    pinned |= new


class Cpu(typing.NamedTuple):
  """Times of a process.

  Attributes:
    wall_s: seconds of a clock with an arbitrary start.
    cpu_s: CPU seconds of all threads of the process.
  """

  wall_s: float
  cpu_s: float


@contextlib.contextmanager
def serving(start: Callable, *args) -> Iterator[tuple[int, str]]:
  """Runs a server in its own process until the end of the block.

  Args:
    start: a module's function that returns the server, which must be kept
      referenced, and its address.
    *args: arguments of `start`.

  Yields:
    The process's id, and the address.
  """
  here, there = _CONTEXT.Pipe()
  process = _CONTEXT.Process(target=_serve, args=(there, start, args))
  process.start()
  there.close()
  try:
    if not here.poll(_START_UP_S):
      raise TimeoutError(f"no server was up within {_START_UP_S:.0f} s")
    address = here.recv()  # EOFError: it failed, and printed why
    yield typing.cast(int, process.pid), address
  finally:
    here.close()
    process.join(_CLOSE_S)
    if process.is_alive():
      process.kill()
      process.join()


def cpu(pid: int | None = None) -> Cpu:
  """Returns the current times of a process.

  Args:
    pid: id of the process; None: this process.
  """
  times = psutil.Process(pid).cpu_times()
  return Cpu(time.perf_counter(), times.user + times.system)


def since(start: Cpu, pid: int | None = None) -> Cpu:
  """Returns the seconds of a process since an earlier call of `cpu`.

  Args:
    start: result of `cpu` for the same process.
    pid: id of the process; None: this process.
  """
  now = cpu(pid)
  return Cpu(now.wall_s - start.wall_s, now.cpu_s - start.cpu_s)


def _work(connection) -> None:
  """Executes the calls of a connection until it is closed."""
  quiet()
  while True:
    try:
      function, args = connection.recv()
    except EOFError:  # the other end is closed, as by its owner's death
      os._exit(0)  # for a server in this process would wait for its clients
    try:
      result = function(*args)
    except BaseException:
      traceback.print_exc()
      os._exit(1)  # since resources of the failed call may block a normal exit
    with contextlib.suppress(BrokenPipeError):
      connection.send(result)


def _serve(connection, start, args) -> None:
  """Starts a server, sends its address, and waits for the connection's end."""
  server, address = start(*args)
  connection.send(address)
  # Until the other end is closed, which also its owner's death does.
  with contextlib.suppress(EOFError):
    connection.recv()
  del server
  # Reverb's server waits for its clients' streams otherwise.
  os._exit(0)
