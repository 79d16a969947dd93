"""The benchmarks `proxy` and `variables`, at a small scale, on real servers."""

import math
import os
import pathlib

import pytest

from benchmarks import processes, proxy, variables, writing_rig

_EFFORT = writing_rig.Effort(warm_up_s=0.1, window_s=0.4, flushes=20)


@pytest.fixture(scope="module")
def written():
  return proxy.measure(1, items=("small",), writers=(2,), effort=_EFFORT)


@pytest.mark.benchmarks
def test_sides_alternate_and_all_writers_write(written):
  cases = list(dict.fromkeys(row["case"] for row in written.raw))
  assert cases[0] == "small, shared, 2 writers"
  assert cases[-1] == "small, shared, each flushed"
  assert [(row["case"], row["side"]) for row in written.raw] == [
    (case, side) for case in cases for side in ("direct", "proxy")
  ]
  for row in written.raw:
    assert row["items_per_s"] > 0
    if row["each_flushed"]:
      assert row["confirmed"] == _EFFORT.flushes
      assert 0 < row["flush_median_ms"] <= row["flush_p99_ms"]
      assert row["proxy_cpu_us"] is None
    else:
      assert row["confirmed"] > 0
      assert row["writers_cpu_us"] > 0
      assert row["flush_median_ms"] is None


@pytest.mark.benchmarks
def test_each_case_has_its_ratio_and_its_goals(written):
  for row in written.medians:
    direct, through = [r for r in written.raw if r["case"] == row["case"]]
    assert row["ratio"] == pytest.approx(
      through["items_per_s"] / direct["items_per_s"]
    )
    lines = [goal for goal in written.goals if goal.startswith(row["case"])]
    # The proxy's CPU time is compared only if all processes share all cores.
    assert len(lines) == 1 + row["case"].endswith("shared, 2 writers")
    assert all("reached" in line for line in lines)
  assert written.markdown({}).count("small, shared, each flushed") == 2


@pytest.mark.benchmarks
def test_the_server_sends_each_version_once_to_the_proxy():
  report = variables.measure(
    1, readers=2, versions=2, size=100_000, period_s=0.2
  )
  direct, through = report.raw
  assert (direct["side"], through["side"]) == ("direct", "proxy")
  for row in report.raw:
    assert (row["readers"], row["versions"]) == (2, 2)
    assert 0 < row["copy_median_ms"] <= row["copy_max_ms"]
    assert 0 < row["last_median_ms"] <= row["last_max_ms"]
    # A reader skips a version if it gets no CPU time while that is the newest.
    assert 2 <= 4 - row["skipped"] <= 4
  # A fetch that began just before a version was published is repeated.
  assert direct["samples_per_version"] >= (4 - direct["skipped"]) / 2
  assert 0.5 <= through["samples_per_version"] <= 1.5
  assert len(report.goals) == 5
  assert report.goals[0].startswith("samples a version at the server: ")


def test_a_pinned_process_has_all_threads_on_its_cores():
  core = min(os.sched_getaffinity(0))
  with processes.crew(2, os.getpid, {}) as (pinned, other):
    assert pinned.call(os.getpid) == pinned.pid != other.pid
    processes.pin(pinned.pid, [core])
    threads = os.listdir(f"/proc/{pinned.pid}/task")
    assert [os.sched_getaffinity(int(t)) for t in threads] == [{core}] * len(
      threads
    )
    assert other.call(os.sched_getaffinity, 0) == os.sched_getaffinity(0)
  assert not pathlib.Path(f"/proc/{pinned.pid}").exists()


def test_a_member_that_fails_raises_an_error():
  with processes.crew(1, os.getpid, {}) as (member,):
    assert member.call(math.sqrt, 4) == 2
    with pytest.raises(RuntimeError, match=f"process {member.pid} .* failed"):
      member.call(math.sqrt, -1)
