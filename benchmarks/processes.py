"""Processes of a measurement: fresh ones, so that none warms up another."""

import contextlib
import multiprocessing
import os
import time
import typing
from collections.abc import Callable, Iterator
from concurrent import futures

import psutil

_CONTEXT = multiprocessing.get_context("spawn")
_START_UP_S = 120.0

# What the program gives its workers: small batches gain nothing by threads.
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
  """Calls a module's function in a new process; returns or raises as it does.

  Args:
    function: of a module's top level.
    *args: picklable.
    environment: variables of the new process besides this one's.
  """
  with (
    _environment(environment or {}),
    futures.ProcessPoolExecutor(1, mp_context=_CONTEXT) as pool,
  ):
    return pool.submit(function, *args).result()


class Cpu(typing.NamedTuple):
  """Seconds that have passed, on the wall and of a process's CPU time."""

  wall_s: float
  cpu_s: float


@contextlib.contextmanager
def serving(start: Callable, *args) -> Iterator[tuple[int, str]]:
  """Serves in a process of its own until the block ends.

  Args:
    start: a module's function; returns an object that serves for as long as it
      lives, and its address.
    *args: of `start`.

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
    process.join(5.0)
    if process.is_alive():
      process.kill()
      process.join()


def cpu(pid: int | None = None) -> Cpu:
  """The times of a process, by default of this one, all its threads."""
  times = psutil.Process(pid).cpu_times()
  return Cpu(time.perf_counter(), times.user + times.system)


def since(start: Cpu, pid: int | None = None) -> Cpu:
  """What has passed since `start`, which `cpu` returned for the same `pid`."""
  now = cpu(pid)
  return Cpu(now.wall_s - start.wall_s, now.cpu_s - start.cpu_s)


def _serve(connection, start, args) -> None:
  server, address = start(*args)
  connection.send(address)
  # Until the other end is closed, which also its owner's death does.
  with contextlib.suppress(EOFError):
    connection.recv()
  del server
  # Reverb's server waits for its clients' streams otherwise.
  os._exit(0)


@contextlib.contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
  before = dict(os.environ)
  os.environ.update(variables)
  try:
    yield
  finally:
    os.environ.clear()
    os.environ.update(before)
