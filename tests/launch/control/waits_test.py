"""Tests of the sentences that describe waits."""

import datetime

import pytest

from slipway.launch.control import waits

NOW_S = 1.7e9


def clock(waited_s):
  """Returns the time of day at which a wait began."""
  return f"{datetime.datetime.fromtimestamp(NOW_S - waited_s):%H:%M:%S}"


SERVER = waits.make_server_reason("localhost:7000")
PROXY_DOWN = "the proxy, which is gone"

# role, expected nodes, (reason, seconds) of each waiting node, the sentence
SENTENCES = [
  ("worker", 3, [], None),
  ("worker", 2, [(SERVER, 14.2), (SERVER, 13.9)],
   "2 of 2 workers wait for the replay server at localhost:7000, which is "
   f"down, since {clock(14.2)} (14 s)"),
  ("worker", 3, [(waits.TABLE, 8.0)],
   f"1 of 3 workers wait for the table to take items, since {clock(8.0)} "
   "(8 s): the trainer must sample"),
  # Equal reasons are merged, and the longest wait is first.
  ("worker", 3, [(SERVER, 5.0), (PROXY_DOWN, 4_000.0), (SERVER, 7.0)],
   f"1 of 3 workers wait for the proxy, which is gone, since {clock(4_000.0)} "
   "(4,000 s); 2 of 3 workers wait for the replay server at localhost:7000, "
   f"which is down, since {clock(7.0)} (7 s)"),
  ("worker", 1, [(PROXY_DOWN, 4.0)],
   f"the worker waits for the proxy, which is gone, since {clock(4.0)} (4 s)"),
  ("proxy", 2, [(SERVER, 4.0)],
   "1 of 2 proxies wait for the replay server at localhost:7000, which is "
   f"down, since {clock(4.0)} (4 s)"),
  ("trainer", 1, [(waits.TRANSITIONS, 4.0)],
   f"the trainer waits for transitions, since {clock(4.0)} (4 s): workers must "
   "write"),
]  # fmt: skip


@pytest.mark.parametrize(
  ("role", "expected", "node_waits", "sentence"), SENTENCES
)
def test_sentences(role, expected, node_waits, sentence):
  waiting = [waits.Wait(reason, waited_s) for reason, waited_s in node_waits]
  assert waits.describe(role, expected, waiting, NOW_S) == sentence
