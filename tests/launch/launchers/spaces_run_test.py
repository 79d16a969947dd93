"""Tests of runs with dict observations and masked multi-discrete actions."""

import subprocess
import sys

import pytest

from slipway.environments import factory, recordings
from slipway.launch.runs import run_folder

# Each test starts several processes, on a machine that may be busy.
pytestmark = [pytest.mark.runs, pytest.mark.timeout(400)]

# The environment raises an error at an illegal action, which ends the run.
ENVIRONMENT = (
  "--config.environment.name=tests.environments.shaped:Shaped-v0",
  "--config.environment.kwargs.observation=parts",
  "--config.environment.kwargs.action=multi_discrete",
  "--config.environment.kwargs.masked=true",
  "--config.environment.action_mask=true",
)


def run_command(command, *flags):
  code = (
    "import sys\n"
    "from slipway.launch.commands import cli\n"
    "sys.exit(cli.run(['slipway', *sys.argv[1:]]))"
  )
  done = subprocess.run(
    [sys.executable, "-c", code, command, *flags],
    capture_output=True,
    text=True,
  )
  assert done.returncode == 0, done.stderr
  return done.stdout


def train(run_dir, config, *flags):
  run_command(
    "train",
    f"--config={config}:cartpole",
    "--mode=single",
    f"--name={config}",
    f"--run_dir={run_dir}",
    *ENVIRONMENT,
    "--config.limits.trainer_steps=60",
    "--config.evaluation.period_steps=30",
    *flags,
  )
  return run_folder.RunFolder.open(run_dir / config)


def test_a_run_is_evaluated_recorded_filmed_and_imitated(tmp_path):
  dqn = train(tmp_path, "dqn", "--config.replay.min_size=100")
  episodes = str(tmp_path / "episodes")
  played = f"--run={dqn.path}", "--episodes=20"
  run_command("evaluate", *played)
  run_command("play", str(dqn.path), "--video")
  printed = run_command("record", *played, f"--out={episodes}")
  assert "20 episodes recorded" in printed
  assert list(dqn.path.glob("videos/*.mp4"))
  spec = factory.make_spec(dqn.read_config().environment)
  assert recordings.read(episodes, spec).lengths.tolist() == [5] * 20
  bc = train(
    tmp_path,
    "bc",
    f"--config.dataset.path={episodes}",
    "--config.learner.batch_size=32",
  )
  assert bc.best.exists()


def test_rollouts_of_several_components(tmp_path):
  small = "--config.adder.unroll=16", "--config.learner.minibatch_size=32"
  assert train(tmp_path, "ppo", *small).best.exists()
