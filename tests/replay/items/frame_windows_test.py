"""Tests of frame windows: observations are rebuilt from frames stored once.

The reference is a sequence adder that stores whole observations.
"""

import ml_collections
import numpy as np
import pytest
import tensorflow as tf

from slipway.environments import factory
from slipway.replay.items import adder as adder_lib
from slipway.replay.items import frame_windows, sequence_adder, sequences
from slipway.replay.tables import dataset
from tests.environments import given
from tests.replay.items import given as items_given

STACK, STEPS = 3, 4
SHAPE = (5, 3)  # shape of a frame


def make_spec(shape=(STACK, *SHAPE), dtype=np.uint8):
  return given.spec_of(shape, dtype, actions=6)


def make_adder(spec, envs, steps, period, stacked_frames, priority=None):
  schema = sequences.SequenceSchema(
    spec,
    steps,
    step_extras={"log_probability": (np.dtype(np.float32), ())},
    start_extras={"state": (np.dtype(np.float32), (2,))},
    stacked_frames=stacked_frames,
  )
  return schema, sequence_adder.SequenceAdder(
    schema, envs, period, 0.9, priority
  )


def play(resets, pad, seed=0):
  """Stacks random frames by a plain loop, with resets bool [B, time]."""
  random = np.random.default_rng(seed)
  envs, length = resets.shape
  frames = random.integers(0, 256, (envs, length, *SHAPE), np.uint8)
  observations = np.zeros((length, envs, STACK, *SHAPE), np.uint8)
  for env in range(envs):
    stack = [np.zeros(SHAPE, np.uint8)] * STACK
    for t in range(length):
      newest = frames[env, t]
      if resets[env, t] and pad == "repeat":
        stack = [newest] * STACK
      elif resets[env, t] and pad == "black":
        stack = [np.zeros(SHAPE, np.uint8)] * STACK
      stack = [*stack[1:], newest]
      observations[t, env] = stack
  return observations


def feed(adder, observations, resets):
  """Returns the items of each step; no action follows the last observation."""
  random = np.random.default_rng(1)
  envs, found = len(resets), []
  for t in range(len(observations) - 1):
    extras = {
      name: random.normal(size=envs).astype(np.float32)
      for name in (*items_given.VALUES, "log_probability")
    }
    extras["state"] = random.normal(size=(envs, 2)).astype(np.float32)
    found.append(
      adder.add(
        observations[t],
        adder_lib.ActorOutput(random.integers(6, size=envs), extras),
        random.normal(size=envs).astype(np.float32),
        random.random(envs) < 0.1,
        random.random(envs) < 0.1,
        resets[:, t + 1],
        observations[t + 1],
        version=t,
      )
    )
  return found


def make_batch(schema, items):
  count = len(items.records)
  return tf.function(dataset.make_batch, autograph=False)(
    schema,
    tf.zeros([count], tf.uint64),
    tf.ones([count], tf.float64),
    tf.ones([count], tf.int64),
    tf.constant(items.data().reshape(-1, *schema.item_shape)),
  )


def check_equal(spec, observations, resets, steps, period, priority=None):
  """Compares all batches with batches of whole observations.

  Returns:
    The number of windows.
  """
  envs, stack = len(resets), spec.observations.shape[0]
  whole, whole_adder = make_adder(spec, envs, steps, period, 0, priority)
  schema, adder = make_adder(spec, envs, steps, period, stack, priority)
  expected = feed(whole_adder, observations, resets)
  found = feed(adder, observations, resets)
  assert [x is None for x in found] == [x is None for x in expected]
  windows = 0
  for items, wanted in zip(found, expected, strict=True):
    if items is None:
      continue
    windows += len(items.records)
    np.testing.assert_array_equal(items.priorities, wanted.priorities)
    batch, truth = make_batch(schema, items), make_batch(whole, wanted)
    assert batch.data.observation.dtype == tf.uint8
    tf.nest.map_structure(np.testing.assert_array_equal, batch, truth)
  return windows


SOME_PRIORITY = items_given.Priority(
  lambda fields: np.abs(fields["reward"]).sum(1)
)


