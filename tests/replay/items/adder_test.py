"""Tests of NStepAdder: expected items per episode, and a slow reference."""

import typing

import numpy as np
import pytest
from acme import specs

from slipway.replay.items import adder as adder_lib
from slipway.replay.items import priorities, transitions
from tests.environments import given
from tests.replay.items import given as items_given

GAMMA = 0.5  # its powers are exact in float32

ACTIONS = {
  "discrete": specs.DiscreteArray(100),
  "box": specs.BoundedArray((2,), np.float32, 0, 100),
}


class Episode(typing.NamedTuple):
  rewards: list[float]
  end: str  # "terminated", "truncated" or "open"


class Item(typing.NamedTuple):
  """Transition; its observations are indices into the stream."""

  start: int
  end: int
  reward: float
  discount: float


class Stream(typing.NamedTuple):
  """Steps of one environment; the action of step k follows observation k."""

  reward: np.ndarray  # [L]
  terminated: np.ndarray  # [L]
  truncated: np.ndarray  # [L]
  first: np.ndarray  # [L]


def term(*rewards):
  return Episode(list(rewards), "terminated")


def trunc(*rewards):
  return Episode(list(rewards), "truncated")


def still(*rewards):
  return Episode(list(rewards), "open")


def make_stream(episodes):
  """Returns the steps of episodes, with an autoreset after each ended one."""
  steps = []
  for rewards, end in episodes:
    for i, reward in enumerate(rewards):
      last = i == len(rewards) - 1
      steps.append((
          reward, last and end == "terminated", last and end == "truncated",
          False,
      ))  # fmt: skip
    if end != "open":
      steps.append((0.0, False, False, True))
  return Stream(*(np.array(column) for column in zip(*steps, strict=True)))


def make_schema(kind, transitions_per_item=1):
  spec = given.spec_of((2,), actions=ACTIONS[kind])
  return transitions.TransitionSchema(
    spec, n_step=3, transitions_per_item=transitions_per_item
  )


def make_adder(schema, num_envs, n, gamma=GAMMA):
  def priority(fields):
    of_action, of_state = (fields[name] for name in items_given.VALUES)
    targets = fields["r_t"] + fields["discount_t"] * of_state
    return priorities.from_td_errors(targets - of_action)

  return adder_lib.NStepAdder(
    schema, num_envs, n, gamma, items_given.Priority(priority)
  )


def make_output(action, value, state):
  """Returns an actor's output, with values [B] of the action and the state."""
  return adder_lib.ActorOutput(
    action,
    {
      name: np.float32(values)
      for name, values in zip(items_given.VALUES, (value, state), strict=True)
    },
  )


def collect(streams, n, gamma=GAMMA, kind="discrete", seed=0):
  """Feeds all streams to one adder, and collects the items.

  Checks the properties that do not depend on the episodes. An item's
  observations, action, version and priority belong to the same transition. An
  item is returned by the step whose action follows the item's last observation.

  Returns:
    The items of each environment, in the order of their starts.
  """
  schema = make_schema(kind)
  adder = make_adder(schema, len(streams), n, gamma)
  length = min(len(s.reward) for s in streams)
  batch = Stream(*(
      np.stack([column[:length] for column in columns], axis=1)
      for columns in zip(*streams, strict=True)
  ))  # fmt: skip
  random = np.random.default_rng(seed)
  values = random.normal(size=(2, length, len(streams))).astype(np.float32)
  shape, dtype = ACTIONS[kind].shape, ACTIONS[kind].dtype
  actions = 100 * random.random((length, len(streams), *shape))
  actions = actions.astype(dtype)
  # New versions arrive at any step, also within episodes.
  versions = 1 + np.cumsum(random.random(length) < 0.3)
  found = [[] for _ in streams]

  def observe(k):
    """Returns observations [B, 2] that hold the environment's index and k."""
    return np.stack(
      [np.arange(len(streams)), np.full(len(streams), k)], axis=1
    ).astype(np.float32)

  for k in range(length):
    items = adder.add(
      observe(k),
      make_output(actions[k], values[0, k], values[1, k]),
      batch.reward[k].astype(np.float32),
      batch.terminated[k],
      batch.truncated[k],
      batch.first[k],
      observe(k + 1),
      versions[k],
    )
    if items is None:
      continue
    fields = schema.record.unpack(items.records)
    assert len(items.priorities) == len(items.records) > 0
    for i, priority in enumerate(items.priorities):
      env, start = fields["o_tm1"][i].astype(int)
      np.testing.assert_array_equal(fields["o_t"][i], [env, k])
      np.testing.assert_array_equal(fields["a_tm1"][i], actions[start, env])
      assert fields[transitions.VERSION][i] == versions[start]
      reward, discount = fields["r_t"][i], fields["discount_t"][i]
      error = reward + discount * values[1, k, env] - values[0, start, env]
      np.testing.assert_allclose(priority, abs(error) + 1e-6, rtol=1e-5)
      found[env].append(Item(start, k, float(reward), float(discount)))
  return [sorted(items) for items in found]


