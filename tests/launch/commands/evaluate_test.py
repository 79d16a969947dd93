"""Tests of `slipway evaluate`: its output, and what it rejects."""

import re

import gymnasium
import numpy as np
import pytest
import tree

import slipway
from slipway.agents import registry
from slipway.configs import ddpg, dqn, ppo, r2d2
from slipway.environments import factory
from slipway.launch.commands import cli, evaluate
from slipway.launch.runs import (
  best_variables,
  recorded_spaces,
)
from tests.launch import errors, saved


@pytest.fixture(params=[False, True], ids=["plain", "normalized"])
def run(tmp_path, request):
  """Returns the folder of a run with untrained variables."""
  config = dqn.get_config()
  config.normalization.observations = request.param
  return saved.write_run(config, tmp_path / "runs")


def test_a_loaded_policy_scales_rewards_as_its_training_did(tmp_path):
  config = r2d2.get_config()
  config.environment.reward_scale = 0.01
  run, spec = (
    saved.write_run(config, tmp_path / "runs"),
    factory.make_spec(config.environment),
  )
  policy = slipway.load(run.path)
  actor = registry.make_builder(config.agent).make_greedy_actor(config, spec)
  actor.load(best_variables.load(run.best)[1])
  observation = np.float32([0.1, -0.2, 0.3, -0.4])
  for reward, first in ((0.0, True), (100.0, False), (50.0, False)):
    policy(observation, reward)
    actor.act(observation[None], np.float32([reward * 0.01]), np.array([first]))
  tree.map_structure(
    np.testing.assert_array_equal, policy.actor.get_state(), actor.get_state()
  )


@pytest.mark.parametrize("episodes", [1, 2])
def test_a_single_episode_has_no_error(run, capsys, episodes):
  flags = [f"--run={run.path}", f"--episodes={episodes}"]
  assert cli.run(["slipway", "evaluate", *flags]) == 0
  printed = capsys.readouterr().out
  assert "nan" not in printed
  assert ("(standard error)" in printed) == (episodes > 1)


def test_an_atari_game_has_a_human_normalized_mean(tmp_path, capsys):
  run = saved.write_run(dqn.get_config("pong"), tmp_path / "runs")
  assert (
    cli.run(["slipway", "evaluate", f"--run={run.path}", "--episodes=1"]) == 0
  )
  printed = capsys.readouterr().out
  found = re.search(r"mean return (-[\d.]+).*normalized (-?[\d.]+)", printed)
  assert found is not None
  expected = (float(found[1]) + 20.7) / (14.6 + 20.7)
  assert float(found[2]) == pytest.approx(expected, abs=1e-3)


def test_other_variables_than_the_best(run, capsys):
  assert "no complete snapshot" in rejection_of(run, capsys, "--which=latest")
  for version in (8, 9):
    saved.write_snapshot(run, version)
  for which, version in (("best", 7), ("1", 8), ("2", 9), ("latest", 9)):
    flags = [f"--run={run.path}", f"--which={which}", "--episodes=1"]
    assert cli.run(["slipway", "evaluate", *flags]) == 0
    assert f"1 episodes of version {version}:" in capsys.readouterr().out
  assert "--which=3" in rejection_of(run, capsys, "--which=3")
  assert "nor a number" in rejection_of(run, capsys, "--which=newest")
  run.best.unlink()
  assert "--which=latest" in rejection_of(run, capsys)


def rejection_of(run, capsys, *flags):
  arguments = [f"--run={run.path}", "--episodes=1", *flags]
  assert cli.run(["slipway", "evaluate", *arguments]) == 2
  error = capsys.readouterr().err
  assert error.count("\n") == 1
  return error


