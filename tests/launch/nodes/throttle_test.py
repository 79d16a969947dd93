"""Throttle: means, bursts and changes of the rate, with a simulated clock.

Nothing sleeps: where a loop has to wait, its clock is put forward.
"""

import itertools

import pytest

from slipway.launch.nodes import throttle

BURST_S = 0.1


class Loop:
  """A loop that makes batches of steps as its throttle allows."""

  def __init__(self, steps, batch_s=0.0):
    self.throttle = throttle.Throttle()
    self.now_s, self.made = 1e5, 0
    self._steps, self._batch_s = steps, batch_s

  def turn(self, rate):
    """Makes one batch, as soon as it may."""
    for turns in itertools.count():
      assert turns < 5, "it is never let go"
      wait_s = self.throttle.get_wait_s(rate, self.now_s)
      if wait_s == 0.0:
        break
      assert wait_s > 0.0
      self.now_s += wait_s
    self.now_s += self._batch_s
    self.made += self._steps
    self.throttle.record_steps(self._steps, rate, self.now_s)

  def run(self, rate, seconds):
    """Runs for so long; returns the steps that it made."""
    before, end_s = self.made, self.now_s + seconds
    while self.now_s < end_s:
      self.turn(rate)
    return self.made - before


@pytest.mark.parametrize("steps", [1, 8, 64])
@pytest.mark.parametrize("rate", [3.0, 100.0, 7_777.7])
@pytest.mark.parametrize("part", [0.0, 0.5, 0.99])
def test_the_rate_is_kept_on_average(steps, rate, part):
  # A batch's steps take a part of the time that they are given.
  loop = Loop(steps, batch_s=part * steps / rate)
  began_s = loop.now_s
  for _ in range(1_000):
    loop.turn(rate)
  average = loop.made / (loop.now_s - began_s)
  assert average == pytest.approx(rate, rel=0.01)


def test_slow_steps_are_made_up_for():
  # Each tenth takes as long as five; the others leave the time for it.
  loop, rate, began_s = Loop(1), 100.0, 1e5
  for turn in range(5_000):
    loop.turn(rate)
    loop.now_s += 0.05 if turn % 10 == 0 else 0.0
  average = loop.made / (loop.now_s - began_s)
  assert average == pytest.approx(rate, rel=0.01)


def test_who_is_slower_than_asked_never_waits():
  loop, rate = Loop(8, batch_s=0.1), 100.0
  for _ in range(100):
    loop.turn(rate)
    assert loop.throttle.get_wait_s(rate, loop.now_s) == 0.0


@pytest.mark.parametrize("steps", [1, 8, 64])
@pytest.mark.parametrize("rate", [10.0, 1_000.0])
def test_no_burst_after_a_gap(steps, rate):
  loop = Loop(steps)
  loop.run(rate, 10 * max(1.0, steps / rate))
  loop.now_s += 100.0
  at_once = 0
  while loop.throttle.get_wait_s(rate, loop.now_s) == 0.0:
    loop.turn(rate)
    at_once += steps
  # What may be caught up, and the batch with which it is exceeded.
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
    loop.turn(0.0)
  assert loop.now_s == 1e5


# rate before, rate after, seconds until the next batch of 8 steps after it
CHANGES = [
  (100.0, 10.0, 0.8),
  (10.0, 100.0, 0.08),
  (1.0, 1e6, 0.0),
  (10.0, 0.0, 0.0),
  (0.0, 10.0, 0.0),  # What was made without a limit is not owed.
]


@pytest.mark.parametrize(("before", "after", "wait_s"), CHANGES)
def test_a_changed_rate_acts_at_once(before, after, wait_s):
  loop = Loop(8)
  for _ in range(20):
    loop.turn(before)
  waits_s = loop.throttle.get_wait_s(after, loop.now_s)
  assert waits_s == pytest.approx(wait_s, abs=1e-4)
  # And from then on.
  if after:
    for _ in range(2):
      loop.turn(after)
    expected_s = 8 / after
    assert loop.throttle.get_wait_s(after, loop.now_s) == pytest.approx(
      expected_s, abs=1e-4
    )


def test_a_rate_that_is_raised_in_the_middle_of_a_wait():
  limit = throttle.Throttle()
  limit.record_steps(100, 1.0, 0.0)
  assert limit.get_wait_s(1.0, 1.0) == pytest.approx(99.0)
  assert limit.get_wait_s(99.0, 1.0) == pytest.approx(1.0)
