"""Tests of policies' actors: samples, log-densities, and modes."""

import pickle

import ml_collections
import numpy as np
import pytest
from acme import specs

from slipway.agents import policies
from slipway.agents.networks import network as network_lib
from slipway.agents.networks import numpy_ops, tf_network
from slipway.configs import ppo
from tests.environments import given

ENVS, ACTIONS = 64, 3
KINDS = ("categorical", "gaussian", "tanh_gaussian")


def make_policy(kind):
  actions = specs.BoundedArray((ACTIONS,), np.float32, -1, 1)
  if kind == "categorical":
    actions = ACTIONS
  continuous = "gaussian" if kind == "categorical" else kind
  network = ppo.get_config().network
  # The default initializer gives small outputs, so nearly uniform policies.
  network.initializer = "truncated_normal"
  return policies.make_policy(
    network, given.spec_of(actions=actions), continuous
  )


def make_variables(policy, seed=3):
  return tf_network.Network(policy, seed, policies.POLICY).get_variables()


def act(actor, observations):
  """Acts for one step, with zero rewards at the start of episodes."""
  envs = len(observations)
  return actor.act(
    observations, np.zeros(envs, np.float32), np.ones(envs, bool)
  )


def make_observations(seed=0):
  random = np.random.default_rng(seed)
  return random.normal(size=(ENVS, 4)).astype(np.float32)


def make_distribution(policy, variables, observations):
  acting = network_lib.make_acting(policy, policies.POLICY)
  acting.load(variables)
  return policy.head.distribution(numpy_ops, acting(observations))


class ActorBuilder(policies.PolicyBuilder):
  """Builder of actors with a given policy."""

  def __init__(self, policy):
    self._policy = policy

  def make_network(self, config, spec):
    return self._policy


def make_actor(policy, seed, worker, restarts):
  config = ppo.get_config()
  config.seed = seed
  return ActorBuilder(policy).make_actor(config, None, worker, restarts)


@pytest.fixture(params=KINDS)
def policy(request):
  return make_policy(request.param)


def test_log_probs_belong_to_the_sampled_actions(policy):
  variables = make_variables(policy)
  actor = make_actor(policy, seed=1, worker=0, restarts=0)
  actor.load(variables)
  for seed in range(5):
    observations = make_observations(seed)
    action, extras = act(actor, observations)
    expected = make_distribution(policy, variables, observations)
    assert extras[policies.LOG_PROB].shape == (ENVS,)
    np.testing.assert_allclose(
      extras[policies.LOG_PROB], expected.log_prob(action), rtol=1e-3, atol=1e-3
    )


def test_samples_depend_on_seed_worker_and_restarts(policy):
  def run(*which):
    actor = make_actor(policy, *which)
    actor.load(make_variables(policy))
    return np.array([act(actor, make_observations()).action for _ in range(5)])

  np.testing.assert_array_equal(run(1, 0, 0), run(1, 0, 0))
  for other in ((2, 0, 0), (1, 1, 0), (1, 0, 1)):
    assert (run(1, 0, 0) != run(*other)).any()


def test_frequencies_of_categorical_actions_are_their_probabilities():
  policy = make_policy("categorical")
  variables = make_variables(policy)
  actor = make_actor(policy, seed=1, worker=0, restarts=0)
  actor.load(variables)
  observations = np.tile(make_observations()[:1], (ENVS, 1))
  calls = 300
  counts = sum(
    np.bincount(act(actor, observations).action, minlength=ACTIONS)
    for _ in range(calls)
  )
  found = make_distribution(policy, variables, observations[:ACTIONS])
  p = np.exp(found.log_prob(np.arange(ACTIONS)))
  total = calls * ENVS
  # The counts are within five standard deviations of a binomial.
  np.testing.assert_array_less(
    np.abs(counts - p * total), 5 * np.sqrt(p * (1 - p) * total)
  )


def make_evaluation_config(policy):
  return ml_collections.ConfigDict(
    {"seed": 3, "evaluation": {"policy": policy}}
  )


def test_a_sampled_evaluation_samples(policy):
  variables, observations = make_variables(policy), make_observations()
  actor = ActorBuilder(policy).make_greedy_actor(
    make_evaluation_config("sampled"), None
  )
  actor.load(variables)
  (first, _), (second, _) = (act(actor, observations) for _ in range(2))
  assert (first != second).any()


def test_the_greedy_actor_takes_modes(policy):
  variables, observations = make_variables(policy), make_observations()
  actor = ActorBuilder(policy).make_greedy_actor(
    make_evaluation_config("greedy"), None
  )
  actor.load(variables)
  expected = make_distribution(policy, variables, observations).mode()
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
    actor.load(make_variables(policy))
  act_five_times(one)
  state = pickle.loads(pickle.dumps(one.get_state()))
  saved = one.get_state()
  expected = act_five_times(one)
  assert saved == state  # further steps do not change a saved state
  other.set_state(state)
  for found, wanted in zip(act_five_times(other), expected, strict=True):
    np.testing.assert_array_equal(found.action, wanted.action)
    np.testing.assert_array_equal(
      found.extras[policies.LOG_PROB], wanted.extras[policies.LOG_PROB]
    )
