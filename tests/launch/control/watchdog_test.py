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


def make_watchdog(ratio=8.0, steps_per_s=0.0, **table):
  config = dqn.get_config()
  config.watchdog.period_s = PERIOD_S
  config.rates.environment_steps_per_s = steps_per_s
  config.topology.update(workers=2, environments_per_worker=8)
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


# arguments, explanation that follows the time
CASES = [
  (
    {
      "status": status_of(
        900,
        nodes={
          "trainer": run_status.NodesStatus(1, 1),
          "external": run_status.NodesStatus(0, 0),
        },
      )
    },
    "config.topology.workers=0 and no external process is connected: connect "
    "one with slipway.connect; 900 inserted x 8 - 0 sampled = 7,200 in 4,000 "
    "to 12,000; 900 items of at least 1,000",
  ),
  (
    {"status": status_of(900)},
    "the trainer waits for 100 more items in table 'transitions' before its "
    "first sample: workers must write; 900 inserted x 8 - 0 sampled = 7,200 in "
    "4,000 to 12,000; 900 items of at least 1,000",
  ),
  (
    {"status": status_of(999, 1_200, 10)},
    "the trainer waits for 1 more item in table 'transitions': workers must "
    "write; 1,200 inserted x 8 - 10 sampled = 9,590 in 4,000 to 12,000; 999 "
    "items of at least 1,000",
  ),
  (
    {"status": status_of(1_500)},
    "workers wait to insert into table 'transitions': the trainer must sample "
    "8 more items first; 1,500 inserted x 8 - 0 sampled = 12,000 in 4,000 to "
    "12,000; 1,500 items of at least 1,000",
  ),
  (
    {"status": status_of(1_500, sampled=8_000)},
    "the trainer waits for 1 more item in table 'transitions': workers must "
    "write; 1,500 inserted x 8 - 8,000 sampled = 4,000 in 4,000 to 12,000; "
    "1,500 items of at least 1,000",
  ),
  (
    {"status": status_of(1_200, sampled=99)},
    "the limiter of table 'transitions' blocks no node: a node hangs, and its "
    "log may say where; 1,200 inserted x 8 - 99 sampled = 9,501 in 4,000 to "
    "12,000; 1,200 items of at least 1,000",
  ),
  (
    {"ratio": 0.0, "status": status_of(7)},
    "the trainer waits for 993 more items in table 'transitions' before its "
    "first sample: workers must write; 7 inserted, 0 sampled; 7 items of at "
    "least 1,000",
  ),
  (
    {"ratio": 0.5, "status": status_of(1_502, sampled=1)},
    "workers wait to insert into table 'transitions': the trainer must sample "
    "1 more item first; 1,502 inserted x 0.5 - 1 sampled = 750 in 250 to 750; "
    "1,502 items of at least 1,000",
  ),
  # The rate allows 16 environments a step every 40 s or every 20 s.
  (
    {"steps_per_s": 0.4, "status": status_of(1_500, sampled=8_000)},
    "workers must write, which rates.environment_steps_per_s=0.4 allows them "
    "every 40 s: raise it; ",
  ),
  (
    {"steps_per_s": 0.8, "status": status_of(1_500, sampled=8_000)},
    "workers must write; ",
  ),
  # Other causes precede the limiter.
  (
    {"status": status_of(900), "waiting": "2 of 2 workers wait for the proxy"},
    " s): 2 of 2 workers wait for the proxy; 900 inserted",
  ),
  (
    {"status": status_of(900), "waiting": "w", "silent": ["trainer 0"]},
    " s): no report from trainer 0: the logs may give the reason; 900 inserted",
  ),
  (
    {
      "status": status_of(
        nodes={
          "trainer": run_status.NodesStatus(0, 1),
          "worker": run_status.NodesStatus(1, 2),
        }
      ),
      "silent": ["worker 1"],
    },
    " s): trainer 0 of 1 up, worker 1 of 2 up: the logs give the reason; 0 "
    "inserted",
  ),
]


