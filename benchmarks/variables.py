"""Benchmark `variables`: distribution of a version to a machine's readers."""

import contextlib
import os
import statistics
import tempfile
from collections.abc import Iterator, Sequence

from benchmarks import distributing, goal, processes, report, writing

READERS = 16
SIZE = 10_000_000  # bytes
VERSIONS = 10  # of a repetition
PERIOD_S = 0.5

COPY_GOAL_MS = 10.0
LAST_GOAL_MS = 250.0

_METHOD = """\
A process with a Reverb server publishes versions of {megabytes:.0f} MB by
`VariablesPublisher` (a Nature CNN's float32 arrays, of noise, and padding),
{period_s:g} s apart, and {readers} reader processes poll for them, with 1 ms of
sleep in between. `proxy`: by `SharedVariables`, which a WorkerProxy in a
process of its own keeps up to date; `direct`: by `ServerVariables` with its
default period, over TCP from a server of their own. The processes stay, and
have copied a version before; the two sides alternate; {runs} repetitions of
{versions} versions. Samples: what the server counts. Copy: the poll that
returned a new version, on the wall and in its process's CPU time. Last: from
just before `publish` until the last reader has its copy. Medians are medians of
the repetitions' medians, maxima are over all of them. The readers share {cores}
cores and all copy at once: where cores are few, they wait for one another."""


def measure(
  runs: int,
  readers: int = READERS,
  versions: int = VERSIONS,
  size: int = SIZE,
  period_s: float = PERIOD_S,
) -> report.Report:
  """Measures readers of variables through the proxy and directly, alternately.

  Args:
    runs: repetitions of each side.
    readers: reader processes of each side.
    versions: versions per repetition.
    size: bytes of a version.
    period_s: seconds between two versions.
  """
  raw = []
  with contextlib.ExitStack() as stack:
    sides = {
      "direct": stack.enter_context(_open_direct(readers, size)),
      "proxy": stack.enter_context(_open_proxy(readers, size)),
    }
    for repetition in range(runs):
      for name, side in sides.items():
        side.run(1, period_s)  # what they have, and have to map, is not new
        measured = side.run(versions, period_s)
        raw.append({"repetition": repetition, "side": name, **measured})
  return report.Report(
    name="variables",
    title="Variables: a version's way to many readers of one machine",
    method=_METHOD.format(
      megabytes=size / 1e6,
      period_s=period_s,
      readers=readers,
      runs=runs,
      versions=versions,
      cores=len(os.sched_getaffinity(0)),
    ),
    raw=raw,
    medians=[_medians(raw, name) for name in sides],
    goals=_goals(raw),
  )


class _Side:
  """A publisher with its server, and readers, each in its own process.

  The side is 'proxy' or 'direct'.
  """

  def __init__(
    self,
    name: str,
    publisher: processes.Member,
    readers: list[processes.Member],
    place: str,
    size: int,
  ):
    self._name = name
    self._publisher = publisher
    self._readers = readers
    self._place = place
    self._size = size
    self._last_version = 1  # with which a publisher starts

  def run(self, versions: int, period_s: float) -> dict:
    """Publishes versions to all readers; returns values by column."""
    before = self._samples()
    self._last_version += versions
    for reader in self._readers:
      reader.begin(
        distributing.read, self._name, self._place, self._last_version
      )
    published = self._publisher.call(
      distributing.publish, self._size, versions, period_s
    )
    readers = [reader.end() for reader in self._readers]
    samples = self._samples() - before
    first_version = published[0].version
    copies = [
      copy
      for copied in readers
      for copy in copied
      if copy.version >= first_version
    ]
    polls_ms = [1e3 * copy.poll_s for copy in copies]
    cpu_ms = [1e3 * copy.poll_cpu_s for copy in copies]
    last_ms = [
      1e3 * (_last_s(readers, one.version) - one.at_s) for one in published
    ]
    return {
      "readers": len(readers),
      "versions": versions,
      "skipped": versions * len(readers) - len(copies),
      "samples_per_version": samples / versions,
      "copy_median_ms": statistics.median(polls_ms),
      "copy_max_ms": max(polls_ms),
      "copy_cpu_median_ms": statistics.median(cpu_ms),
      "copy_cpu_max_ms": max(cpu_ms),
      "last_median_ms": statistics.median(last_ms),
      "last_max_ms": max(last_ms),
    }

  def _samples(self) -> int:
    """Returns the number of versions that the server has sent so far."""
    return self._publisher.call(distributing.samples, self._size)


