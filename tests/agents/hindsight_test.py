"""Tests of hindsight: relabelled transitions against their episodes."""

import collections
import pickle

import numpy as np
import pytest

from slipway.agents import recorded_items, registry
from slipway.configs import catalog
from slipway.environments import factory, goals, recordings
from slipway.replay.items import adder as adder_lib
from tests.environments import recorded, toys

ENVS, STEPS = 2, 120
REACHING = f"{toys.__name__}:Reaching-v0"
BITS = f"{toys.__name__}:BitFlipping-v0"


def make_config(algorithm, name, **replay):
  config = catalog.algorithms()[algorithm].get_config("cartpole")
  config.environment.name = name
  config.adder.n_step, config.adder.discount = 1, 0.5
  config.topology.environments_per_worker = ENVS
  config.replay.update({"transitions_per_item": 1, **replay})
  return config


class Collected:
  """Steps with random actions, and the items of an algorithm's adder."""

  def __init__(self, config, restore_at=None):
    config = config.copy_and_resolve_references()
    environment = factory.make(config.environment, ENVS, seed=4)
    self.spec = environment.spec
    builder = registry.make_builder(config.agent)
    builder.check(config, self.spec)
    self.schema = builder.make_table(config, self.spec).schema
    adder = builder.make_adder(config, self.spec)
    random, items = np.random.default_rng(5), []
    self.episodes, open_ones = [], [[] for _ in range(ENVS)]
    before = environment.reset()
    for step_number in range(STEPS):
      if step_number == restore_at:
        state = pickle.dumps(adder.get_state())
        adder = builder.make_adder(config, self.spec)
        adder.set_state(pickle.loads(state))
      actions = environment.sample_actions(before.observation, random)
      step = environment.step(actions)
      found = adder.add(
        before.observation,
        adder_lib.ActorOutput(actions, {}),
        *step[1:4], step.first, step.observation,
        version=step_number,
      )  # fmt: skip
      if found is not None:
        assert found.priorities.shape == (len(found.records),)
        items.append(found.data())
      for env in np.flatnonzero(~step.first):
        open_ones[env].append((before.observation[env], step.observation[env]))
        if step.terminated[env] or step.truncated[env]:
          self.episodes.append(open_ones[env])
          open_ones[env] = []
      before = step
    self.items = np.concatenate(items)
    environment.close()

  def unpack(self):
    """Returns the fields of all transitions, by name, as arrays."""
    shape = (-1, self.schema.record.record_bytes)
    return self.schema.record.unpack(self.items.reshape(shape))


def count_transitions(collected):
  return sum(map(len, collected.episodes))


@pytest.mark.parametrize(
  ("kind", "goals_each", "copies"), [("future", 3, 3), ("final", 4, 1)]
)
@pytest.mark.parametrize(
  ("algorithm", "name"), [("dqn", BITS), ("sac", REACHING)]
)
def test_copies_have_goals_that_were_achieved_later_and_their_rewards(
  algorithm, name, kind, goals_each, copies
):
  config = make_config(
    algorithm, name, hindsight=kind, hindsight_goals=goals_each
  )
  collected = Collected(config)
  own = goals.Goals(config.environment)
  achieved, desired = own.achieved, own.desired

  def strip(x, episode):
    """Returns an observation's bytes but for the goal, and its episode."""
    rest = x.copy()
    rest[desired] = 0.0
    return rest.tobytes(), episode

  # The episode and the times of each pair of observations, whatever the goal.
  places = collections.defaultdict(list)
  for e, episode in enumerate(collected.episodes):
    for t, pair in enumerate(episode):
      key = b"".join(strip(x, e)[0] for x in pair)
      places[key].append((e, t))
  found = collected.unpack()
  originals, relabelled = 0, 0
  for i in range(len(found["r_t"])):
    o_tm1, o_t = found["o_tm1"][i], found["o_t"][i]
    np.testing.assert_array_equal(o_tm1[desired], o_t[desired])
    reward, terminated = own.compute(
      o_t[None, achieved], o_t[None, desired], np.zeros(1, bool)
    )
    assert found["r_t"][i] == reward[0]
    assert found["discount_t"][i] == 0.5 * ~terminated[0]
    key = strip(o_tm1, 0)[0] + strip(o_t, 0)[0]
    is_original = is_copy = False
    for e, t in places[key]:
      episode = collected.episodes[e]
      later = [x[achieved].tobytes() for _, x in episode[t:]]
      is_original |= (o_t[desired] == episode[t][1][desired]).all()
      is_copy |= o_t[desired].tobytes() in (
        later if kind == "future" else later[-1:]
      )
    originals += is_original and not is_copy
    relabelled += is_copy
    # A transition of an episode that has not ended is an original, too.
    assert is_original or is_copy or not places[key]
  steps = count_transitions(collected)
  assert relabelled >= copies * steps
  if name == REACHING:  # whose goals are never achieved by chance here
    assert (originals, relabelled) == (steps, copies * steps)
  own.close()


def test_goals_are_sampled_uniformly_from_later_observations():
  config = make_config("sac", REACHING, hindsight="future", hindsight_goals=100)
  collected = Collected(config)
  own = goals.Goals(config.environment)
  found, episode = collected.unpack(), collected.episodes[0]
  times = {x[own.achieved].tobytes(): t for t, (_, x) in enumerate(episode)}
  first = episode[0][0][own.achieved]
  counts = collections.Counter(
    times[goal[own.desired].tobytes()]
    for o_tm1, goal in zip(found["o_tm1"], found["o_t"], strict=True)
    if (o_tm1[own.achieved] == first).all()
    and goal[own.desired].tobytes() in times
  )
  assert sum(counts.values()) == 100
  # 100 samples of 50 times: each has 2 on average, P(more than 11) < 1e-5.
  assert max(counts) >= 45 and min(counts) <= 5 and max(counts.values()) <= 11
  own.close()


@pytest.mark.parametrize("grouped", [1, 4])
def test_a_restored_adder_gives_the_same_items(grouped):
  config = make_config(
    "dqn", BITS, hindsight="future", transitions_per_item=grouped
  )
  whole = Collected(config)
  for at in (3, 57):
    np.testing.assert_array_equal(Collected(config, at).items, whole.items)
  transitions = len(whole.unpack()["r_t"])
  ended = 5 * count_transitions(whole)
  assert ended - grouped - ENVS <= transitions < ended + 10 * ENVS


def test_recorded_episodes_are_relabelled(tmp_path):
  config = make_config("sac", REACHING, hindsight="future")
  config.topology.workers = 0
  config.dataset.path = str(tmp_path / "d")
  recorded.record(config.dataset.path, config=config.environment, steps=210)
  spec = factory.make_spec(config.environment)
  builder = registry.make_builder(config.agent)
  _, items = recorded_items.collect(config, spec, builder, tmp_path)
  steps = len(recordings.read(config.dataset.path, spec).actions)
  assert steps == 400
  assert len(items) == 5 * steps


def test_a_table_counts_relabelled_items():
  spec = factory.make_spec(make_config("sac", REACHING).environment)
  for kind, each in (("none", 0), ("future", 4), ("final", 1)):
    config = make_config("sac", REACHING, hindsight=kind)
    table = registry.make_builder(config.agent).make_table(config, spec)
    assert table.relabelled == each