def test_damaged_variables(run, capsys):
  content = run.best.read_bytes()
  run.best.write_bytes(content[: len(content) // 2])
  assert f"{str(run.best)!r} is damaged" in rejection_of(run, capsys)


def test_a_damaged_config(run, capsys):
  run.config.write_text('{"agent": "dqn", "replay": 3}')
  assert f"{str(run.config)!r} is damaged" in rejection_of(run, capsys)
  run.config.write_text("{")
  assert f"{str(run.config)!r} cannot be read" in rejection_of(run, capsys)


def test_the_variables_of_another_network(run, capsys):
  config = run.read_config()
  config.network.hidden_sizes = (64, 8)
  run.write_config(config)
  assert f"{str(run.best)!r} has no variable" in rejection_of(run, capsys)


@pytest.mark.parametrize("run", [True], indirect=True)
def test_variables_without_the_statistics(run, capsys):
  version, variables = best_variables.load(run.best)
  del variables["normalization/mean"]
  best_variables.save(run.best, version, variables)
  assert "has no variable 'normalization/mean'" in rejection_of(run, capsys)


def test_an_environment_that_gives_spaces_only(run, capsys):
  config = run.read_config()
  config.environment.external, config.topology.workers = True, 0
  run.write_config(config)
  assert cli.run(["slipway", "evaluate", f"--run={run.path}"]) == 2
  errors.check_printed(capsys, "defines spaces only, so no episode can")
  with pytest.raises(ValueError, match="which='latest'"):
    slipway.load(run.path)


class Walk(gymnasium.Env):
  """A task that never ends."""

  observation_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
  action_space = gymnasium.spaces.Discrete(2)

  def reset(self, *, seed=None, options=None):
    super().reset(seed=seed)
    return np.zeros(1, np.float32), {}

  def step(self, action):
    return np.zeros(1, np.float32), 0.5, False, False, {}


def test_a_task_that_never_ends(tmp_path, capsys, monkeypatch, caplog):
  monkeypatch.setattr(evaluate, "WARN_AFTER_S", 0.0)
  config = dqn.get_config()
  config.environment.name = f"{__name__}:Walk"
  run = saved.write_run(config, tmp_path / "runs")
  flags = [f"--run={run.path}", "--episodes=3", "--max_steps=40"]
  with caplog.at_level("WARNING"):
    assert cli.run(["slipway", "evaluate", *flags]) == 0
  printed = capsys.readouterr().out
  assert "mean return 20.00" in printed and "mean length 40.0" in printed
  assert "3 of them had not ended after --max_steps=40" in printed
  assert "Walk (index 0) has not ended" in caplog.text


def test_evaluations_have_their_own_environment(tmp_path, capsys):
  config = dqn.get_config()
  config.evaluation.environment.time_limit = 3
  config.evaluation.environment.kwargs = {"sutton_barto_reward": True}
  run = saved.write_run(config, tmp_path / "runs")
  flags = [f"--run={run.path}", "--episodes=4"]
  assert cli.run(["slipway", "evaluate", *flags]) == 0
  printed = capsys.readouterr().out
  # There is no reward but -1 where the pole falls, which takes longer.
  assert "mean return 0.00" in printed and "mean length 3.0" in printed
  assert (
    cli.run(["slipway", "play", str(run.path), "--video", "--which=best"]) == 0
  )
  assert "video of an episode with return 0.00" in capsys.readouterr().out
  policy = slipway.load(run.path)
  environment = policy.make_environment()
  observation, _ = environment.reset(seed=1)
  for _ in range(3):
    observation, reward, *ended, _ = environment.step(policy(observation))
    assert reward == 0.0
  assert ended == [False, True]


def test_evaluations_with_other_spaces_than_the_runs(tmp_path, capsys):
  config = dqn.get_config()
  config.evaluation.environment.name = "Acrobot-v1"
  run = saved.write_run(config, tmp_path / "runs")
  recorded_spaces.write(run, factory.make_spec(config.environment))
  assert cli.run(["slipway", "evaluate", f"--run={run.path}"]) == 2
  errors.check_printed(capsys, "Acrobot-v1 has other observations")


def test_a_policy_acts_as_the_user_wants(tmp_path, capsys):
  run = saved.write_run(ppo.get_config(), tmp_path / "runs")
  printed = {}
  for policy in ("greedy", "sampled"):
    flags = [f"--run={run.path}", "--episodes=2", f"--policy={policy}"]
    assert cli.run(["slipway", "evaluate", *flags]) == 0
    printed[policy] = capsys.readouterr().out
  assert printed["greedy"] != printed["sampled"]
  observation = np.tile(np.float32([0.1, -0.2, 0.3, -0.4]), (64, 1))
  acted = {how: slipway.load(run.path, policy=how) for how in printed}
  actions = {how: set(acted[how](observation)) for how in acted}
  assert len(actions["greedy"]) == 1 and len(actions["sampled"]) == 2


@pytest.mark.parametrize(
  ("config", "policy", "part"),
  [
    (dqn.get_config(), "sampled", "the actions of dqn are greedy only"),
    (ddpg.get_config(), "sampled", "evaluation.policy"),
    (ppo.get_config(), "random", "evaluation.policy='random'"),
  ],
)
def test_a_policy_that_the_algorithm_lacks(tmp_path, config, policy, part):
  run = saved.write_run(config, tmp_path / "runs")
  with errors.one_line(part):
    slipway.load(run.path, policy=policy)
