"""Tests of the toy environments: rewards of good and of blind policies."""

import gymnasium
import numpy as np
import pytest

from tests.environments import toys


def play(env, act):
  """Returns the rewards and observations of an episode."""
  observation, _ = env.reset()
  seen, rewards, ended = [observation], [], False
  while not ended:
    assert env.observation_space.contains(observation)
    observation, reward, terminated, truncated, _ = env.step(act(observation))
    ended = terminated or truncated
    seen.append(observation)
    rewards.append(reward)
  return rewards, seen


def follow(board):
  """Returns the action that moves the paddle towards the ball."""
  (ball,) = np.flatnonzero(board[:-1].any(axis=0)) if board[:-1].any() else [0]
  (paddle,) = np.flatnonzero(board[-1] == 1)[:1]
  return 1 + int(np.sign(ball - paddle))


def test_catch_rewards_following_the_ball():
  env = toys.Catch()
  env.reset(seed=1)
  for _ in range(20):
    rewards, seen = play(env, follow)
    assert rewards == [0.0] * 8 + [1.0]
    assert len(seen) == 10
  last_rewards = {play(env, lambda _: toys.STAY)[0][-1] for _ in range(50)}
  assert last_rewards == {1.0, -1.0}


def test_pointing_rewards_pointing_at_the_dot():
  env = toys.Pointing(size=5)
  env.reset(seed=1)

  def point(image):
    return np.float32([2 * image.max(axis=0).argmax() / 4 - 1])

  rewards, seen = play(env, point)
  assert rewards == [0.0] * toys.Pointing.STEPS
  assert {image.sum() for image in seen} == {1.0}
  blind = [sum(play(env, lambda _: np.zeros(1))[0]) for _ in range(200)]
  assert np.mean(blind) == pytest.approx(-6.0, abs=0.3)


def test_cartpole_without_velocities_shows_positions_only():
  whole = gymnasium.make("CartPole-v1")
  env = gymnasium.make(f"{toys.__name__}:CartPoleWithoutVelocities-v0")
  assert env.spec.max_episode_steps == whole.spec.max_episode_steps
  expected, seen = whole.reset(seed=3)[0], env.reset(seed=3)[0]
  ended = False
  while not ended:
    np.testing.assert_array_equal(seen, expected[[0, 2]])
    assert env.observation_space.contains(seen)
    expected, *results, _ = whole.step(1)
    seen, *others, _ = env.step(1)
    assert others == results
    ended = any(results[1:])


@pytest.mark.parametrize("length", [1, 8])
def test_memory_rewards_the_remembered_sign(length):
  env = toys.MemoryChain(length)
  env.reset(seed=2)
  signs = []

  def remember(observation):
    if observation[0]:
      signs.append(observation[0])
    return int(signs[-1] > 0)

  for _ in range(20):
    rewards, seen = play(env, remember)
    assert rewards == [0.0] * length + [1.0]
    # Only the first observation has the sign.
    assert all(x[0] == 0 for x in seen[1:])
    assert seen[length][2] == 1 and seen[length - 1][2] == 0
  assert set(signs) == {1.0, -1.0}
  blind = [play(env, lambda _: 1)[0][-1] for _ in range(400)]
  assert abs(np.mean(blind)) < 0.2


def test_the_lock_rewards_its_last_state_only():
  env = toys.CombinationLock(states=5)
  rewards, seen = play(env, lambda x: int(x.argmax()) % 2)
  np.testing.assert_allclose(rewards, [-0.02] * 4 + [0.98])
  np.testing.assert_array_equal(seen[:5], np.eye(5))


@pytest.mark.parametrize("forgiving", [False, True])
@pytest.mark.parametrize("wrong", range(5))
def test_a_wrong_action_resets_the_lock_or_has_no_effect(wrong, forgiving):
  env = toys.CombinationLock(states=5, forgiving=forgiving)
  rewards, seen = play(
    env, lambda x: (int(x.argmax()) + (x.argmax() == wrong)) % 2
  )
  assert len(rewards) == 20 and max(rewards) == 0.0
  state = wrong if forgiving else 0
  np.testing.assert_array_equal(seen[wrong + 1], np.eye(5)[state])


def test_noisy_rewards_have_the_documented_values():
  env = toys.NoisyReward()
  env.reset(seed=3)
  for action, (low, high) in enumerate(env.REWARDS):
    found = [play(env, lambda _, a=action: a)[0][0] for _ in range(1_000)]
    assert set(found) == {low, high}
    np.testing.assert_allclose(np.mean(found), (low + high) / 2, atol=0.25)


def test_bit_flipping_ends_at_the_goal():
  env = toys.BitFlipping(bits=6)
  env.reset(seed=1)
  for _ in range(20):
    rewards, seen = play(
      env, lambda x: np.argmax(x["achieved_goal"] != x["desired_goal"])
    )
    first = seen[0]
    wrong = int(np.sum(first["observation"] != first["desired_goal"]))
    assert rewards == [-1.0] * (wrong - 1) + [0.0]
  rewards, seen = play(env, lambda _: 0)
  assert len(rewards) <= 6


def test_reaching_rewards_a_point_at_the_goal():
  env = toys.Reaching()
  env.reset(seed=1)

  def approach(x):
    return (x["desired_goal"] - x["achieved_goal"]) / toys.Reaching.MOVE

  returns = [sum(play(env, approach)[0]) for _ in range(50)]
  assert min(returns) > -11 and np.mean(returns) == pytest.approx(-6.0, abs=1)
  still = [sum(play(env, lambda _: np.zeros(2))[0]) for _ in range(50)]
  assert np.mean(still) < -45