@pytest.mark.parametrize("pad", ["black", "repeat", "continue"])
@pytest.mark.parametrize(
  ("period", "priority"), [(STEPS, None), (2, SOME_PRIORITY)]
)
def test_observations_are_rebuilt_for_all_patterns_of_resets(
  pad, period, priority
):
  """Covers all reset patterns of two windows, one pattern per environment."""
  length = 2 * STEPS + 1 + (priority is not None)
  patterns = np.arange(2**length)[:, None] >> np.arange(length) & 1
  resets = patterns.astype(bool)
  observations = play(resets, pad)
  windows = check_equal(
    make_spec(), observations, resets, STEPS, period, priority
  )
  assert windows == len(patterns) * (2 if priority is None else 3)


def test_each_frame_is_stored_once():
  """Each observation has a new frame; one more is black, for resets."""
  windows = frame_windows.FrameWindows((STACK, *SHAPE), STEPS)
  assert windows.num_frames == STEPS + STACK + 1


def test_frames_without_padding_are_rebuilt():
  """Frames of 8 bytes need no padding; `SHAPE`'s 15 bytes are padded to 16."""
  spec = make_spec((2, 4, 2))
  random = np.random.default_rng(0)
  frames = random.integers(0, 256, (10, 2, 4, 2), np.uint8)
  observations = np.stack([frames[:-1], frames[1:]], axis=2)
  resets = np.zeros((2, 9), bool)
  assert check_equal(spec, observations, resets, 4, 4) == 4


def test_stacks_of_atari_are_rebuilt():
  config = ml_collections.ConfigDict({"name": "ALE/Pong-v5", "time_limit": 7})
  config.kwargs = ml_collections.ConfigDict({"noop_max": 3})
  environment = factory.make(config, num_envs=3, seed=0)
  random, step = np.random.default_rng(0), environment.reset()
  observations, resets = [step.observation], [step.first]
  for _ in range(64):
    step = environment.step(random.integers(6, size=3, dtype=np.int32))
    observations.append(step.observation)
    resets.append(step.first)
  environment.close()
  resets = np.stack(resets, axis=1)
  assert resets[:, 1:].sum() > 20
  spec = environment.spec
  assert check_equal(spec, observations, resets, 16, 16) == 12


def test_another_adder_continues_equally():
  resets = np.random.default_rng(0).random((5, 15)) < 0.3
  observations = play(resets, "repeat")
  _, whole = make_adder(make_spec(), 5, STEPS, STEPS, STACK)
  expected = feed(whole, observations, resets)
  _, one = make_adder(make_spec(), 5, STEPS, STEPS, STACK)
  for t in (1, 4, 6, 11):
    _, one = make_adder(make_spec(), 5, STEPS, STEPS, STACK)
    feed(one, observations[: t + 1], resets)
    _, other = make_adder(make_spec(), 5, STEPS, STEPS, STACK)
    other.set_state(one.get_state())
    found = feed(other, observations[t:], resets[:, t:])
    shapes = [x is not None for x in found]
    assert shapes == [x is not None for x in expected[t:]]
    for items, wanted in zip(found, expected[t:], strict=True):
      if items is not None:
        start = frame_bytes(items)
        np.testing.assert_array_equal(start, frame_bytes(wanted))


def frame_bytes(items):
  windows = frame_windows.FrameWindows((STACK, *SHAPE), STEPS)
  return items.records[:, : windows.num_frames * windows.frame_bytes]


def unknown_stack(observations, resets):
  resets[1, 3] = True
  observations[3, 1] = np.arange(45).reshape(STACK, *SHAPE)


def no_stack(observations, resets):
  del resets
  observations[:] = np.random.default_rng(0).integers(
    0, 256, observations.shape, np.uint8
  )


@pytest.mark.parametrize("change", [unknown_stack, no_stack])
def test_observations_that_are_no_stacks_are_rejected(change):
  resets = np.zeros((2, STEPS + 1), bool)
  observations = play(resets, "black")
  change(observations, resets)
  _, adder = make_adder(make_spec(), 2, STEPS, STEPS, STACK)
  with pytest.raises(ValueError, match=r"--config\.adder\.stacked_frames=0$"):
    feed(adder, observations, resets)


@pytest.mark.parametrize(
  ("shape", "dtype"), [((4, 5), np.uint8), ((3, 5), np.float32), ((3,), "u1")]
)
def test_a_spec_without_such_stacks_is_rejected(shape, dtype):
  with pytest.raises(ValueError, match=r"adder\.stacked_frames=3 takes uint8"):
    make_adder(make_spec(shape, dtype), 2, STEPS, STEPS, 3)