def slow_reference(episodes, n, gamma, length):
  """Returns the items of one environment, by a loop over episodes and sums."""
  items, start = [], 0
  for rewards, end in episodes:
    for t in range(len(rewards)):
      k = min(n, len(rewards) - t)
      if end == "open" and k < n:
        continue
      total = 0.0
      for i in range(k):
        total += gamma**i * rewards[t + i]
      over = end == "terminated" and t + k == len(rewards)
      discount = 0.0 if over else gamma**k
      items.append(Item(start + t, start + t + k, total, discount))
    start += len(rewards) + 1
  return [item for item in items if item.end < length]


# Test id, n, episodes, and expected items as (start, end, r_t, discount_t).
CASES = [
    ("terminates", 1, [term(1, 2)], [(0, 1, 1, 0.5), (1, 2, 2, 0)]),
    ("truncates", 1, [trunc(1, 2)], [(0, 1, 1, 0.5), (1, 2, 2, 0.5)]),
    ("one step, terminated", 1, [term(3)], [(0, 1, 3, 0)]),
    ("one step, truncated", 1, [trunc(3)], [(0, 1, 3, 0.5)]),
    ("one step of three, terminated", 3, [term(3)], [(0, 1, 3, 0)]),
    ("one step of three, truncated", 3, [trunc(3)], [(0, 1, 3, 0.5)]),
    ("shorter than n, terminated", 3, [term(1, 2)],
     [(0, 2, 2, 0), (1, 2, 2, 0)]),
    ("shorter than n, truncated", 3, [trunc(1, 2)],
     [(0, 2, 2, 0.25), (1, 2, 2, 0.5)]),
    ("exactly n, terminated", 3, [term(1, 2, 4)],
     [(0, 3, 3, 0), (1, 3, 4, 0), (2, 3, 4, 0)]),
    ("exactly n, truncated", 3, [trunc(1, 2, 4)],
     [(0, 3, 3, 0.125), (1, 3, 4, 0.25), (2, 3, 4, 0.5)]),
    ("longer than n", 3, [term(1, 2, 4, 8)],
     [(0, 3, 3, 0.125), (1, 4, 6, 0), (2, 4, 8, 0), (3, 4, 8, 0)]),
    ("five", 5, [trunc(16, 16, 16, 16, 16, 16)],
     [(0, 5, 31, 2**-5), (1, 6, 31, 2**-5), (2, 6, 30, 2**-4),
      (3, 6, 28, 2**-3), (4, 6, 24, 2**-2), (5, 6, 16, 2**-1)]),
    ("no item before step n + 1", 3, [still(1, 2, 4)], []),
    ("open", 3, [still(1, 2, 4, 8)], [(0, 3, 3, 0.125)]),
    ("nothing crosses the reset", 3, [term(1), trunc(2), still(4, 4, 4, 4)],
     [(0, 1, 1, 0), (2, 3, 2, 0.5), (4, 7, 7, 0.125)]),
    ("back to back", 1, [term(1), term(2), trunc(4)],
     [(0, 1, 1, 0), (2, 3, 2, 0), (4, 5, 4, 0.5)]),
    ("terminated after truncated", 3, [trunc(1, 2), term(4, 8)],
     [(0, 2, 2, 0.25), (1, 2, 2, 0.5), (3, 5, 8, 0), (4, 5, 8, 0)]),
]  # fmt: skip


@pytest.mark.parametrize("kind", ACTIONS)
@pytest.mark.parametrize(
  ("n", "episodes", "expected"),
  [case[1:] for case in CASES],
  ids=[case[0] for case in CASES],
)
def test_episodes_in_items_out(n, episodes, expected, kind):
  (items,) = collect([make_stream(episodes)], n, kind=kind)
  assert items == [Item(*item) for item in expected]


def test_both_flags_count_as_terminated():
  stream = make_stream([term(1, 2)])
  stream = stream._replace(truncated=stream.terminated)
  assert collect([stream], 1) == [[Item(0, 1, 1, 0.5), Item(1, 2, 2, 0)]]


def test_without_a_priority_function_no_values_are_needed():
  schema = make_schema("box")
  adder = adder_lib.NStepAdder(schema, 2, 1, 0.9)
  no, zeros = np.zeros(2, bool), np.zeros([2, 2])
  output = adder_lib.ActorOutput(np.zeros([2, 2]), {})
  for _ in range(2):
    items = adder.add(zeros, output, np.ones(2), no, no, no, zeros, 1)
  np.testing.assert_array_equal(items.priorities, [1, 1])