# counts of three shards, whose limiters need 500 items each, the explanation
SHARDS = [
  # Workers wait: the shard that blocks them longest is named.
  (
    [(700, 700, 4_000), (760, 760, 40), (750, 750, 0)],
    "workers wait to insert into table 'transitions' of shard 1: the trainer "
    "must sample 48 more items first; 760 inserted x 8 - 40 sampled = 6,040 in "
    "2,000 to 6,000; 760 items of at least 500",
  ),
  # The trainer waits for all shards: the one that needs the fewest inserts is
  # named.
  (
    [(100, 100, 0), (490, 490, 0), (0, 0, 0)],
    "the trainer waits for 10 more items in table 'transitions' of shard 1 "
    "before its first sample: workers must write; 490 inserted x 8 - 0 sampled "
    "= 3,920 in 2,000 to 6,000; 490 items of at least 500",
  ),
]


@pytest.mark.parametrize(("counts", "words"), SHARDS)
def test_the_blocking_shard_is_named(counts, words):
  watchdog = make_watchdog(min_size=500, shards=3)
  status = run_status.RunStatus(
    nodes=NODES,
    replay=run_status.ReplayStatus(
      *map(sum, zip(*counts, strict=True)),
      shards={
        index: table_status.TableStatus(*each)
        for index, each in enumerate(counts)
      },
    ),
  )
  watchdog.update(status, True, 0.0)
  assert watchdog.update(status, True, 1_234.0)
  explanation = watchdog.explain(status, [], None)
  assert explanation.endswith(f" s): {words}")


@pytest.mark.parametrize(("case", "words"), CASES)
def test_explanations(case, words):
  case = dict(case)
  status = case.pop("status")
  silent, waiting = case.pop("silent", []), case.pop("waiting", None)
  watchdog = make_watchdog(**case)
  watchdog.update(status, True, 0.0)
  assert watchdog.update(status, True, 1_234.0)
  explanation = watchdog.explain(status, silent, waiting)
  head = re.match(
    r"no progress since \d\d:\d\d:\d\d \(1,234 s\): ", explanation
  ).group()
  assert words in explanation
  if words.startswith(("the ", "workers wait")):
    assert explanation == head + words


QUEUE = {"capacity": 100, "is_queue": True}
QUEUES = [
  (
    status_of(20, 52, 32, is_queue=True),
    "the trainer waits for 12 more items in queue 'transitions', a batch of "
    "32: workers must write; 20 items in the queue, 32 consumed",
  ),
  (
    status_of(100, 132, 32, is_queue=True),
    "workers wait because queue 'transitions' is full: the trainer must "
    "consume items; 100 items in the queue, 32 consumed",
  ),
  (
    status_of(40, 72, 32, is_queue=True),
    "the limiter of queue 'transitions' blocks no node: a node hangs, and its "
    "log may say where; 40 items in the queue, 32 consumed",
  ),
]


@pytest.mark.parametrize(("status", "explanation"), QUEUES)
def test_a_queue(status, explanation):
  watchdog = make_watchdog(**QUEUE)
  watchdog.update(status, True, 0.0)
  assert watchdog.update(status, True, 1_234.0)
  assert watchdog.explain(status, [], None).endswith(f" s): {explanation}")


@pytest.mark.parametrize("waiting", [None, "the trainer waits for the disk"])
def test_a_run_without_workers(waiting):
  config = dqn.get_config()
  watchdog = watchdog_lib.Watchdog(config, rates_lib.Rates(config, None))
  nodes = {"trainer": run_status.NodesStatus(1, 1)}
  status = run_status.RunStatus(nodes=nodes, replay=None)
  watchdog.update(status, True, 0.0)
  assert watchdog.update(status, True, 1_234.0)
  explanation = watchdog.explain(status, [], waiting)
  assert (waiting or "the trainer reads no data") in explanation
  assert "workers must write" not in explanation


def test_a_table_to_which_no_worker_writes():
  watchdog = make_watchdog()
  status = status_of(5, nodes={"trainer": run_status.NodesStatus(1, 1)})
  watchdog.update(status, True, 0.0)
  assert watchdog.update(status, True, 1_234.0)
  explanation = watchdog.explain(status, [], None)
  assert "no worker writes and the trainer hangs" in explanation
  assert "workers must write" not in explanation