def _last_s(
  readers: Sequence[Sequence[distributing.Copied]], version: int
) -> float:
  """Returns the time at which the last reader had a version or a newer one."""
  return max(
    min(copy.at_s for copy in copied if copy.version >= version)
    for copied in readers
  )


@contextlib.contextmanager
def _open_direct(readers: int, size: int) -> Iterator[_Side]:
  """Starts the side whose readers poll the server."""
  with (
    _publisher(size) as (publisher, address),
    processes.crew(
      readers, distributing.prepare_publisher, processes.ONE_THREAD
    ) as crew,
  ):
    yield _Side("direct", publisher, crew, address, size)


@contextlib.contextmanager
def _open_proxy(readers: int, size: int) -> Iterator[_Side]:
  """Starts the side whose readers read a proxy's shared memory."""
  shared_memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
  with (
    _publisher(size) as (publisher, address),
    processes.crew(
      readers, distributing.prepare_shared_reader, processes.ONE_THREAD
    ) as crew,
    tempfile.TemporaryDirectory(dir=shared_memory) as folder,
    processes.serving(writing.serve_proxy, address, folder),
  ):
    yield _Side("proxy", publisher, crew, f"{folder}/variables", size)


@contextlib.contextmanager
def _publisher(size: int) -> Iterator[tuple[processes.Member, str]]:
  """Starts a publisher with its server; yields it and the server's address."""
  with processes.crew(1, distributing.prepare_publisher, {}) as (publisher,):
    yield publisher, publisher.call(distributing.address, size)


def _medians(raw: Sequence[report.Row], side: str) -> report.Row:
  """Returns the row of medians of a side."""
  rows = [row for row in raw if row["side"] == side]

  def median(column: str) -> float:
    return report.median(rows, column)

  def maximum(column: str) -> float:
    return max(row[column] for row in rows)

  return {
    "readers": side,
    "samples a version": median("samples_per_version"),
    "copy ms, median": median("copy_median_ms"),
    "copy ms, max": maximum("copy_max_ms"),
    "copy CPU ms, median": median("copy_cpu_median_ms"),
    "copy CPU ms, max": maximum("copy_cpu_max_ms"),
    "last ms, median": median("last_median_ms"),
    "last ms, max": maximum("last_max_ms"),
    "versions skipped": sum(row["skipped"] for row in rows),
  }


def _goals(raw: Sequence[report.Row]) -> list[str]:
  """Returns the lines of the goals."""
  direct, proxy = _medians(raw, "direct"), _medians(raw, "proxy")
  egress = proxy["samples a version"]
  goals = [
    goal.verdict(
      f"samples a version at the server: {egress:g} with the proxy "
      f"({direct['samples a version']:g} without), goal 1",
      all(r["samples_per_version"] == 1 for r in raw if r["side"] == "proxy"),
    )
  ]
  for title, column, goal_ms in (
    ("a reader's copy", "copy", COPY_GOAL_MS),
    ("from publish to the last reader", "last", LAST_GOAL_MS),
  ):
    for kind in ("median", "max"):
      value_ms = proxy[f"{column} ms, {kind}"]
      goals.append(
        goal.at_most(
          f"{title}, {kind}: {value_ms:.1f} ms with the proxy "
          f"({direct[f'{column} ms, {kind}']:.1f} ms without), goal under "
          f"{goal_ms:g} ms",
          value_ms,
          goal_ms,
        )
      )
  return goals
