"""CartPole-v1: a short training to 195, and complete trainings to 475."""

import subprocess
import sys

import ml_collections
import pytest

from slipway.environments import factory, recordings


@pytest.mark.runs
def test_a_short_training_reaches_195(train):
  # A run in one process is reproducible for a seed. It took 15,476 environment
  # steps; another CPU may round differently.
  summary = train(
    "--config=apex_dqn:cartpole",
    "--mode=single",
    "--config.seed=1",
    "--config.evaluation.period_steps=250",
    "--config.limits.target_return=195",
    "--config.limits.environment_steps=100_000",
  )
  assert summary["evaluation"]["mean_return"] >= 195.0
  assert summary["evaluation"]["episodes"] == 20
  assert summary["stopped_because"] == "target_return"


@pytest.mark.learning
@pytest.mark.timeout(1_800)
def test_the_default_mode_reaches_475(train):
  summary = train(
    "--config=apex_dqn:cartpole",
    "--config.limits.wall_clock_s=1_700",
  )
  assert summary["stopped_because"] == "target_return"
  assert summary["evaluation"]["mean_return"] >= 475.0
  assert summary["evaluation"]["episodes"] == 20


@pytest.mark.learning
@pytest.mark.timeout(900)
@pytest.mark.parametrize("mode", ["sync", "async", "single"])
def test_ppo_reaches_475(train, mode):
  # It took 20,000 to 25,000 environment steps in each mode: half a minute.
  summary = train(
    "--config=ppo:cartpole",
    f"--mode={mode}",
    "--config.limits.wall_clock_s=800",
  )
  assert summary["stopped_because"] == "target_return"
  assert summary["evaluation"]["mean_return"] >= 475.0
  assert summary["evaluation"]["episodes"] == 20


@pytest.mark.learning
@pytest.mark.timeout(900)
def test_behaviour_cloning_reaches_the_recorded_policy(train, tmp_path):
  train(
    "--config=ppo:cartpole",
    "--mode=single",
    "--config.limits.target_return=475",
  )
  recorded = tmp_path / "recorded"
  done = subprocess.run(
    [
      *(
        sys.executable,
        "-m",
        "slipway.launch.commands.cli",
        "record",
        f"--run={tmp_path / 'a-run'}",
      ),
      *("--episodes=20", f"--out={recorded}"),
    ],
    capture_output=True,
    text=True,
  )
  assert done.returncode == 0, done.stdout + done.stderr
  spec = factory.make_spec(
    ml_collections.ConfigDict({"name": "CartPole-v1", "kwargs": {}})
  )
  episodes = recordings.read(recorded, spec)
  expected = episodes.rewards.sum() / len(episodes.lengths)
  assert expected >= 400.0
  summary = train(
    "--overwrite",
    "--config=bc:cartpole",
    f"--config.dataset.path={recorded}",
    f"--config.limits.target_return={expected}",
    "--config.limits.target_evaluations=1",
    "--config.limits.wall_clock_s=600",
  )
  assert summary["stopped_because"] == "target_return"
  assert summary["evaluation"]["mean_return"] >= expected
  assert summary["env_steps"] == 0
