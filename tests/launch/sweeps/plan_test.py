"""Tests of the plans of new and resumed sweeps."""

import contextlib

import pytest

from slipway.launch.commands import cli
from slipway.launch.sweeps import plan as plan_lib
from slipway.launch.sweeps import study, sweep_flags
from tests.launch import errors

_TRAIN_FLAGS = [
  "--config=apex_dqn:cartpole",
  "--config.limits.environment_steps=100",
]
_RANDOM = [
  *("--search=random", "--settings=3"),
  "--vary=learner.learning_rate=1e-4..1e-3",
]


def parse(*arguments):
  return sweep_flags.define().parse_known(["sweep", *arguments], "")


def make(*arguments):
  return plan_lib.make(parse(*_TRAIN_FLAGS, *arguments))


def resume(plan, *arguments, settings=3):
  return plan.extended(parse("--resume=swept", *arguments), settings)


def test_a_resumed_sweep_keeps_its_plan(tmp_path):
  made = make(*_RANDOM, "--ray_address=a:1", "--insecure", "--at_once=3")
  with contextlib.ExitStack() as resources:
    path = tmp_path / "swept"
    study.Study.create(path, False, made, resources).write_plan()
  with contextlib.ExitStack() as resources:
    kept = resume(study.Study.open(str(path), resources).plan)
  assert kept == made
  assert kept.list_first_settings() == made.list_first_settings()


def test_a_resume_uses_the_cluster_of_the_sweep(tmp_path, capsys):
  address = "127.0.0.1:1"  # where no cluster is
  path = tmp_path / "swept"
  with contextlib.ExitStack() as resources:
    study.Study.create(
      path, False, make(f"--ray_address={address}"), resources
    ).write_plan()
  assert cli.run(["slipway", "sweep", f"--resume={path}"]) == 2
  error = capsys.readouterr().err
  assert error.startswith("sweep: ") and address in error
  assert error.count("\n") == 1
  assert not (path / "0-1.log").exists()


def test_a_resume_replaces_the_placement():
  plan = make("--ray_address=a:1", "--insecure", "--at_once=3")
  assert not plan.list_placing_flags()  # a run uses one machine
  plan = resume(plan, "--ray_address=b:2", "--at_once=4")
  flags = plan.flags
  # The other cluster is not accepted without a token unless it is given again.
  assert (flags.ray_address, flags.insecure, flags.at_once) == ("b:2", False, 4)
  assert not resume(plan, "--ray_address=").flags.ray_address


@pytest.mark.parametrize(
  "launch",
  [["--launch=ray"], ["-launch", "ray"], ["--launch=ray", "--noinsecure"]],
)
def test_runs_on_all_machines_get_the_address(launch):
  plan = make(*launch, "--ray_address=a:1")
  assert plan.is_on_all_machines
  flags = ["--launch=ray", "--ray_address=a:1"]
  assert plan.list_placing_flags() == flags
  plan = resume(plan, "--ray_address=b:2", "--insecure")
  assert plan.list_placing_flags() == [
    *("--launch=ray", "--ray_address=b:2", "--insecure=true"),
  ]


def test_flags_have_their_values():
  plan = make(
    *("--launch=local_mp", "--launch=ray", "--nowait_for_machines"),
    *("--config.limits.target_return", "-200"),
    *("-mode=sync", "--noconfig.normalization.observations"),
  )
  flags = ["--launch=ray", "--wait_for_machines=false"]
  assert plan.list_placing_flags() == flags
  config = plan.make_config(0, {}, with_environment=False)
  assert config.limits.target_return == -200
  assert config.mode == "sync"
  assert not config.normalization.observations


def test_the_target_of_the_config_counts_but_ends_no_run():
  plan = make()
  config = plan.make_config(0, {}, with_environment=False)
  assert plan.target == 475.0
  assert config.limits.target_return == float("inf")
  plan = make(
    "--config.limits.target_return=300", "--config.limits.target_info=x:1"
  )
  config = plan.make_config(0, {}, with_environment=False)
  assert plan.target == config.limits.target_return == 300.0
  assert config.limits.target_info == "x:1"


@pytest.mark.parametrize(
  ("arguments", "flag"),
  [
    (["--settings=3"], "--settings=3"),
    (["--search_seed=3"], "--search_seed=3"),
    (["--insecure"], "--insecure"),
    (["--prometheus_port=9400"], "--prometheus_port"),
    (
      ["--vary=learner.tau=1,2", "--config.learner.tau=0.5"],
      "--config.learner.tau",
    ),
    (["--vary=mode=sync,single", "--mode=sync"], "--mode"),
    (["--vary=seed=1,2"], "config.seed"),
  ],
)
def test_a_flag_without_effect_is_rejected(arguments, flag):
  with errors.one_line(flag, "no effect"):
    make(*arguments)


@pytest.mark.parametrize(
  ("given", "resumed"),
  [
    (["--seeds=3"], "--seeds=2"),
    ([], "--settings=30"),
    (_RANDOM, "--settings=2"),
    (["--ray_address=a:1", "--insecure"], "--insecure --ray_address="),
  ],
)
def test_a_flag_of_a_resume_without_effect_is_rejected(given, resumed):
  resumed = resumed.split()
  with errors.one_line(resumed[0], "no effect"):
    resume(make(*given), *resumed)


def test_a_resume_adds_seeds_and_settings():
  plan = make(*_RANDOM)
  before = plan.list_first_settings()
  plan = resume(plan, "--settings=4", "--seeds=2")
  assert [*plan.seeds] == [1, 2]
  assert plan.list_first_settings()[:3] == before
  assert len(plan.list_first_settings()) == 4
