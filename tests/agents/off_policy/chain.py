"""A Markov decision process of 3 states, whose values are known exactly."""

import numpy as np

from slipway.environments import recordings, specs
from slipway.replay.items import adder

STATES, ACTIONS = 3, 2
DISCOUNT = 0.9
# Probabilities of the next state; an episode terminates with what is left.
_RANDOM = np.random.default_rng(1)
NEXT = 0.85 * _RANDOM.dirichlet(np.ones(STATES), (STATES, ACTIONS))
REWARD = np.array([[1.0, 2.0], [3.0, 1.0], [0.5, 2.0]])
# The recorded policy, and two to evaluate.
RECORDED = np.array([[0.5, 0.5], [0.7, 0.3], [0.4, 0.6]])
STOCHASTIC = np.array([[0.2, 0.8], [0.5, 0.5], [0.7, 0.3]])
GREEDY = np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
SPEC = specs.EnvironmentSpec(
  observations=specs.Array((STATES,), np.float32),
  actions=specs.DiscreteArray(ACTIONS),
  rewards=specs.Array((), np.float32),
  discounts=specs.Array((), np.float32),
)


def value_of(policy):
  """Returns the value of state 0, in which all episodes begin."""
  transitions = np.einsum("sa,sat->st", policy, NEXT)
  rewards = (policy * REWARD).sum(axis=1)
  matrix = np.eye(STATES) - DISCOUNT * transitions
  return np.linalg.solve(matrix, rewards)[0]


def record(episodes, time_limit, policy=RECORDED):
  """Returns episodes of a policy, truncated after so many steps."""
  random = np.random.default_rng(2)
  columns = [], [], [], [], [], []
  observations, actions, rewards, terminated, truncated, lengths = columns
  for _ in range(episodes):
    state, length, ended = 0, 0, False
    observations.append(state)
    while not ended:
      action = int(random.random() < policy[state, 1])
      cumulative = NEXT[state, action].cumsum()
      state_after = int((random.random() > cumulative).sum())
      actions.append(action)
      rewards.append(REWARD[state, action])
      length += 1
      terminated.append(state_after == STATES)
      truncated.append(length == time_limit and not terminated[-1])
      ended = terminated[-1] or truncated[-1]
      state = state_after % STATES
      observations.append(state)
    lengths.append(length)
  return recordings.Episodes(
    np.eye(STATES, dtype=np.float32)[observations],
    np.array(actions, np.int32),
    np.array(rewards, np.float32),
    np.array(terminated),
    np.array(truncated),
    np.array(lengths),
  )


class Actor:
  """Actor of a policy [states, actions]."""

  def __init__(self, policy):
    self._policy, self._random = policy, np.random.default_rng(3)

  def act(self, observation, reward, first):
    probabilities = self._policy[observation.argmax(axis=1), 1]
    chosen = self._random.random(len(observation)) < probabilities
    return adder.ActorOutput(chosen.astype(np.int32), {})
