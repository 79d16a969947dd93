"""Tests of frames stored once: rebuilt stacks equal naively built ones."""

import typing

import numpy as np
import portpicker
import pytest
import tensorflow as tf

from slipway.environments import factory
from slipway.replay.items import adder as adder_lib
from slipway.replay.items import frame_stream, transitions
from slipway.replay.items import frames as frames_lib
from slipway.replay.items import writer as writer_lib
from slipway.replay.tables import dataset, tables
from slipway.replay.transport import routes
from tests.environments import given as environment
from tests.replay import given, served

SHAPE = (5, 3)  # shape of a frame
GAMMA = 0.9


class Step(typing.NamedTuple):
  """Step of B environments, as passed to the adder."""

  observation: np.ndarray
  action: np.ndarray
  reward: np.ndarray
  terminated: np.ndarray
  truncated: np.ndarray
  first: np.ndarray


def make_spec(stack=4, dtype=np.uint8, shape=SHAPE):
  return environment.spec_of((stack, *shape), dtype, actions=6)


def play(num_envs, stack, steps, seed=0, pad="zeros", end_probability=0.1):
  """Yields steps of random episodes, with frames stacked by a plain loop."""
  random = np.random.default_rng(seed)
  seen = [[] for _ in range(num_envs)]  # frames of the current episode
  over, opening = np.zeros((2, num_envs), bool)
  for t in range(steps):
    observation = np.zeros((num_envs, stack, *SHAPE), np.uint8)
    for env, frames in enumerate(seen):
      if opening[env]:
        frames.clear()
      frames.append(random.integers(0, 256, SHAPE, np.uint8))
      start = frames[0] if pad == "repeat" else np.zeros(SHAPE, np.uint8)
      newest = ([start] * stack + frames)[-stack:]
      observation[env] = newest
    first = over
    ends = random.random((2, num_envs)) < end_probability
    terminated, truncated = ends & ~first
    yield Step(
      observation,
      t * num_envs + np.arange(num_envs, dtype=np.int32),
      np.where(first, 0, random.normal(size=num_envs)).astype(np.float32),
      terminated,
      truncated,
      first,
    )
    over, opening = terminated | truncated, first


def play_atari(steps):
  """Yields steps of Pong with random actions and 15 steps per episode."""
  fields = {"time_limit": 15}
  config = environment.config_of("ALE/Pong-v5", fields, noop_max=3)
  pong = factory.make(config, num_envs=3, seed=0)
  random, before = np.random.default_rng(0), pong.reset()
  for t in range(steps):
    step = pong.step(random.integers(6, size=3, dtype=np.int32))
    # The adder receives actions that identify the step and the environment.
    yield Step(
      before.observation, t * 3 + np.arange(3, dtype=np.int32), *step[1:5]
    )
    before = step
  pong.close()


def add(adder, step):
  output = adder_lib.ActorOutput(step.action, {})
  # An n-step transition ends in the observation of a later call, so the next
  # observation of this call is not used.
  return adder.add(step[0], output, *step[2:], step[0], version=1)


def expect(steps, n):
  """Returns the expected transitions from whole observations, by action."""
  found = {}
  for env in range(len(steps[0].action)):
    for t, step in enumerate(steps):
      total, k, over = 0.0, 0, bool(step.first[env])
      while k < n and not over and t + k + 1 < len(steps):
        after = steps[t + k]
        total += GAMMA**k * after.reward[env]
        over = bool(after.terminated[env] | after.truncated[env])
        k += 1
      if k < n and (not over or not k):
        continue  # autoreset, or unfinished transition
      discount = 0.0 if steps[t + k - 1].terminated[env] else GAMMA**k
      found[int(step.action[env])] = (
        step.observation[env],
        total,
        discount,
        steps[t + k].observation[env],
      )
  return found


def check_equal(batch, expected):
  """Compares a batch with transitions; returns the batch's first actions."""
  data = batch.data
  actions = data.a_tm1.numpy().tolist()
  o_tm1, r_t, discount_t, o_t = (
    np.stack(column)
    for column in zip(*(expected[x] for x in actions), strict=True)
  )
  np.testing.assert_array_equal(data.o_tm1, o_tm1)
  np.testing.assert_array_equal(data.o_t, o_t)
  np.testing.assert_allclose(data.r_t, r_t, atol=1e-5)
  np.testing.assert_allclose(data.discount_t, discount_t, atol=1e-6)
  return actions


def make_batch(schema, arrays):
  """Returns a batch of all items; each array is uint8 [M, item bytes]."""
  data = np.concatenate(arrays).reshape(-1, *schema.item_shape)
  count = len(data)
  return dataset.make_batch(
    schema,
    tf.zeros([count], tf.uint64),
    tf.ones([count], tf.float64),
    tf.ones([count], tf.int64),
    tf.constant(data),
  )


