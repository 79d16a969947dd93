"""The sequence adder against a record of what each environment went through."""

import numpy as np
import pytest
from acme import specs

from replay import adder as adder_lib
from replay import sequences

STATE = 5
SPEC = specs.EnvironmentSpec(
  observations=specs.Array((2,), np.float32),
  actions=specs.DiscreteArray(4),
  rewards=specs.Array((), np.float32),
  discounts=specs.BoundedArray((), np.float32, 0, 1),
)


def zero(thoughts):
  return np.zeros(len(thoughts.reward), np.float32)


def make_adder(steps, period, envs, priority=zero):
  layout = sequences.SequenceLayout(SPEC, steps, STATE)
  return layout, sequences.SequenceAdder(layout, envs, period, 0.5, priority)


def play(envs, steps, seed=0):
  """A record of random episodes, as `VectorEnvironment` would give them."""
  random = np.random.default_rng(seed)
  first, ended = np.ones(envs, bool), np.zeros(envs, bool)
  reward = np.zeros(envs, np.float32)
  for t in range(steps):
    observation = random.normal(size=(envs, 2)).astype(np.float32)
    decision = adder_lib.Decision(
      random.integers(0, 4, envs).astype(np.int32),
      random.normal(size=envs).astype(np.float32),
      random.normal(size=envs).astype(np.float32),
      random.normal(size=(envs, STATE)).astype(np.float32),
    )
    before = {"first": first, "reward_before": reward}
    first = ended
    reward = np.where(first, 0, random.normal(size=envs)).astype(np.float32)
    ended = ~first & (random.random(envs) < 0.2)
    terminated = ended & (random.random(envs) < 0.5)
    yield (
      observation,
      decision,
      reward,
      terminated,
      ended & ~terminated,
      first,
      {
        **before,
        "version": t // 3,
      },
    )


def feed(adder, record):
  """The items of each step."""
  for *step, about in record:
    yield adder.add(*step, version=about["version"])


@pytest.mark.parametrize(
  ("steps", "period"), [(1, 1), (4, 2), (5, 3), (6, 6), (3, 1)]
)
def test_windows_are_what_happened(steps, period):
  envs, length = 3, 40
  record = list(play(envs, length))
  layout, adder = make_adder(steps, period, envs)
  found = list(feed(adder, record))
  starts = []
  for t, items in enumerate(found):
    start = t - steps
    if start < 0 or start % period:
      assert items is None
      continue
    starts.append(start)
    rows = layout.row.unpack(items.rows)
    window, last = record[start:t], record[t]
    for env in range(envs):
      expected = {
        "observation": [step[0][env] for step in (*window, last)],
        "action": [step[1].action[env] for step in window],
        "reward": [step[2][env] for step in window],
        "discount": [0.5 * (not step[3][env]) for step in window],
        "ended": [step[3][env] or step[4][env] for step in window],
        "first": [step[6]["first"][env] for step in (*window, last)],
        "reward_before": window[0][6]["reward_before"][env],
        "action_before": record[start - 1][1].action[env] if start else 0,
        "state": window[0][1].state[env],
        "version": window[0][6]["version"],
      }
      assert set(expected) == set(rows)
      for name, value in expected.items():
        np.testing.assert_array_equal(rows[name][env], value, err_msg=name)
  assert len(starts) == (length - steps - 1) // period + 1


def test_priorities_are_asked_for_each_window():
  seen = []

  def priority(thoughts):
    seen.append(thoughts)
    return np.arange(3, dtype=np.float32)

  record = list(play(3, 12))
  _, adder = make_adder(4, 4, 3, priority)
  items = [found for found in feed(adder, record) if found is not None]
  assert len(items) == len(seen) == 2
  for number, (found, thoughts) in enumerate(zip(items, seen, strict=True)):
    np.testing.assert_array_equal(found.priorities, [0, 1, 2])
    window = record[4 * number : 4 * number + 5]
    np.testing.assert_array_equal(
      thoughts.value_of_state,
      np.stack([step[1].value_of_state for step in window], 1),
    )
    np.testing.assert_array_equal(
      thoughts.value_of_action,
      np.stack([step[1].value_of_action for step in window[:-1]], 1),
    )
    assert thoughts.first.shape == (3, 5)


@pytest.mark.parametrize("priority", [np.nan, -1.0])
def test_a_priority_that_no_table_can_hold_is_refused(priority):
  _, adder = make_adder(2, 1, 3, lambda _: np.full(3, priority, np.float32))
  with pytest.raises(ValueError, match="must be finite"):
    list(feed(adder, play(3, 5)))


@pytest.mark.parametrize("at", [1, 3, 7, 11])
def test_another_adder_goes_on_equally(at):
  record = list(play(3, 25))
  _, whole = make_adder(4, 3, 3)
  expected = list(feed(whole, record))[at:]
  _, one = make_adder(4, 3, 3)
  list(feed(one, record[:at]))
  state = one.get_state()
  list(feed(one, record[at:]))  # leaves the state alone
  _, other = make_adder(4, 3, 3)
  other.set_state(state)
  for items, wanted in zip(feed(other, record[at:]), expected, strict=True):
    assert (items is None) == (wanted is None)
    if wanted is not None:
      np.testing.assert_array_equal(items.rows, wanted.rows)
