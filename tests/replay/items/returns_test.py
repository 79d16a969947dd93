"""Tests of running returns: each step has the return of its own episode."""

import numpy as np
import pytest

from slipway.replay.items import adder as adder_lib
from slipway.replay.items import returns, sequence_adder, sequences, transitions
from tests.environments import given

SPEC = given.spec_of((), actions=2)
GAMMA = 0.5  # its powers are exact in float32
# Rewards and running returns of two environments. None is an autoreset, which
# follows the end of an episode.
REWARDS = [[1, 2, 4, None, 8, 16], [1, None, 2, 2, 2, None]]
RETURNS = [[1, 2.5, 5.25, None, 8, 20], [1, None, 2, 3, 3.5, None]]


def steps():
  """Yields (rewards, terminated, first) per step, each of shape [B]."""
  columns = list(zip(*REWARDS, strict=True))
  for now, after in zip(columns, [*columns[1:], (1, 1)], strict=True):
    first = np.array([x is None for x in now])
    rewards = np.array([x or 0 for x in now], np.float32)
    yield rewards, np.array([x is None for x in after]), first


def feed(adder, restore=None):
  """Yields the items of each step.

  Args:
    adder: adder of the first step.
    restore: returns a new adder, which replaces the last one after each step,
      with its state. None: all steps use the same adder.
  """
  no, output = np.zeros(2, bool), adder_lib.ActorOutput(np.zeros(2), {})
  for t, (rewards, terminated, first) in enumerate(steps()):
    now, after = np.full(2, t, np.float32), np.full(2, t + 1, np.float32)
    items = adder.add(now, output, rewards, terminated, no, first, after, 1)
    if items is not None:
      yield items
    if restore is not None:
      other = restore()
      other.set_state(adder.get_state())
      adder = other


def make_adder(n):
  schema = transitions.TransitionSchema(SPEC, n, running_returns=True)
  return schema, adder_lib.NStepAdder(schema, 2, n, GAMMA)


@pytest.mark.parametrize("restored", [False, True])
@pytest.mark.parametrize("n", [1, 2])
def test_a_transition_has_the_return_after_its_first_step(n, restored):
  schema, adder = make_adder(n)
  restore = (lambda: make_adder(n)[1]) if restored else None
  found = set()
  for items in feed(adder, restore):
    fields = schema.record.unpack(items.records)
    found |= set(zip(fields["o_tm1"], fields[returns.FIELD], strict=True))
  expected = {
    (float(t), float(value))
    for values in RETURNS
    for t, value in enumerate(values)
    if value is not None and (t + n < len(values) or None in values[t + 1 :])
  }
  assert found == expected


@pytest.mark.parametrize("restored", [False, True])
def test_a_sequence_has_the_returns_of_all_steps(restored):
  extras = {returns.FIELD: (np.dtype(np.float32), ())}
  schema = sequences.SequenceSchema(SPEC, 3, extras)

  def make():
    return sequence_adder.SequenceAdder(schema, 2, 3, GAMMA)

  records = np.concatenate(
    [items.records for items in feed(make(), make if restored else None)]
  )
  found = schema.record.unpack(records)[returns.FIELD]
  expected = np.array([[x or 0 for x in values] for values in RETURNS])
  np.testing.assert_array_equal(
    found, expected.reshape(2, 2, 3).swapaxes(0, 1).reshape(4, 3)
  )