def check_adder(spec, steps, n):
  stack = spec.observations.shape[0]
  schema = transitions.TransitionSchema(spec, n, stack)
  adder = adder_lib.NStepAdder(schema, len(steps[0].action), n, GAMMA)
  expected, arrays = expect(steps, n), []
  for step in steps:
    items = add(adder, step)
    if items is not None:
      assert (np.diff(items.frames.ids, axis=1) != 0).all()
      arrays.append(items.data())
  found = check_equal(make_batch(schema, arrays), expected)
  assert sorted(found) == sorted(expected)
  return found


@pytest.mark.parametrize("pad", ["zeros", "repeat"])
@pytest.mark.parametrize(
  ("stack", "n"), [(1, 1), (1, 3), (2, 2), (4, 1), (4, 3), (4, 6)]
)
def test_stacks_are_rebuilt_exactly(n, stack, pad):
  steps = list(play(3, stack, 150, seed=n, pad=pad))
  assert len(check_adder(make_spec(stack), steps, n)) > 250


def test_stacks_of_atari_are_rebuilt_exactly():
  steps = list(play_atari(100))
  assert sum(step.truncated.sum() for step in steps) > 10
  assert len(check_adder(make_spec(shape=(84, 84)), steps, n=3)) > 250


class Path:
  """Path of transitions from an adder through a real server to batches."""

  def __init__(self, n, num_envs):
    self.schema = transitions.TransitionSchema(make_spec(), n, 4)
    self.spec = given.make_table_spec(
      self.schema,
      prioritized=False,
      capacity=5_000,
      batch_size=16,
      min_size=1,
      samples_per_insert=0.0,
    )
    self.adder = adder_lib.NStepAdder(self.schema, num_envs, n, GAMMA)
    self.port = portpicker.pick_unused_port()
    self.manager = self._serve()
    self.writer = writer_lib.ItemWriter(
      routes.DirectRoute(self.manager.address),
      tables.TRANSITIONS,
      self.schema.kept_frame_records(num_envs),
    )

  def _serve(self):
    return served.serve(self.spec, port=self.port)

  def write(self, steps):
    for step in steps:
      items = add(self.adder, step)
      while not self.writer.wait(timeout_s=0.2):
        pass
      if items is not None:
        self.writer.write(*items)

  def sampled(self, expected, until):
    batches = dataset.make_dataset(self.manager.address, self.spec)
    found = set()
    for samples in batches:
      batch = dataset.unpack(self.schema, samples)
      found.update(check_equal(batch, expected))
      if len(found) >= until:
        return found
    raise AssertionError(f"only {len(found)} of {until} items were sampled")


@pytest.fixture
def path(request):
  made = Path(*request.param)
  yield made
  made.writer.close(timeout_s=20)
  made.manager.close()


@pytest.mark.parametrize(
  "path", [(1, 2), (3, 4), (12, 4)], indirect=True, ids=str
)
def test_stacks_are_rebuilt_after_a_path_through_a_server(path):
  n, num_envs = path.adder._n, len(path.adder._ended)
  steps = list(play(num_envs, 4, 120))
  path.write(steps)
  assert path.writer.flush(timeout_s=20)
  expected = expect(steps, n)
  assert path.manager.status(tables.TRANSITIONS).size == len(expected)
  assert path.sampled(expected, len(expected)) == set(expected)


@pytest.mark.parametrize("path", [(3, 4)], indirect=True, ids=str)
def test_a_new_stream_gets_the_frames_that_it_lacks(path):
  """Transitions that were open when a server closed are whole in the next."""
  steps = list(play(4, 4, 200))
  path.write(steps[:100])
  path.manager.close()
  for step in steps[100:110]:
    path.writer.write(*add(path.adder, step))
  while not path.writer.lost:
    assert not path.writer.wait(timeout_s=0.1)
  path.manager = path._serve()
  path.write(steps[110:])
  assert path.writer.flush(timeout_s=20)
  assert path.writer.streams == 2
  size = path.manager.status(tables.TRANSITIONS).size
  expected = expect(steps, 3)
  found = path.sampled(expected, size)
  # Some transitions began before the restart and ended after it.
  assert any(action < 110 * 4 for action in found)


class CountingWriter:
  """In place of Reverb's writer: counts frame records, and checks items.

  Like Reverb's writer, it only keeps the newest frame records, and items can
  refer to no others.
  """

  def __init__(self):
    self.kept = self.frame_records = self.items = 0
    self.history = self

  def configure(self, path, num_keep_alive_refs, max_chunk_length):
    del path, max_chunk_length
    self.kept = num_keep_alive_refs

  def append(self, frame_record):
    del frame_record
    self.frame_records += 1

  def __getitem__(self, indices):
    assert -min(self.kept, self.frame_records) <= min(indices)
    assert max(indices) == -1
    return indices

  def create_item(self, table, priority, trajectory):
    del table, priority, trajectory
    self.items += 1


