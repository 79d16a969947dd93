"""Tests of fitted Q evaluation: its loss, and processes of known values."""

import numpy as np
import pytest

from slipway.agents.networks import layers
from slipway.agents.off_policy import fitted_q, recording
from slipway.environments import recordings, specs
from slipway.replay.items import adder
from tests.agents.losses import checks
from tests.agents.off_policy import chain

SETTINGS = layers.TorsoSettings("mlp", (32,))


def loss_of(inputs, slow):
  if not slow:
    return fitted_q.fitted_q_loss(**inputs, bounds=(-1.0, 2.0))
  return np.array(
    [
      (q_tm1 - min(max(r_t + discount_t * q_t, -1.0), 2.0)) ** 2
      for q_tm1, r_t, discount_t, q_t in zip(*inputs.values(), strict=True)
    ]
  )


def test_the_loss_equals_the_papers():
  names = ("q_tm1", "r_t", "discount_t", "q_t")
  values = np.random.default_rng(0).normal(size=(len(names), 20))
  inputs = dict(zip(names, values, strict=True))
  found = loss_of(checks.to_tensors(inputs), slow=False)
  np.testing.assert_allclose(found, loss_of(inputs, slow=True))
  checks.check_gradients(loss_of, inputs, "q_tm1")
  checks.check_ranks(
    lambda **x: fitted_q.fitted_q_loss(**x, bounds=(-1.0, 2.0)), inputs
  )


@pytest.mark.parametrize("policy", [chain.STOCHASTIC, chain.GREEDY])
def test_the_true_value_of_a_known_process(policy):
  """Within 5 %, from episodes that were truncated after 3 steps.

  Without the values of their last observations it is 20 % lower or more.
  """
  data = recording.Recording(chain.SPEC, chain.record(5_000, 3))
  actions = data.sample_actions(chain.Actor(policy))
  assert len(actions) == (1 if policy is chain.GREEDY else 8)
  values = fitted_q.evaluate(data, actions, SETTINGS, chain.DISCOUNT, 2_000, 1)
  true = chain.value_of(policy)
  np.testing.assert_allclose(values.mean(), true, rtol=0.05)
  cut = data.episodes._replace(
    terminated=data.episodes.terminated | data.episodes.truncated
  )
  ended = fitted_q.evaluate(
    *(recording.Recording(chain.SPEC, cut), actions),
    *(SETTINGS, chain.DISCOUNT, 2_000, 1),
  )
  assert ended.mean() < 0.8 * true


class ConstantActor:
  """Actor whose action is always the same, beyond the bounds if above 1."""

  def __init__(self, action):
    self._action = action

  def act(self, observation, reward, first):
    actions = np.full((len(observation), 1), self._action, np.float32)
    return adder.ActorOutput(actions, {})


@pytest.mark.parametrize("action", [0.5, 7.0])
def test_the_true_value_of_continuous_actions(action):
  """The reward is the action, and each step terminates with probability 0.2."""
  spec = chain.SPEC._replace(
    actions=specs.specs.BoundedArray((1,), np.float32, -1.0, 1.0)
  )
  random = np.random.default_rng(0)
  lengths = random.geometric(0.2, 1_000)
  actions = random.uniform(-1.0, 1.0, (lengths.sum(), 1)).astype(np.float32)
  ends = np.isin(np.arange(len(actions)), np.cumsum(lengths) - 1)
  data = recording.Recording(
    spec,
    recordings.Episodes(
      np.zeros((lengths.sum() + len(lengths), chain.STATES), np.float32),
      *(actions, actions[:, 0], ends, np.zeros_like(ends), lengths),
    ),
  )
  chosen = data.sample_actions(ConstantActor(action))
  values = fitted_q.evaluate(data, chosen, SETTINGS, 0.9, 1_500, 1)
  expected = min(action, 1.0) / (1.0 - 0.9 * 0.8)
  np.testing.assert_allclose(values, expected, rtol=0.05)
