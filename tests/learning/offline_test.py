"""Learning from recorded episodes of which half of the actions are random."""

import ml_collections
import numpy as np
import pytest

from slipway.environments import factory, recorder, recordings

pytestmark = [pytest.mark.learning, pytest.mark.timeout(900)]


def balance(observation):
  """Pushes CartPole's cart to where the pole falls."""
  return (observation[:, 2] + observation[:, 3] > 0).astype(np.int32)


def swing_up(observation):
  """Gives Pendulum the energy of its top, and holds it there."""
  cos, sin, speed = observation.T
  energy = speed**2 / 6.0 + 5.0 * cos
  pumped = np.sign((5.0 - energy) * (speed + 1e-3))
  held = np.clip(-(10.0 * sin + 2.0 * speed) / 2.0, -1.0, 1.0)
  return np.where(cos > 0.9, held, pumped)[:, None].astype(np.float32)


def record(folder, name, policy, steps):
  """Records a policy; returns the mean return of its episodes."""
  config = ml_collections.ConfigDict({"name": name, "kwargs": {}})
  environment = factory.make(config, 8, seed=1)
  random = np.random.default_rng(0)
  with recorder.Recorder(folder, "a", config, environment) as writer:
    step = environment.reset()
    writer.add(None, step)
    for _ in range(steps):
      chosen = policy(step.observation)
      other = environment.sample_actions(step.observation, random)
      explores = random.random(8) < 0.5
      explores = explores.reshape(8, *[1] * (chosen.ndim - 1))
      actions = np.where(explores, other, chosen).astype(chosen.dtype)
      step = environment.step(actions)
      writer.add(actions, step)
  environment.close()
  episodes = recordings.read(folder, environment.spec)
  return episodes.rewards.sum() / len(episodes.lengths)


@pytest.mark.parametrize(
  "config",
  [
    "--config=cql:cartpole",
    "--config=bcq:cartpole",
    "--config=iql:generic",
    "--config=crr:generic",
  ],
)
def test_discrete_actions_are_better_than_mixed_data(train, tmp_path, config):
  """Better than the data by 20 %."""
  data = tmp_path / "recorded"
  mean = record(data, "CartPole-v1", balance, 3_000)
  summary = train(
    config,
    f"--config.dataset.path={data}",
    "--config.environment.name=CartPole-v1",
    f"--config.limits.target_return={1.2 * mean}",
    "--config.limits.trainer_steps=20_000",
  )
  assert summary["stopped_because"] == "target_return"
  assert summary["env_steps"] == 0


@pytest.mark.parametrize(
  "config",
  [
    "--config=iql:generic",
    "--config=crr:generic",
    "--config=td3_bc:generic",
    "--config=rebrac:generic",
    "--config=cql_sac:generic",
    "--config=bcq_continuous:generic",
  ],
)
def test_continuous_actions_are_better_than_mixed_data(train, tmp_path, config):
  """Better than the data by 20 %."""
  data = tmp_path / "recorded"
  mean = record(data, "Pendulum-v1", swing_up, 1_800)
  assert mean > -1_100  # random actions have about -1,200
  summary = train(
    config,
    f"--config.dataset.path={data}",
    "--config.environment.name=Pendulum-v1",
    f"--config.limits.target_return={0.8 * mean}",
    "--config.limits.trainer_steps=10_000",
  )
  assert summary["stopped_because"] == "target_return"
