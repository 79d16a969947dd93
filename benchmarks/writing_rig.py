"""Rig of the benchmark `proxy`: writers, a server and its proxy."""

import contextlib
import dataclasses
import os
import tempfile
import time
from collections.abc import Iterator

import numpy as np

from benchmarks import processes, report, writing

SHARED, SPARE = "shared", "a core to spare"
SIDES = ("direct", "proxy")

_CONNECT_S = 0.2  # for all writers, before the warm-up
_WARM_UP_FLUSHES = 100


@dataclasses.dataclass(frozen=True)
class Case:
  """One case of the benchmark `proxy`.

  Attributes:
    items: kind of items, as for `writing.make_rows`.
    placement: `SHARED`, all processes on all cores; or `SPARE`, writers and
      server on one core and the proxy on another.
    writers: number of writer processes.
    each_flushed: whether one writer waits for the confirmation of each item;
      otherwise all write at full speed.
  """

  items: str
  placement: str
  writers: int
  each_flushed: bool = False

  @property
  def name(self) -> str:
    """The case's name in the report."""
    how = "each flushed" if self.each_flushed else f"{self.writers} writers"
    return f"{self.items}, {self.placement}, {how}"


@dataclasses.dataclass(frozen=True)
class Effort:
  """Durations of each measurement.

  Attributes:
    warm_up_s: seconds of writing before the measurement.
    window_s: seconds of the measurement.
    flushes: items that are flushed one by one.
  """

  warm_up_s: float = 0.7
  window_s: float = 2.5
  flushes: int = 2_000


@dataclasses.dataclass(frozen=True)
class Rig:
  """The running processes of a measurement: writers, a server and its proxy.

  Attributes:
    crew: the writers.
    pids: process ids, by 'server' and 'proxy'.
    addresses: addresses to which writers connect, by side.
    cores: cores that may be used.
    rows: records to write, uint8 [M, record_bytes].
  """

  crew: list[processes.Member]
  pids: dict[str, int]
  addresses: dict[str, str]
  cores: list[int]
  rows: np.ndarray

  def place(self, placement: str) -> None:
    """Pins all processes to the cores of a placement."""
    writers, proxy = self.cores, self.cores
    if placement == SPARE:
      writers, proxy = self.cores[:1], self.cores[1:2]
    for pid in (*(m.pid for m in self.crew), self.pids["server"]):
      processes.pin(pid, writers)
    processes.pin(self.pids["proxy"], proxy)

  def measure(self, case: Case, side: str, effort: Effort) -> report.Row:
    """Runs the writers of a case on one side, and measures them.

    Args:
      case: the case.
      side: key of `addresses`.
      effort: durations of the measurement.

    Returns:
      Values by column, the same for each case; None for those not measured.
    """
    address = self.addresses[side]
    if case.each_flushed:
      return self._flush_each(address, effort)
    return self._write(address, case.writers, effort)

  def _write(self, address: str, writers: int, effort: Effort) -> report.Row:
    """Measures writing at full speed; returns values by column."""
    start_s = time.monotonic() + _CONNECT_S + effort.warm_up_s
    window = writing.Window(start_s, start_s + effort.window_s)
    at_work = self.crew[:writers]
    for member in at_work:
      member.begin(writing.write, address, self.rows, window)
    _sleep_until(window.start_s)
    start = {name: processes.cpu(pid) for name, pid in self.pids.items()}
    _sleep_until(window.end_s)
    passed = {
      name: processes.since(start[name], pid) for name, pid in self.pids.items()
    }
    written = [member.end() for member in at_work]
    items = sum(one.items for one in written)
    items_per_s = sum(one.items / one.wall_s for one in written)
    cpu_us = {
      "writers": 1e6 * sum(one.cpu_s for one in written) / items,
      # By rates: a writer's window ends with a flush of its own.
      **{
        name: 1e6 * one.cpu_s / one.wall_s / items_per_s
        for name, one in passed.items()
      },
    }
    return _row(items, items_per_s, cpu_us=cpu_us)

  def _flush_each(self, address: str, effort: Effort) -> report.Row:
    """Measures items that are flushed one by one; returns values by column."""
    seconds = self.crew[0].call(
      writing.flush_each,
      *(address, self.rows, _WARM_UP_FLUSHES, effort.flushes),
    )
    return _row(
      effort.flushes, effort.flushes / float(seconds.sum()), flush_s=seconds
    )


@contextlib.contextmanager
def open_rig(
  crew: list[processes.Member], cores: list[int], rows: np.ndarray
) -> Iterator[Rig]:
  """Starts a server and its proxy, and stops them at the end of the block.

  Args:
    crew: writers, prepared by `writing.prepare`.
    cores: cores that may be used.
    rows: uint8 [M, record_bytes], the records to write.
  """
  shared_memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
  with (
    tempfile.TemporaryDirectory(dir=shared_memory) as folder,
    processes.serving(writing.serve, rows) as server,
    processes.serving(writing.serve_proxy, server[1], folder) as proxy,
  ):
    yield Rig(
      crew=crew,
      pids={"server": server[0], "proxy": proxy[0]},
      addresses={"direct": server[1], "proxy": proxy[1]},
      cores=cores,
      rows=rows,
    )


def _row(items, items_per_s, cpu_us=None, flush_s=None) -> report.Row:
  """Makes a row; columns that were not measured are None."""
  cpu_us = cpu_us or dict.fromkeys(("writers", "server", "proxy"))
  timed = flush_s is not None
  return {
    "confirmed": items,
    "items_per_s": items_per_s,
    **{f"{name}_cpu_us": value for name, value in cpu_us.items()},
    "flush_median_ms": 1e3 * float(np.median(flush_s)) if timed else None,
    "flush_p99_ms": 1e3 * float(np.quantile(flush_s, 0.99)) if timed else None,
  }


def _sleep_until(monotonic_s: float) -> None:
  time.sleep(max(0.0, monotonic_s - time.monotonic()))
