"""Tests of recorded episodes as estimators get them."""

import numpy as np
import pytest

from slipway.agents import epsilon_greedy, policies
from slipway.agents.networks import action_masks, network, q_network
from slipway.agents.off_policy import recording
from slipway.configs import ppo
from slipway.environments import arrays, specs
from tests.agents.off_policy import chain


def test_rows_belong_to_the_steps_of_their_episodes():
  episodes = chain.record(50, 4)
  data = recording.Recording(chain.SPEC, episodes)
  row, step = 0, 0
  for e, length in enumerate(episodes.lengths):
    assert data.first[e] == row
    for _ in range(length):
      assert data.before[step] == row
      row, step = row + 1, step + 1
    row += 1  # the last observation
  expected = [
    sum(0.9**t * r for t, r in enumerate(x))
    for x in np.split(episodes.rewards, np.cumsum(episodes.lengths)[:-1])
  ]
  np.testing.assert_allclose(data.compute_returns(0.9), expected, rtol=1e-5)
  np.testing.assert_allclose(data.inputs.mean(axis=0), 0.0, atol=1e-5)
  np.testing.assert_allclose(data.inputs.std(axis=0), 1.0, atol=1e-5)


def test_masks_are_not_standardized():
  spec = chain.SPEC._replace(
    observations=arrays.MaskedArray(chain.SPEC.observations, 2)
  )
  episodes = chain.record(5, 4)
  count = len(episodes.observations)
  mask = np.random.default_rng(0).integers(2, size=(count, 2))
  joined = spec.observations.join(episodes.observations, mask)
  data = recording.Recording(spec, episodes._replace(observations=joined))
  np.testing.assert_array_equal(data.inputs[:, -2:], mask)
  assert (data.inputs[:, :-2] != episodes.observations).any()


def test_actions_are_vectors():
  joint = arrays.MultiDiscreteArray([2, 3])
  expected = [[1, 0, 0, 0, 1], [0, 1, 1, 0, 0]]
  for actions in ([[0, 2], [1, 0]], [2, 3]):  # components, and numbers
    found = recording.encode_actions(joint, np.int32(actions))
    np.testing.assert_array_equal(found, expected)
  found = recording.encode_actions(specs.DiscreteArray(3), np.int32([2, 0]))
  np.testing.assert_array_equal(found, [[0, 0, 1], [1, 0, 0]])


class Values:
  """Network with the same action values [A] for all observations."""

  def __init__(self, values):
    self._values = np.float32(values)

  def __call__(self, observation, random=None):
    values = np.tile(self._values, (len(observation), 1))
    return q_network.Output(values, values[:, :, None], None, None, values)


def make_epsilon_greedy(epsilon, masked):
  """Returns an actor of three actions, and observations for it."""
  observations = np.zeros((20_000, 1), np.float32)
  if not masked:
    return epsilon_greedy.EpsilonGreedyActor(
      Values([0, 2, 1]), epsilon, 1
    ), observations
  spec = chain.SPEC._replace(
    observations=arrays.MaskedArray(specs.Array((1,), np.float32), 3),
    actions=specs.DiscreteArray(3),
  )
  splitter = action_masks.MaskSplitter(spec)
  mask = np.tile([False, True, True], (len(observations), 1))
  return epsilon_greedy.EpsilonGreedyActor(
    Values([-9, 2, 1]), epsilon, 1, splitter
  ), spec.observations.join(observations, mask)


def make_policy_actor(is_sampled):
  spec = chain.SPEC._replace(actions=specs.DiscreteArray(3))
  policy = policies.make_policy(ppo.get_config().network, spec)
  random = np.random.default_rng(0)
  actor = policies.PolicyActor(policy, random if is_sampled else None)
  actor.load(
    {
      f"policy/{name}": random.normal(size=shape).astype(np.float32) * 0.3
      for name, shape in network.variable_shapes(policy).items()
    }
  )
  return actor, np.ones((20_000, chain.STATES), np.float32)


@pytest.mark.parametrize(
  "made",
  [
    lambda: make_epsilon_greedy(0.0, masked=False),
    lambda: make_epsilon_greedy(0.3, masked=False),
    lambda: make_epsilon_greedy(0.3, masked=True),
    lambda: make_policy_actor(is_sampled=False),
    lambda: make_policy_actor(is_sampled=True),
  ],
)
def test_probabilities_are_the_frequencies_of_actions(made):
  """Within 0.015, four standard deviations of 20,000 samples."""
  actor, observations = made()
  size = len(observations)
  chosen = actor.act(observations, np.zeros(size), np.ones(size, bool)).action
  for action in range(3):
    actions = np.full(size, action, np.int32)
    found = np.exp(actor.log_prob(observations, actions))
    # Products of matrices may round the last rows of a batch otherwise.
    np.testing.assert_allclose(found, found[0], rtol=1e-5)
    is_illegal = observations.shape[1] == 4 and action == 0
    if not is_illegal:
      np.testing.assert_allclose(
        found[0], (chosen == action).mean(), atol=0.015
      )