def test_observations_are_copied():
  schema = make_schema("discrete")
  adder = make_adder(schema, 1, 1, 0.9)
  no, observation = np.array([False]), np.float32([[1, 2]])
  step = (make_output(np.array([0]), [0], [0]), np.zeros(1), no, no, no)
  adder.add(observation, *step, observation, 1)
  observation[:] = 5
  items = adder.add(observation, *step, observation, 1)
  fields = schema.record.unpack(items.records)
  np.testing.assert_array_equal(fields["o_tm1"], [[1, 2]])
  np.testing.assert_array_equal(fields["o_t"], [[5, 5]])


# n, episodes, the version of each step (autoresets included), and the expected
# versions of the items, in the order of their starts.
VERSIONS = [
    (1, [still(1, 1, 1, 1)], [7, 7, 8, 8], [7, 7, 8]),
    (3, [still(1, 1, 1, 1, 1, 1)], [1, 1, 2, 2, 3, 9], [1, 1, 2]),
    # An episode's first item never has the version of the autoreset before it.
    (3, [term(1, 1), still(1, 1, 1, 1)], [1, 2, 3, 4, 5, 5, 5], [1, 2, 4]),
    (2, [trunc(1), term(1), still(1, 1, 1)], [1, 2, 3, 4, 5, 6, 7], [1, 3, 5]),
    # A version beyond 32 bits; a resumed trainer may continue from a lower one.
    (2, [still(1, 1, 1, 1)], [2**40 + 1, 5, 5, 5], [2**40 + 1, 5]),
]  # fmt: skip


@pytest.mark.parametrize(("n", "episodes", "versions", "expected"), VERSIONS)
def test_an_item_has_the_version_of_its_first_action(
  n, episodes, versions, expected
):
  schema, stream = make_schema("discrete"), make_stream(episodes)
  adder = make_adder(schema, 1, n)
  output = make_output(np.array([0]), [0], [0])
  found = {}
  for k, (version, step) in enumerate(
    zip(versions, zip(*stream, strict=True), strict=True)
  ):
    reward, *flags = (np.array([value]) for value in step)
    observation = np.full((1, 2), k, np.float32)
    items = adder.add(
      observation, output, reward, *flags, observation + 1, version
    )
    if items is not None:
      fields = schema.record.unpack(items.records)
      starts = fields["o_tm1"][:, 0].tolist()
      found.update(zip(starts, fields[transitions.VERSION], strict=True))
  assert [found[start] for start in sorted(found)] == expected


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("n", [1, 3, 5])
def test_random_streams_equal_the_slow_reference(n, seed):
  random = np.random.default_rng(seed)
  envs = int(random.integers(1, 6))
  gamma = random.uniform(0.5, 1.0)
  scripts = [
    [
      Episode(
        random.normal(size=random.integers(1, 2 * n + 3)).tolist(),
        str(random.choice(["terminated", "truncated"])),
      )
      for _ in range(12)
    ]
    for _ in range(envs)
  ]
  streams = [make_stream(script) for script in scripts]
  length = min(len(stream.reward) for stream in streams)
  kind = ("discrete", "box")[seed % 2]
  found = collect(streams, n, gamma, kind, seed)
  for script, items in zip(scripts, found, strict=True):
    expected = slow_reference(script, n, gamma, length)
    assert [item[:2] for item in items] == [item[:2] for item in expected]
    np.testing.assert_allclose(
      [item[2:] for item in items],
      [item[2:] for item in expected],
      rtol=1e-5,
      atol=1e-5,
    )


def test_items_of_several_transitions_have_the_same_transitions():
  """After 15 steps, another adder continues from the saved state."""
  streams = [make_stream([term(1, 2, 4), trunc(8, 16)] * 6) for _ in range(3)]
  each, found = 4, {1: [], 4: []}
  for size in found:
    schema = make_schema("discrete", size)
    adder = make_adder(schema, 3, 2)
    for k in range(len(streams[0].reward)):
      if k == 15:
        state = adder.get_state()
        adder = make_adder(schema, 3, 2)
        adder.set_state(state)
      step = (np.stack(column) for column in zip(*(
          [column[k] for column in stream] for stream in streams
      ), strict=True))  # fmt: skip
      observation = np.full((3, 2), k, np.float32)
      values = np.arange(3, dtype=np.float32) + k
      output = make_output(np.arange(3), values, values)
      items = adder.add(observation, output, *step, observation + 1, version=1)
      if items is not None:
        assert items.records.shape[1:] == schema.item_shape
        found[size].append(items)
  alone = np.concatenate([items.records for items in found[1]])
  each_priority = np.concatenate([items.priorities for items in found[1]])
  together = np.concatenate([items.records for items in found[each]])
  full = len(alone) // each * each
  np.testing.assert_array_equal(
    together.reshape(-1, schema.record.record_bytes), alone[:full]
  )
  np.testing.assert_allclose(
    np.concatenate([items.priorities for items in found[each]]),
    each_priority[:full].reshape(-1, each).mean(axis=1),
    rtol=1e-6,
  )
