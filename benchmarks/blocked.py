"""Benchmark `blocked`: the proxy's memory while the rate limiter blocks."""

import statistics
import time

import psutil

from benchmarks import faults, goal, processes, report, writing

GOAL_MB = 2.0  # growth of the resident set

_QUEUE_SIZE = 100  # items, so that the queue is full within a second
_ROW_BYTES = 84 * 84

_METHOD = """\
{writers} writer processes write frames (84x84 bytes of noise) by
`ItemWriter` through a WorkerProxy in its own process, to a queue of
100 items from which none is sampled, for {seconds:g} s. The resident set of the
proxy's process is measured once per second, from {settle_s:g} s after its start
on, when it has imported the modules for fetching variables."""


def measure(
  seconds: float = 600.0, writers: int = 8, settle_s: float = 20.0
) -> report.Report:
  """Measures the proxy's memory once, while the rate limiter blocks.

  Args:
    seconds: seconds for which the limiter blocks and memory is measured.
    writers: number of writer processes.
    settle_s: seconds for the proxy's start-up, before the measurement.
  """
  raw = []
  with (
    processes.crew(writers, writing.prepare, processes.ONE_THREAD) as crew,
    faults.at_a_place(_QUEUE_SIZE) as place,
  ):
    place.start("server")
    place.start("proxy")
    place.begin_writing(crew, True, _ROW_BYTES)
    time.sleep(settle_s)
    proxy = psutil.Process(place.pids["proxy"])
    start_s = time.monotonic()
    while (at_s := time.monotonic() - start_s) < seconds:
      raw.append({"at_s": at_s, "rss_mb": proxy.memory_info().rss / 1e6})
      time.sleep(1.0)
    place.end_writing(crew)
  tenth = max(1, len(raw) // 10)
  megabytes = [row["rss_mb"] for row in raw]
  first = statistics.median(megabytes[:tenth])
  last = statistics.median(megabytes[-tenth:])
  return report.Report(
    name="blocked",
    title="The proxy's memory while the rate limiter blocks",
    method=_METHOD.format(writers=writers, seconds=seconds, settle_s=settle_s),
    raw=raw,
    medians=[
      {
        "first tenth, MB": first,
        "last tenth, MB": last,
        "most, MB": max(megabytes),
      }
    ],
    goals=[
      goal.at_most(
        f"{last - first:+.2f} MB from the first to the last tenth of "
        f"{seconds:g} s, goal below {GOAL_MB:g}",
        last - first,
        GOAL_MB,
      )
    ],
  )
