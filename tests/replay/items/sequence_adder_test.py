"""Tests of the sequence adder against a log of all environment steps."""

import numpy as np
import pytest
import tensorflow as tf
from acme import specs

from slipway.replay.items import adder as adder_lib
from slipway.replay.items import sequence_adder, sequences
from tests.environments import given
from tests.replay.items import given as items_given

STATE = 5
VALUES, ZERO, Priority = (
  items_given.VALUES,
  items_given.ZERO,
  items_given.Priority,
)

SPEC = given.spec_of((2,), actions=4)
FLOAT_ACTIONS = SPEC._replace(
  actions=specs.BoundedArray((3,), np.float32, -1, 1)
)


def make_adder(steps, period, envs, priority=ZERO, spec=SPEC):
  schema = sequences.SequenceSchema(
    spec,
    steps,
    step_extras={"log_probability": (np.dtype(np.float32), ())},
    start_extras={"state": (np.dtype(np.float32), (STATE,))},
  )
  return schema, sequence_adder.SequenceAdder(
    schema, envs, period, 0.5, priority
  )


def play(envs, steps, seed=0, spec=SPEC):
  """Yields the steps of random episodes, in the form of `VectorEnvironment`."""
  random = np.random.default_rng(seed)
  first, ended = np.ones(envs, bool), np.zeros(envs, bool)
  reward = np.zeros(envs, np.float32)
  shapes = {name: (envs,) for name in (*VALUES, "log_probability")}
  shapes["state"] = (envs, STATE)
  next_observation = random.normal(size=(envs, 2)).astype(np.float32)
  for t in range(steps):
    observation = next_observation
    actions = 4 * random.random((envs, *spec.actions.shape))
    output = adder_lib.ActorOutput(
      actions.astype(spec.actions.dtype),
      {
        name: random.normal(size=shape).astype(np.float32)
        for name, shape in shapes.items()
      },
    )
    before = {"first": first, "reward_before": reward}
    first = ended
    reward = np.where(first, 0, random.normal(size=envs)).astype(np.float32)
    ended = ~first & (random.random(envs) < 0.2)
    terminated = ended & (random.random(envs) < 0.5)
    next_observation = random.normal(size=(envs, 2)).astype(np.float32)
    yield (
      observation,
      output,
      reward,
      terminated,
      ended & ~terminated,
      first,
      next_observation,
      {**before, "version": t // 3},
    )


def feed(adder, log):
  """Yields the items of each step."""
  for *step, info in log:
    yield adder.add(*step, version=info["version"])


def expect_window(log, start, steps, env):
  """Returns the expected fields of one environment's window, from the log."""
  window = log[start : start + steps]
  observations = [step[0][env] for step in window]
  first = [step[7]["first"][env] for step in window]
  return {
    "observation": [*observations, window[-1][6][env]],
    "action": [step[1].action[env] for step in window],
    "reward": [step[2][env] for step in window],
    "discount": [0.5 * (not step[3][env]) for step in window],
    "ended": [step[3][env] or step[4][env] for step in window],
    "first": [*first, window[-1][5][env]],
    "reward_before": window[0][7]["reward_before"][env],
    "action_before": (
      log[start - 1][1].action[env]
      if start
      else np.zeros_like(window[0][1].action[env])
    ),
    "log_probability": [
      step[1].extras["log_probability"][env] for step in window
    ],
    "state": window[0][1].extras["state"][env],
    "version": [step[7]["version"] for step in window],
  }


@pytest.mark.parametrize(
  ("steps", "period", "spec", "priority"),
  [
    (1, 1, SPEC, ZERO),
    (1, 1, FLOAT_ACTIONS, None),
    (4, 2, FLOAT_ACTIONS, ZERO),
    (5, 3, SPEC, None),
    (6, 6, SPEC, ZERO),
    (3, 1, FLOAT_ACTIONS, None),
    (8, 8, SPEC, None),
  ],
)
def test_windows_equal_the_logged_steps(steps, period, spec, priority):
  """Without a priority, a window is returned by the step that completes it."""
  envs, length = 3, 40
  log = list(play(envs, length, spec=spec))
  schema, adder = make_adder(steps, period, envs, priority, spec)
  delay = 0 if priority is None else 1  # in steps
  starts = []
  for t, items in enumerate(feed(adder, log), start=1):
    start = t - steps - delay
    if start < 0 or start % period:
      assert items is None
      continue
    starts.append(start)
    np.testing.assert_array_equal(
      items.priorities, np.full(envs, priority is None)
    )
    records = schema.record.unpack(items.records)
    for env in range(envs):
      expected = expect_window(log, start, steps, env)
      assert set(expected) == set(records)
      for name, value in expected.items():
        np.testing.assert_array_equal(records[name][env], value, err_msg=name)
  assert len(starts) == (length - steps - delay) // period + 1


def test_each_window_has_a_priority():
  seen = []

  def priority(fields):
    seen.append(fields)
    return np.arange(3)

  log = list(play(3, 12))
  _, adder = make_adder(4, 4, 3, Priority(priority))
  items = [found for found in feed(adder, log) if found is not None]
  assert len(items) == len(seen) == 2
  for number, (found, fields) in enumerate(zip(items, seen, strict=True)):
    np.testing.assert_array_equal(found.priorities, [0, 1, 2])
    window = log[4 * number : 4 * number + 5]
    np.testing.assert_array_equal(
      fields[VALUES[1]],
      np.stack([step[1].extras[VALUES[1]] for step in window], 1),
    )
    np.testing.assert_array_equal(
      fields[VALUES[0]],
      np.stack([step[1].extras[VALUES[0]] for step in window[:-1]], 1),
    )
    assert fields["first"].shape == (3, 5)


@pytest.mark.parametrize("priority", [np.nan, -1.0])
def test_a_priority_that_no_table_can_hold_is_rejected(priority):
  _, adder = make_adder(2, 1, 3, Priority(lambda _: np.full(3, priority)))
  with pytest.raises(ValueError, match="must be finite"):
    list(feed(adder, play(3, 5)))


@pytest.mark.parametrize("at", [1, 3, 7, 11])
@pytest.mark.parametrize("priority", [ZERO, None], ids=["priority", "none"])
def test_another_adder_continues_equally(at, priority):
  log = list(play(3, 25))
  _, whole = make_adder(4, 3, 3, priority)
  expected = list(feed(whole, log))[at:]
  _, one = make_adder(4, 3, 3, priority)
  list(feed(one, log[:at]))
  state = one.get_state()
  list(feed(one, log[at:]))  # must not change the state
  _, other = make_adder(4, 3, 3, priority)
  other.set_state(state)
  for items, wanted in zip(feed(other, log[at:]), expected, strict=True):
    assert (items is None) == (wanted is None)
    if wanted is not None:
      np.testing.assert_array_equal(items.records, wanted.records)


def test_extras_of_observations_include_that_after_the_last_step():
  number = (np.dtype(np.float32), ())
  schema = sequences.SequenceSchema(
    SPEC, 4, observation_extras={VALUES[1]: number}
  )
  adder = sequence_adder.SequenceAdder(schema, 3, 4, 0.5)
  log = list(play(3, 9))
  items = [found for found in feed(adder, log) if found is not None]
  for start, found in zip((0, 4), items, strict=True):
    np.testing.assert_array_equal(
      schema.record.unpack(found.records)[VALUES[1]],
      np.stack(
        [step[1].extras[VALUES[1]] for step in log[start : start + 5]],
        1,
      ),
    )
    unpacked, _ = schema.unpack(tf.constant(found.data()))
    assert unpacked.extras[VALUES[1]].shape == (3, 5)