def count_sent(n, num_envs, steps):
  """Returns how many items and frame records are sent for steps."""
  schema = transitions.TransitionSchema(make_spec(), n, 4)
  adder = adder_lib.NStepAdder(schema, num_envs, n, GAMMA)
  writer = CountingWriter()
  stream = frame_stream.FrameRecordStream(
    writer, schema.kept_frame_records(num_envs)
  )
  for step in steps:
    items = add(adder, step)
    if items is not None:
      stream.write(tables.TRANSITIONS, *items)
  return writer.items, writer.frame_records


@pytest.mark.parametrize("num_envs", [1, 8])
@pytest.mark.parametrize("n", [1, 15])
def test_each_frame_is_sent_once_with_long_transitions(n, num_envs):
  steps = play(num_envs, 4, 400, end_probability=0.002)
  items, frame_records = count_sent(n, num_envs, steps)
  assert items > 300 * num_envs
  assert frame_records < 1.2 * items


@pytest.mark.parametrize("length", [5, 100])
@pytest.mark.parametrize("n", [1, 4, 15])
def test_each_frame_is_sent_once_if_all_environments_end_together(n, length):
  num_envs, episodes = 8, 400 // length
  steps = list(play(num_envs, 4, length + 1, end_probability=0.0))
  yes = np.ones(num_envs, bool)
  steps[-2:] = steps[-2]._replace(truncated=yes), steps[-1]._replace(first=yes)
  items, frame_records = count_sent(n, num_envs, steps * episodes)
  assert items == episodes * length * num_envs
  # An episode of T steps has T + 4 frames. The last one is sent with each of
  # the transitions that end in it.
  once = length + 4 + min(n, length) - 1
  assert frame_records <= episodes * once * num_envs


@pytest.mark.parametrize("continues", [True, False])
def test_a_restored_adder_returns_equal_items(continues):
  schema = transitions.TransitionSchema(make_spec(), 3, 4)
  adder = adder_lib.NStepAdder(schema, 2, 3, GAMMA)
  steps = list(play(2, 4, 80))
  for step in steps[:40]:
    add(adder, step)
  state = adder.get_state()
  if continues:  # further steps of the adder must not change the state
    for step in steps[40:60]:
      add(adder, step)
  other = adder_lib.NStepAdder(schema, 2, 3, GAMMA)
  other.set_state(state)
  expected = expect(steps, 3)
  arrays = []
  for step in steps[40:]:
    items = add(other, step)
    if items is not None:
      arrays.append(items.data())
  found = check_equal(make_batch(schema, arrays), expected)
  assert min(found) < 80 <= max(found), "open and new transitions"


def test_an_observation_that_is_no_stack_is_rejected():
  ring = frames_lib.FrameRing(2, (4, *SHAPE), steps=3)
  random, no = np.random.default_rng(0), np.zeros(2, bool)
  shape = (2, 4, *SHAPE)
  ring.add(random.integers(0, 256, shape, np.uint8), no)
  with pytest.raises(ValueError, match="not the one before shifted by one"):
    ring.add(random.integers(0, 256, shape, np.uint8), no)


def test_the_observations_of_all_environments_are_checked():
  """Environments take turns, also with as many as a step has new frames."""
  ring = frames_lib.FrameRing(8, (4, *SHAPE), steps=3)
  random, no = np.random.default_rng(0), np.zeros(8, bool)
  observation = random.integers(0, 256, (8, 4, *SHAPE), np.uint8)
  with pytest.raises(ValueError, match="not the one before shifted by one"):
    for _ in range(16):
      ring.add(observation, no)
      frame = random.integers(0, 256, (8, 1, *SHAPE), np.uint8)
      observation = np.concatenate([observation[:, 1:], frame], axis=1)
      observation[3] = random.integers(0, 256, (4, *SHAPE), np.uint8)


def test_frames_with_several_transitions_per_item_are_rejected():
  with pytest.raises(ValueError, match="transitions_per_item=2 needs whole"):
    transitions.TransitionSchema(make_spec(), 1, 4, transitions_per_item=2)


@pytest.mark.parametrize(
  ("stacked", "spec"),
  [
    (3, make_spec(4)),
    (4, make_spec(4, np.float32)),
    (5, make_spec(5, shape=())),
  ],
  ids=["other stack size", "not uint8", "no frame axes"],
)
def test_a_schema_of_other_observations_is_rejected(stacked, spec):
  with pytest.raises(ValueError, match=f"stacked_frames={stacked} takes uint8"):
    transitions.TransitionSchema(spec, 1, stacked)
