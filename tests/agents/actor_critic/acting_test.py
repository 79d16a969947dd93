"""Tests of the exploration of actor-critic algorithms."""

import numpy as np
import pytest

from slipway.agents import policies
from slipway.agents.networks import network as network_lib
from slipway.agents.networks import tf_ops
from slipway.configs import catalog
from tests.agents import collected

ENVIRONMENTS = 4


def make_config(name="ddpg", workers=1, **exploration):
  name, _, preset = name.partition(":")
  config = catalog.algorithms()[name].get_config(preset or "pendulum")
  config.network.hidden_sizes = (8,)
  config.topology.update(workers=workers, environments_per_worker=ENVIRONMENTS)
  config.exploration.update(exploration)
  return config


def make_variables(config):
  builder, spec = collected.build(config)
  return builder.make_learner(config, spec).get_variables()


def make_actors(config, worker=0, **options):
  """Returns an exploring and a greedy actor with the same variables."""
  builder, spec = collected.build(config)
  actors = [
    builder.make_actor(config, spec, worker, **options),
    builder.make_greedy_actor(config, spec),
  ]
  variables = make_variables(config)
  for actor in actors:
    actor.load(variables)
  return actors


def act(actor, steps, first=False):
  """Returns actions [steps, B, A] for a constant observation."""
  observation = np.full((ENVIRONMENTS, 3), 0.1, np.float32)
  reward = np.zeros(ENVIRONMENTS, np.float32)
  firsts = np.full(ENVIRONMENTS, first)
  return np.array(
    [actor.act(observation, reward, firsts).action for _ in range(steps)]
  )


@pytest.mark.parametrize("noise", ["gaussian", "ornstein_uhlenbeck"])
def test_noise_has_its_deviation_and_correlation(noise):
  config = make_config(noise=noise, noise_std=0.05)
  exploring, greedy = make_actors(config)
  inputs = (np.zeros((4, 3), np.float32), np.zeros(4, np.float32))
  assert not exploring.act(*inputs, np.ones(4, bool)).extras  # for Retrace only
  found = act(exploring, 20_000) - act(greedy, 1)
  assert found.mean() == pytest.approx(0.0, abs=0.01)
  assert found.std() == pytest.approx(0.05, rel=0.1)
  one = found[:, 0, 0]
  correlation = np.corrcoef(one[1:], one[:-1])[0, 1]
  expected = 0.85 if noise == "ornstein_uhlenbeck" else 0.0
  assert correlation == pytest.approx(expected, abs=0.05)


def test_the_noise_process_restarts_with_an_episode():
  config = make_config(noise="ornstein_uhlenbeck", noise_std=0.05)
  exploring, greedy = make_actors(config)
  found = act(exploring, 5_000, first=True) - act(greedy, 1)
  # After one step from zero, the deviation is sqrt(1 - 0.85^2) = 0.53 of the
  # stationary one.
  assert found.std() == pytest.approx(0.53 * 0.05, rel=0.1)


def test_deviations_fall_over_the_environments_of_all_workers():
  config = make_config(workers=2, noise_std=0.1, lowest_noise_std=0.001)
  found = []
  for worker in range(2):
    exploring, greedy = make_actors(config, worker)
    noise = act(exploring, 3_000) - act(greedy, 1)
    found.append(noise.std(axis=(0, 2)))
  interleaved = np.stack(found, axis=1).ravel()
  expected = np.geomspace(0.1, 0.001, 2 * ENVIRONMENTS)
  np.testing.assert_allclose(interleaved, expected, rtol=0.1)


def test_external_processes_have_deviations_of_the_ladder():
  config = make_config(workers=2, noise_std=0.1, lowest_noise_std=0.001)
  found = []
  for index in range(2, 6):
    exploring, greedy = make_actors(config, index)
    noise = act(exploring, 3_000) - act(greedy, 1)
    found.append(noise[:, 0].std())
  assert max(found) > 0.01 > min(found)
  assert all(0.0009 < x < 0.11 for x in found)


