"""Tests of the plans of new and resumed sweeps."""

import contextlib
import sys

import pytest

from slipway.launch.checks import flags as flags_lib
from slipway.launch.commands import cli
from slipway.launch.sweeps import command, study
from slipway.launch.sweeps import plan as plan_lib

_TRAIN_FLAGS = [
  "--config=apex_dqn:cartpole",
  "--config.limits.environment_steps=100",
]
_RANDOM = [
  *("--search=random", "--settings=3"),
  "--vary=learner.learning_rate=1e-4..1e-3",
]


def parse(*arguments):
  return flags_lib.parse_known(
    command.define_flags(), ["sweep", *arguments], ""
  )


def make(*arguments):
  return plan_lib.make(*parse(*_TRAIN_FLAGS, *arguments))


def resume(plan, *arguments, settings=3):
  flags, _ = parse("--resume=swept", *arguments)
  plan_lib.extend(flags, plan, settings)
  return plan


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
  # The other cluster is not accepted without a token unless it is given again.
  assert (plan.ray_address, plan.insecure, plan.at_once) == ("b:2", False, 4)
  assert not resume(plan, "--ray_address=").ray_address


def test_a_resume_finds_the_modules_of_the_configs(monkeypatch):
  monkeypatch.setattr(sys, "path", [*sys.path])
  plan = make()
  plan.module_folders = ["/modules"]
  resume(plan)
  assert sys.path[0] == "/modules"


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


def test_overrides_have_names_and_values():
  plan = make(
    *("--launch=ray", "--launch=local_mp", "--nowait_for_machines"),
    *("--config.limits.target_return", "-200"),
    *("-mode=sync", "--noconfig.normalization.observations"),
  )
  assert plan.overrides == {
    "config": "apex_dqn:cartpole",
    "config.limits.environment_steps": "100",
    "launch": "local_mp",
    "wait_for_machines": "false",
    "config.limits.target_return": "-200",
    "mode": "sync",
    "config.normalization.observations": "false",
  }


def test_the_target_of_the_config_counts_but_ends_no_run():
  plan = make()
  config = plan.make_config(0, {}, with_environment=False)
  assert plan.target == 475.0
  assert config.limits.target_return == float("inf")
  plan = make("--config.limits.target_return=300")
  config = plan.make_config(0, {}, with_environment=False)
  assert plan.target == config.limits.target_return == 300.0


@pytest.mark.parametrize(
  ("arguments", "flag"),
  [
    (["--settings=3"], "--settings=3"),
    (["--search_seed=3"], "--search_seed=3"),
    (["--insecure"], "--insecure"),
    (
      ["--vary=learner.tau=1,2", "--config.learner.tau=0.5"],
      "--config.learner.tau",
    ),
    (["--vary=mode=sync,single", "--mode=sync"], "--mode"),
    (["--vary=seed=1,2"], "config.seed"),
  ],
)
def test_a_flag_without_effect_is_rejected(arguments, flag):
  with pytest.raises(ValueError, match=f"{flag}.*no effect") as caught:
    make(*arguments)
  assert "\n" not in str(caught.value)


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
  with pytest.raises(ValueError, match=f"{resumed[0]}.*no effect") as caught:
    resume(make(*given), *resumed)
  assert "\n" not in str(caught.value)


def test_a_resume_adds_seeds_and_settings():
  plan = make(*_RANDOM)
  before = plan.list_first_settings()
  plan = resume(plan, "--settings=4", "--seeds=2")
  assert plan.seeds == [1, 2]
  assert plan.list_first_settings()[:3] == before
  assert len(plan.list_first_settings()) == 4
