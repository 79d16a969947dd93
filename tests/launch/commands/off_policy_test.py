"""Tests of `slipway evaluate --dataset`: what it prints and rejects."""

import re

import pytest

from slipway.configs import ddpg, dqn, ppo, r2d2
from slipway.launch.commands import cli
from tests.environments import recorded
from tests.launch import errors, saved


def make_run(tmp_path, config, steps=60):
  """Makes a run, and records episodes of its environment."""
  config.network.hidden_sizes = (16,)
  folder = tmp_path / "episodes"
  recorded.record(folder, steps=steps, config=config.environment)
  run = saved.write_run(config, tmp_path / "runs")
  return run, [f"--run={run.path}", f"--dataset={folder}", "--updates=100"]


def test_estimates_of_one_policy(tmp_path, capsys):
  _, flags = make_run(tmp_path, ppo.get_config())
  assert cli.run(["slipway", "evaluate", *flags, "--policy=sampled"]) == 0
  recording, notice, line = capsys.readouterr().out.splitlines()
  assert re.match(r"\d+ recorded episodes with \d+ steps: return", recording)
  assert "probabilities of recorded actions" in notice
  found = re.match(
    r"--which=best, version 7: fitted Q \S+ \+- \S+; importance sampling "
    r"[\d.]+ \(of [\d.]+ effective episodes",
    line,
  )
  assert found


def test_one_episode_has_no_standard_error(tmp_path, capsys):
  _, flags = make_run(tmp_path, dqn.get_config("cartpole"), steps=13)
  assert cli.run(["slipway", "evaluate", *flags]) == 0
  recording, _, line = capsys.readouterr().out.splitlines()
  assert recording.startswith("1 recorded episodes")
  assert "+-" not in recording + line


def test_the_best_snapshot_is_that_of_the_highest_value(tmp_path, capsys):
  run, flags = make_run(tmp_path, dqn.get_config("cartpole"))
  flags += ["--which=all"]
  assert cli.run(["slipway", "evaluate", *flags]) == 2
  errors.check_printed(capsys, "has no snapshot")
  for version in (8, 9):
    saved.write_snapshot(run, version)
  assert cli.run(["slipway", "evaluate", *flags]) == 0
  *_, first, second, best = capsys.readouterr().out.splitlines()
  values = {}
  for number, line in ((1, first), (2, second)):
    start = f"--which={number}, version {number + 7}: fitted Q "
    assert line.startswith(start)
    values[float(line.removeprefix(start).split()[0])] = number
  assert best == f"best by fitted Q: --which={values[max(values)]}"


def test_continuous_actions_have_no_importance_sampling(tmp_path, capsys):
  config = ddpg.get_config()
  config.environment.time_limit = 20
  _, flags = make_run(tmp_path, config)
  assert cli.run(["slipway", "evaluate", *flags]) == 0
  _, notice, line = capsys.readouterr().out.splitlines()
  assert notice.startswith("no importance sampling")
  assert line.startswith("--which=best, version 7: fitted Q -")
  assert "importance" not in line


@pytest.mark.parametrize(
  ("more", "part"),
  [
    (["--episodes=3"], "--episodes has an effect only without --dataset"),
    (["--max_steps=3"], "--max_steps has an effect only without --dataset"),
    (["--dataset="], "--updates has an effect only with --dataset"),
    (["--dataset=none"], "which does not exist"),
  ],
)
def test_flags_without_an_effect_are_rejected(tmp_path, capsys, more, part):
  _, flags = make_run(tmp_path, dqn.get_config("cartpole"))
  assert cli.run(["slipway", "evaluate", *flags, *more]) == 2
  errors.check_printed(capsys, part)


def test_recurrent_policies_are_rejected(tmp_path, capsys):
  _, flags = make_run(tmp_path, r2d2.get_config("cartpole"))
  assert cli.run(["slipway", "evaluate", *flags]) == 2
  errors.check_printed(capsys, "has a recurrent network")