def test_the_first_steps_are_uniform():
  config = make_config(workers=2, random_steps=800)
  uniform = np.sqrt(1 / 3)
  exploring, _ = make_actors(config)
  # Of the 800 random steps, this worker takes 400, in 100 calls.
  found = act(exploring, 100)
  assert found.std() == pytest.approx(uniform, rel=0.1)
  assert np.abs(found).max() <= 1.0
  assert act(exploring, 100).std() < 0.5 * uniform
  resumed, _ = make_actors(config, earlier_env_steps=400)
  assert act(resumed, 100).std() < 0.5 * uniform


def test_random_actions_are_repeated():
  config = make_config(random_steps=400, random_repeats=8)
  exploring, _ = make_actors(config)
  found = [*act(exploring, 12)]
  resumed, _ = make_actors(config)
  resumed.set_state(exploring.get_state())
  found = np.array([*found, *act(resumed, 36)])  # [48, B, 1]
  groups = found.reshape(6, 8, ENVIRONMENTS)
  np.testing.assert_array_equal(groups, groups[:, :1].repeat(8, 1))
  assert len(np.unique(found)) == 6 * ENVIRONMENTS


def test_fewer_random_steps_than_workers_are_taken():
  config = make_config(workers=3, random_steps=2, noise_std=1e-6)
  exploring, greedy = make_actors(config)
  assert np.abs(act(exploring, 1) - act(greedy, 1)).max() > 0.01
  assert np.abs(act(exploring, 1) - act(greedy, 1)).max() < 0.01


def test_samples_of_a_soft_policy_differ_and_repeat_by_seed():
  config = make_config("sac")
  found = [act(make_actors(config)[0], 10) for _ in range(2)]
  np.testing.assert_array_equal(*found)
  assert found[0].std() > 0.1


@pytest.mark.parametrize("preset", ["pendulum", "lunarlander"])
def test_log_densities_belong_to_the_actions(preset):
  config = make_config(f"mpo:{preset}", random_steps=2 * ENVIRONMENTS)
  config.learner.critic_target = "retrace"
  config.replay.transitions_per_item = 1
  exploring, _ = make_actors(config)
  builder, spec = collected.build(config)
  policy = builder.make_network(config, spec)
  acting = network_lib.make_acting(policy, policies.POLICY)
  variables = make_variables(config)
  # The samples of a wide distribution are often at the bounds.
  size = spec.actions.shape[0]
  variables[f"{policies.POLICY}/output/b"][size:] = 2.0
  for loaded in (exploring, acting):
    loaded.load(variables)
  observation = np.full((ENVIRONMENTS, *spec.observations.shape), 0.1)
  observation = observation.astype(np.float32)
  inputs = (observation, np.zeros(ENVIRONMENTS, np.float32), np.zeros(4, bool))
  for step in range(50):
    output = exploring.act(*inputs)
    found = output.extras[policies.LOG_PROB]
    assert (found.dtype, found.shape) == (np.float32, (ENVIRONMENTS,))
    if step < 2:  # the first steps are uniform in [-1, 1]
      np.testing.assert_allclose(found, -size * np.log(2.0), rtol=1e-6)
      continue
    expected = policy.head.distribution(tf_ops, acting(observation)).log_prob(
      output.action
    )
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_actions_stay_within_their_bounds():
  exploring, _ = make_actors(make_config(noise_std=10.0))
  found = act(exploring, 100)
  assert np.abs(found).max() == 1.0


@pytest.mark.parametrize("noise", ["gaussian", "ornstein_uhlenbeck"])
def test_a_restored_actor_continues_equally(noise):
  config = make_config(noise=noise, random_steps=10)
  one, _ = make_actors(config)
  act(one, 5)
  state = one.get_state()
  expected = act(one, 5)
  other, _ = make_actors(config)
  other.set_state(state)
  np.testing.assert_array_equal(act(other, 5), expected)
