"""Tests of the throttle: mean rates, bursts and changes of the rate.

The clock is simulated: a loop that has to wait advances it instead of sleeping.
"""

import itertools

import pytest

from slipway.launch.nodes import throttle

BURST_S = 0.1


class Loop:
  """A loop that makes batches of steps when its throttle allows them."""

  def __init__(self, steps, batch_s=0.0):
    self.throttle = throttle.Throttle()
    self.now_s, self.made = 1e5, 0
    self._steps, self._batch_s = steps, batch_s

  def make_batch(self, rate):
    """Makes one batch as soon as the throttle allows it."""
    for tries in itertools.count():
      assert tries < 5, "the throttle never allows the batch"
      wait_s = self.throttle.get_wait_s(rate, self.now_s)
      if wait_s == 0.0:
        break
      assert wait_s > 0.0
      self.now_s += wait_s
    self.now_s += self._batch_s
    self.made += self._steps
    self.throttle.record_steps(self._steps, rate, self.now_s)

  def run(self, rate, seconds):
    """Runs for a number of seconds, and returns the steps that it made."""
    before, end_s = self.made, self.now_s + seconds
    while self.now_s < end_s:
      self.make_batch(rate)
    return self.made - before


@pytest.mark.parametrize("steps", [1, 8, 64])
@pytest.mark.parametrize("rate", [3.0, 100.0, 7_777.7])
@pytest.mark.parametrize("fraction", [0.0, 0.5, 0.99])
def test_the_rate_is_kept_on_average(steps, rate, fraction):
  # A batch takes this fraction of the time that the rate grants it.
  loop = Loop(steps, batch_s=fraction * steps / rate)
  began_s = loop.now_s
  for _ in range(1_000):
    loop.make_batch(rate)
  average = loop.made / (loop.now_s - began_s)
  assert average == pytest.approx(rate, rel=0.01)


def test_slow_steps_are_made_up_for():
  # Every tenth step takes as long as five. The others are fast enough to make
  # up for it.
  loop, rate, began_s = Loop(1), 100.0, 1e5
  for batch in range(5_000):
    loop.make_batch(rate)
    loop.now_s += 0.05 if batch % 10 == 0 else 0.0
  average = loop.made / (loop.now_s - began_s)
  assert average == pytest.approx(rate, rel=0.01)


def test_a_loop_slower_than_its_rate_never_waits():
  loop, rate = Loop(8, batch_s=0.1), 100.0
  for _ in range(100):
    loop.make_batch(rate)
    assert loop.throttle.get_wait_s(rate, loop.now_s) == 0.0


@pytest.mark.parametrize("steps", [1, 8, 64])
@pytest.mark.parametrize("rate", [10.0, 1_000.0])
def test_no_burst_after_a_gap(steps, rate):
  loop = Loop(steps)
  loop.run(rate, 10 * max(1.0, steps / rate))
  loop.now_s += 100.0
  at_once = 0
  while loop.throttle.get_wait_s(rate, loop.now_s) == 0.0:
    loop.make_batch(rate)
    at_once += steps
  # At most the burst, and the batch that exceeds it.
  assert steps <= at_once <= BURST_S * rate + steps


def test_the_first_batch_is_made_at_once_and_the_second_is_not():
  limit = throttle.Throttle()
  assert limit.get_wait_s(10.0, 1e5) == 0.0
  limit.record_steps(8, 10.0, 1e5)
  assert limit.get_wait_s(10.0, 1e5) == pytest.approx(0.8)
  assert limit.get_wait_s(10.0, 1e5 + 0.5) == pytest.approx(0.3)
  assert limit.get_wait_s(10.0, 1e5 + 0.81) == 0.0


def test_no_limit_never_waits():
  loop = Loop(64)
  for _ in range(100):
    assert loop.throttle.get_wait_s(0.0, loop.now_s) == 0.0
    loop.make_batch(0.0)
  assert loop.now_s == 1e5


# rate before, rate after, seconds until the next batch of 8 steps after it
CHANGES = [
  (100.0, 10.0, 0.8),
  (10.0, 100.0, 0.08),
  (1.0, 1e6, 0.0),
  (10.0, 0.0, 0.0),
  (0.0, 10.0, 0.0),  # Steps that were made without a limit are not pending.
]


@pytest.mark.parametrize(("before", "after", "wait_s"), CHANGES)
def test_a_changed_rate_applies_at_once(before, after, wait_s):
  loop = Loop(8)
  for _ in range(20):
    loop.make_batch(before)
  waits_s = loop.throttle.get_wait_s(after, loop.now_s)
  assert waits_s == pytest.approx(wait_s, abs=1e-4)
  # The new rate also applies to later batches.
  if after:
    for _ in range(2):
      loop.make_batch(after)
    expected_s = 8 / after
    assert loop.throttle.get_wait_s(after, loop.now_s) == pytest.approx(
      expected_s, abs=1e-4
    )


def test_a_rate_that_is_raised_in_the_middle_of_a_wait():
  limit = throttle.Throttle()
  limit.record_steps(100, 1.0, 0.0)
  assert limit.get_wait_s(1.0, 1.0) == pytest.approx(99.0)
  assert limit.get_wait_s(99.0, 1.0) == pytest.approx(1.0)
