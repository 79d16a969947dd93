"""Benchmark `recovery`: outage of the writers, and their lost items."""

import bisect
import statistics
import time

from benchmarks import faults, goal, processes, report, writing

GOAL_S = 3.0

# Processes that are killed, and the writers' connections.
CASES = {
  "server, through the proxy": ("server", True),
  "proxy": ("proxy", True),
  "server, direct": ("server", False),
}
_QUEUE_SIZE = 10_000_000  # items: it never blocks
_ROW_BYTES = 52  # of a CartPole transition
_SETTLED_S = 60.0  # the time of writers that never write again

_METHOD = """\
{writers} writer processes write batches of 8 CartPole-sized items by
`ItemWriter`, each confirmed before the next. A second later the
server or the proxy is killed by SIGKILL; {down_s:g} s later it is restarted at
the same address. The time starts when the restarted process accepts
connections, so that its start-up is not counted, and ends at the next confirmed
batch of the last writer, or of the median writer. Lost items are those of all
writers that were in flight. {runs} repetitions; a negative time is that of a
batch confirmed before the restarted process had reported that it was up."""


def measure(
  runs: int,
  writers: int = 4,
  down_s: float = 2.0,
  up_s: float = GOAL_S + 1.0,
) -> report.Report:
  """Kills the server or the proxy, and measures when writers write again.

  Args:
    runs: repetitions of each case.
    writers: number of writer processes.
    down_s: seconds between a kill and the restart.
    up_s: seconds for which the writers continue after the restart.
  """
  raw = []
  with processes.crew(writers, writing.prepare, processes.ONE_THREAD) as crew:
    for repetition in range(runs):
      for case, (victim, proxied) in CASES.items():
        row = _measure(crew, victim, proxied, down_s, up_s)
        raw.append({"repetition": repetition, "case": case, **row})
  medians, goals = [], []
  for case in CASES:
    columns = ("last_s", "median_s", "lost_items")
    last, middle, lost = (report.median(raw, c, case=case) for c in columns)
    slowest = max(row["last_s"] for row in raw if row["case"] == case)
    medians.append(
      {
        "killed": case,
        "last writer again, s": last,
        "median writer again, s": middle,
        "slowest of all, s": slowest,
        "items lost, all writers": lost,
      }
    )
    goals.append(
      goal.at_most(
        f"{case} killed: every writer writes again {slowest:.2f} s after it is "
        f"back, in the slowest repetition, goal within {GOAL_S:g} s",
        slowest,
        GOAL_S,
      )
    )
  return report.Report(
    name="recovery",
    title="A killed server and a killed proxy: seconds until steps flow again",
    method=_METHOD.format(writers=writers, down_s=down_s, runs=runs),
    raw=raw,
    medians=medians,
    goals=goals,
  )


def _measure(
  crew: list[processes.Member],
  victim: str,
  proxied: bool,
  down_s: float,
  up_s: float,
) -> report.Row:
  """Measures one repetition of a case.

  Args:
    crew: the writer processes.
    victim: 'server' or 'proxy', which is killed.
    proxied: whether the writers write through the proxy.
    down_s: seconds between the kill and the restart.
    up_s: seconds for which the writers continue after the restart.
  """
  with faults.at_a_place(_QUEUE_SIZE) as place:
    place.start("server")
    if proxied:
      place.start("proxy")
    place.begin_writing(crew, proxied, _ROW_BYTES)
    time.sleep(1.0)
    place.kill(victim)
    time.sleep(down_s)
    # The last batch before may have been confirmed while it was killed.
    silent_s = time.monotonic()
    back_s = place.start(victim)
    time.sleep(up_s)
    wrote = place.end_writing(crew)
  again_s = []
  for one in wrote:
    first = bisect.bisect(one.confirmed_at_s, silent_s)
    if first == len(one.confirmed_at_s):
      again_s.append(_SETTLED_S)  # It never did.
    else:
      again_s.append(one.confirmed_at_s[first] - back_s)
  return {
    "last_s": max(again_s),
    "median_s": statistics.median(again_s),
    "lost_items": sum(one.lost for one in wrote),
  }
