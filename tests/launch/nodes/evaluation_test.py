"""Tests of an evaluation: the environments' shares, and unscaled returns."""

import numpy as np
import pytest

from slipway.agents import registry
from slipway.configs import dqn
from slipway.environments import factory, vector
from slipway.launch.nodes import evaluation
from slipway.replay.items import adder


class Scripted:
  """A batch whose environment i has episodes of `lengths[i]` steps.

  Each step of environment i has reward i + 1. An environment resets in the step
  after an episode's end, as with gymnasium's NEXT_STEP.
  """

  def __init__(self, lengths, truncate=False):
    self.num_envs, self.info = len(lengths), {}
    self._lengths, self._truncate = np.array(lengths), truncate
    self.actions = []

  def reset(self):
    self._time = np.zeros(self.num_envs, np.int64)
    self._ended = np.zeros(self.num_envs, bool)
    zeros = np.zeros(self.num_envs, np.float32)
    return vector.StepBatch(
      self._time[:, None].astype(np.float32),
      zeros,
      self._ended,
      self._ended,
      np.ones(self.num_envs, bool),
      zeros,
    )

  def step(self, actions):
    self.actions.append(actions)
    first = self._ended
    self._time = np.where(first, 0, self._time + 1)
    self._ended = self._time == self._lengths
    rewards = np.arange(1.0, self.num_envs + 1) * ~first
    never = np.zeros(self.num_envs, bool)
    return vector.StepBatch(
      self._time[:, None].astype(np.float32),
      np.full(self.num_envs, np.nan),  # scaled rewards are not reported
      never if self._truncate else self._ended,
      self._ended if self._truncate else never,
      first,
      rewards.astype(np.float32),
    )


class Echo:
  """An actor whose action is the observation."""

  def __init__(self):
    self.firsts = []

  def act(self, observation, reward, first):
    self.firsts.append(first.tolist())
    return adder.ActorOutput(observation[:, 0], {})


# lengths of the environments' episodes, number of episodes, episodes that each
# environment plays
SHARES = [
  ([3], 1, [1]),
  ([3], 4, [4]),
  ([1, 50], 2, [1, 1]),
  ([1, 7, 2], 7, [3, 2, 2]),
  ([1, 7, 2], 3, [1, 1, 1]),
  ([4, 1, 2], 2, [1, 1, 0]),
  ([2, 2], 10, [5, 5]),
]


@pytest.mark.parametrize("truncate", [False, True])
@pytest.mark.parametrize(("lengths", "episodes", "shares"), SHARES)
def test_shares(lengths, episodes, shares, truncate):
  played = evaluation.play(Scripted(lengths, truncate), Echo(), episodes)
  assert len(played.returns) == len(played.lengths) == episodes
  expected = [
    (float((env + 1) * length), length)
    for env, (length, share) in enumerate(zip(lengths, shares, strict=True))
    for _ in range(share)
  ]
  found = zip(played.returns, played.lengths, strict=True)
  assert sorted(found) == sorted(expected)


def test_the_actor_sees_each_observation():
  environment, actor = Scripted([2]), Echo()
  evaluation.play(environment, actor, 2)
  # The action of an autoreset follows from the last observation.
  assert [int(action) for (action,) in environment.actions] == [0, 1, 2, 0, 1]
  assert [first for (first,) in actor.firsts] == [
    True,
    False,
    False,
    True,
    False,
  ]


def test_an_observer_receives_each_step_and_whether_it_counts():
  environment = Scripted([1, 3])
  calls = []
  evaluation.play(
    environment, Echo(), 2, observe=lambda *call: calls.append(call)
  )
  actions, steps, counts = zip(*calls, strict=True)
  assert actions[0] is None
  assert [list(a) for a in actions[1:]] == [
    list(a) for a in environment.actions
  ]
  assert [s.observation[1, 0] for s in steps] == [0, 1, 2, 3]
  # The first environment's share is one episode of one step.
  assert [list(c) for c in counts] == [[1, 1], [1, 1], [0, 1], [0, 1]]


@pytest.mark.parametrize("steps", [0, 3])
def test_stopping(steps):
  replies = iter([False] * steps + [True])
  environment = Scripted([10])
  stopped = evaluation.play(environment, Echo(), 1, lambda: next(replies))
  assert stopped is None
  assert len(environment.actions) == steps


# lengths of the environments' episodes, steps after which a warning is logged
LONG = [([50_000], None), ([50_002], 50_000), ([3, 60_000], 50_000 + 3)]


@pytest.mark.parametrize(("lengths", "warns_after"), LONG)
def test_a_warning_is_logged_for_an_episode_that_may_never_end(
  lengths, warns_after, caplog
):
  environment = Scripted(lengths)
  environment.name = "Endless-v0"
  evaluation.play(environment, Echo(), len(lengths))
  messages = [record.getMessage() for record in caplog.records]
  if warns_after is None:
    assert not messages
    return
  (line,) = messages
  index = len(lengths) - 1
  assert f"Endless-v0 (index {index}) has not ended after {warns_after}" in line
  assert "config.environment.time_limit" in line


def test_evaluations_of_one_seed_are_equal():
  config = dqn.get_config()
  spec = factory.make_spec(config.environment)
  builder = registry.make_builder(config.agent)
  variables = builder.make_learner(config, spec).get_variables()
  played = []
  for seed in (5, 5, 6):
    actor = builder.make_greedy_actor(config, spec)
    actor.load(variables)
    environment = factory.make(config.environment, 3, seed)
    episodes = evaluation.play(environment, actor, 9)
    environment.close()
    assert episodes.returns == episodes.lengths  # CartPole: reward 1 per step
    played.append(episodes)
  assert played[0] == played[1] != played[2]


def test_episodes_that_do_not_end_count_as_they_are():
  environment = Scripted([3, 10**9])
  found = evaluation.play(environment, Echo(), 4, max_steps=5)
  # Both episodes of the second environment are cut off.
  assert sorted(found.returns) == [3.0, 3.0, 10.0, 10.0]
  assert sorted(found.lengths) == [3, 3, 5, 5]
  assert found.unfinished == 2
  assert evaluation.play(Scripted([3]), Echo(), 2).unfinished == 0
