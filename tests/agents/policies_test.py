"""Actors of policies: what they sample, its log-density, and their modes."""

import pickle

import numpy as np
import pytest
from acme import specs

from slipway.agents import policies
from slipway.agents.networks import actor_critic, numpy_ops, tf_network
from slipway.agents.networks import network as network_lib
from slipway.configs import ppo

ENVS, ACTIONS = 64, 3
KINDS = ("categorical", "gaussian", "tanh_gaussian")


def make_spec(kind):
  actions = specs.BoundedArray((ACTIONS,), np.float32, -1, 1)
  if kind == "categorical":
    actions = specs.DiscreteArray(ACTIONS)
  return specs.EnvironmentSpec(
    observations=specs.Array((4,), np.float32),
    actions=actions,
    rewards=specs.Array((), np.float32),
    discounts=specs.BoundedArray((), np.float32, 0, 1),
  )


def make_policy(kind):
  continuous = "gaussian" if kind == "categorical" else kind
  network = ppo.get_config().network
  # Small outputs would all be nearly uniform.
  network.initializer = "truncated_normal"
  return policies.make_policy(network, make_spec(kind), continuous)


def variables_of(policy, seed=3):
  return tf_network.Network(policy, seed, policies.POLICY).get_variables()


def act(actor, observations):
  """One step, whose rewards and beginnings are of no interest."""
  envs = len(observations)
  return actor.act(
    observations, np.zeros(envs, np.float32), np.ones(envs, bool)
  )


def make_observations(seed=0):
  random = np.random.default_rng(seed)
  return random.normal(size=(ENVS, 4)).astype(np.float32)


def distribution_of(policy, variables, observations):
  acting = network_lib.make_acting(policy, policies.POLICY)
  acting.load(variables)
  return policy.distribution(numpy_ops, acting(observations))


class Actors(policies.PolicyBuilder):
  """Makes the actors of one policy."""

  def __init__(self, policy):
    self._policy = policy

  def make_network(self, config, spec):
    return self._policy


def make_actor(policy, seed, worker, restarts):
  config = ppo.get_config()
  config.seed = seed
  return Actors(policy).make_actor(config, None, worker, restarts)


@pytest.fixture(params=KINDS)
def policy(request):
  return make_policy(request.param)


def test_a_policy_is_of_the_kind_of_its_actions():
  network, spec = ppo.get_config().network, make_spec("categorical")
  made = policies.make_policy(network, spec, "tanh_gaussian")
  assert isinstance(made, actor_critic.PolicyNetwork)
  parameters = np.zeros((1, ACTIONS), np.float32)
  assert made.distribution(numpy_ops, parameters).mode().shape == (1,)


def test_log_probs_are_those_of_the_sampled_actions(policy):
  variables = variables_of(policy)
  actor = make_actor(policy, seed=1, worker=0, restarts=0)
  actor.load(variables)
  for seed in range(5):
    observations = make_observations(seed)
    action, extras = act(actor, observations)
    expected = distribution_of(policy, variables, observations)
    assert extras[policies.LOG_PROB].shape == (ENVS,)
    np.testing.assert_allclose(
      extras[policies.LOG_PROB], expected.log_prob(action), rtol=1e-3, atol=1e-3
    )


def test_samples_vary_and_follow_from_seed_worker_and_restarts(policy):
  def run(*which):
    actor = make_actor(policy, *which)
    actor.load(variables_of(policy))
    return np.array([act(actor, make_observations()).action for _ in range(5)])

  np.testing.assert_array_equal(run(1, 0, 0), run(1, 0, 0))
  for other in ((2, 0, 0), (1, 1, 0), (1, 0, 1)):
    assert (run(1, 0, 0) != run(*other)).any()


def test_categorical_actions_are_as_frequent_as_probable():
  policy = make_policy("categorical")
  variables = variables_of(policy)
  actor = make_actor(policy, seed=1, worker=0, restarts=0)
  actor.load(variables)
  observations = np.tile(make_observations()[:1], (ENVS, 1))
  calls = 300
  counts = sum(
    np.bincount(act(actor, observations).action, minlength=ACTIONS)
    for _ in range(calls)
  )
  found = distribution_of(policy, variables, observations[:ACTIONS])
  p = np.exp(found.log_prob(np.arange(ACTIONS)))
  total = calls * ENVS
  # Within five standard deviations of a binomial, of a fixed seed.
  np.testing.assert_array_less(
    np.abs(counts - p * total), 5 * np.sqrt(p * (1 - p) * total)
  )


def test_the_greedy_actor_takes_modes(policy):
  variables, observations = variables_of(policy), make_observations()
  actor = Actors(policy).make_greedy_actor(None, None)
  actor.load(variables)
  expected = distribution_of(policy, variables, observations).mode()
  for _ in range(2):
    action, extras = act(actor, observations)
    np.testing.assert_array_equal(action, expected)
    assert not extras
  actor.set_state(actor.get_state())


def test_another_actor_continues_equally(policy):
  def act_five_times(actor):
    return [act(actor, make_observations(i)) for i in range(5)]

  one, other = (make_actor(policy, seed, 0, 0) for seed in (1, 2))
  for actor in (one, other):
    actor.load(variables_of(policy))
  act_five_times(one)
  state = pickle.loads(pickle.dumps(one.get_state()))
  kept = one.get_state()
  expected = act_five_times(one)
  assert kept == state  # it does not change when the actor acts again
  other.set_state(state)
  for found, wanted in zip(act_five_times(other), expected, strict=True):
    np.testing.assert_array_equal(found.action, wanted.action)
    np.testing.assert_array_equal(
      found.extras[policies.LOG_PROB], wanted.extras[policies.LOG_PROB]
    )
