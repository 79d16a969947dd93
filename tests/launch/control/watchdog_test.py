"""Tests of the watchdog: how it detects and explains a stall."""

import re

import pytest

from slipway.configs import dqn
from slipway.launch.control import rates as rates_lib
from slipway.launch.control import watchdog as watchdog_lib
from slipway.launch.runs import run_status
from slipway.replay.tables import table_status
from tests.replay import given

PERIOD_S = 30.0
NODES = {
  "trainer": run_status.NodesStatus(1, 1),
  "worker": run_status.NodesStatus(2, 2),
}


def make_watchdog(ratio=8.0, **table):
  config = dqn.get_config()
  config.watchdog.period_s = PERIOD_S
  spec = given.make_table_spec(
    **{
      "min_size": 1_000,
      "samples_per_insert": ratio,
      "batch_size": 32,
      **table,
    }
  )
  return watchdog_lib.Watchdog(config, rates_lib.Rates(config, spec))


def status_of(
  size=0, inserted=None, sampled=0, nodes=NODES, is_queue=False, **counts
):
  return run_status.RunStatus(
    nodes=nodes,
    replay=run_status.ReplayStatus(
      size=size,
      inserted=size if inserted is None else inserted,
      sampled=sampled,
      is_queue=is_queue,
    ),
    **counts,
  )


@pytest.mark.parametrize(
  "moves", ["env_steps", "trainer_steps", "inserted", "sampled"]
)
def test_a_count_that_grows_is_no_stall(moves):
  watchdog = make_watchdog()
  for count in range(4):
    status = status_of(**{moves: count})
    assert not watchdog.update(status, True, count * 0.9 * PERIOD_S)
    assert watchdog.stalled_s is None


def test_a_stall_is_detected_once():
  watchdog = make_watchdog()
  # clock in seconds, a count, whether the run works, whether a new stall is
  # detected, seconds of the stall
  for now_s, steps, working, noticed, stalled_s in [
    (100.0, 5, True, False, None),
    (130.0, 5, True, False, None),
    (130.1, 5, True, True, 30.1),
    (140.0, 5, True, False, 40.0),
    (150.0, 6, True, False, None),
    (180.0, 6, True, False, None),
    (181.0, 6, True, True, 31.0),
    (182.0, 6, False, False, None),  # paused
    (300.0, 6, False, False, None),
    (329.0, 6, True, False, None),  # since the end of the pause
    (331.0, 6, True, True, 31.0),
    # A lower count is a change, too: its node was restarted.
    (332.0, 0, True, False, None),
  ]:
    status = status_of(env_steps=steps)
    assert watchdog.update(status, working, now_s) == noticed, now_s
    assert watchdog.stalled_s == pytest.approx(stalled_s)


WAITS = "2 of 2 workers wait for the table to take items"
EXTERNAL = {
  "trainer": run_status.NodesStatus(1, 1),
  "external": run_status.NodesStatus(0, 0),
}
DOWN = {
  "trainer": run_status.NodesStatus(0, 1),
  "worker": run_status.NodesStatus(1, 2),
}

# status, silent nodes, sentence about waits, cause
CAUSES = [
  (status_of(), [], WAITS, WAITS),
  (status_of(), [], None, "no node waits, so one hangs: its log may say where"),
  (status_of(), ["trainer 0"], WAITS, "no report from trainer 0: the logs may"),
  (status_of(nodes=EXTERNAL), [], WAITS, "no external process is connected"),
  (status_of(nodes=DOWN), ["worker 1"], WAITS,
   "trainer 0 of 1 up, worker 1 of 2 up: the logs give the reason"),
]  # fmt: skip


@pytest.mark.parametrize(("status", "silent", "waiting", "cause"), CAUSES)
def test_the_cause_of_a_stall(status, silent, waiting, cause):
  watchdog = make_watchdog()
  watchdog.update(status, True, 0.0)
  assert watchdog.update(status, True, 1_234.0)
  explanation = watchdog.explain(status, silent, waiting)
  assert re.match(
    r"no progress since \d\d:\d\d:\d\d \(1,234 s\): ", explanation
  )
  assert cause in explanation
  assert explanation.endswith("; 0 items of at least 1,000")


# settings of the table, status, counts at the end of the line
COUNTS = [
  ({}, status_of(1_200, 1_500, 99),
   "1,500 inserted x 8 - 99 sampled = 11,901 in 4,000 to 12,000; 1,200 items "
   "of at least 1,000"),
  ({"ratio": 0.0}, status_of(7),
   "7 inserted, 0 sampled; 7 items of at least 1,000"),
  ({"ratio": 0.5}, status_of(1_502, sampled=1),
   "1,502 inserted x 0.5 - 1 sampled = 750 in 250 to 750; 1,502 items of at "
   "least 1,000"),
  ({"capacity": 100, "is_queue": True}, status_of(20, 52, 32, is_queue=True),
   "20 items in the queue, 32 consumed"),
]  # fmt: skip


@pytest.mark.parametrize(("table", "status", "counts"), COUNTS)
def test_the_counts_of_the_table(table, status, counts):
  explanation = make_watchdog(**table).explain(status, [], WAITS)
  assert explanation.endswith(f" s): {WAITS}; {counts}")


def test_the_counts_of_each_shard():
  watchdog = make_watchdog(min_size=500, shards=2)
  shards = {
    0: table_status.TableStatus(700, 700, 4_000),
    1: table_status.TableStatus(760, 760, 40),
  }
  replay = run_status.ReplayStatus(1_460, 1_460, 4_040, shards=shards)
  status = run_status.RunStatus(nodes=NODES, replay=replay)
  assert watchdog.explain(status, [], WAITS).endswith(
    "; shard 0: 700 inserted x 8 - 4,000 sampled = 1,600 in 2,000 to 6,000; "
    "700 items of at least 500; shard 1: 760 inserted x 8 - 40 sampled = 6,040 "
    "in 2,000 to 6,000; 760 items of at least 500"
  )


def test_a_run_without_a_table_has_no_counts():
  config = dqn.get_config()
  watchdog = watchdog_lib.Watchdog(config, rates_lib.Rates(config, None))
  nodes = {"trainer": run_status.NodesStatus(1, 1)}
  status = run_status.RunStatus(nodes=nodes, replay=None)
  assert watchdog.explain(status, [], WAITS).endswith(WAITS)
