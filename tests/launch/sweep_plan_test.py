"""Tests of the plans of new and resumed sweeps."""

import json

import pytest

from slipway.launch import cli, sweep_flags, sweep_plan
from slipway.launch.options import flags as flags_lib
from slipway.launch.sweeps import sweep_folder

_TRAIN_FLAGS = [
  "--config=apex_dqn:cartpole",
  "--config.limits.environment_steps=100",
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  return sweep_folder.SweepFolder.create(".", "swept", overwrite=False)


def make(*arguments):
  flags, others = parse(*_TRAIN_FLAGS, *arguments)
  return sweep_plan.make(flags, others)


def resume(folder, *arguments):
  flags, _ = parse(f"--resume={folder.path}", *arguments)
  return sweep_plan.extend(flags, folder.read_plan())


def parse(*arguments):
  return flags_lib.parse_known(sweep_flags.define(), ["sweep", *arguments], "")


def test_a_resumed_sweep_has_the_same_placement(folder):
  folder.write_plan(make("--ray_address=a:1", "--insecure", "--at_once=3"))
  plan = resume(folder)
  assert (plan.ray_address, plan.insecure, plan.at_once) == ("a:1", True, 3)
  assert sweep_plan.list_flags(plan) == plan.flags  # a run uses one machine


def test_a_resume_uses_the_cluster_of_the_sweep(folder, capsys):
  folder.write_plan(make("--ray_address=127.0.0.1:1"))  # where no cluster is
  assert cli.run(["slipway", "sweep", f"--resume={folder.path}"]) == 2
  error = capsys.readouterr().err
  assert error.startswith("sweep: --ray_address=127.0.0.1:1 ")
  assert error.count("\n") == 1
  assert not (folder.path / "0-1.log").exists()


def test_a_resume_replaces_the_placement(folder):
  folder.write_plan(make("--ray_address=a:1", "--insecure", "--at_once=3"))
  plan = resume(folder, "--ray_address=b:2", "--at_once=4")
  # The other cluster is not accepted without a token unless it is given again.
  assert (plan.ray_address, plan.insecure, plan.at_once) == ("b:2", False, 4)
  plan = resume(folder, "--ray_address=")
  assert not plan.ray_address


@pytest.mark.parametrize(
  "launch",
  [["--launch=ray"], ["-launch=ray"], ["--launch=ray", "--noinsecure"]],
)
def test_runs_on_all_machines_get_the_address(folder, launch):
  plan = make(*launch, "--ray_address=a:1")
  assert sweep_plan.uses_ray(plan)
  assert sweep_plan.list_flags(plan) == [*plan.flags, "--ray_address=a:1"]
  folder.write_plan(plan)
  plan = resume(folder, "--ray_address=b:2", "--insecure")
  assert sweep_plan.list_flags(plan) == [
    *plan.flags,
    "--ray_address=b:2",
    "--insecure",
  ]


def test_the_last_launch_counts():
  plan = make("--launch=ray", "--launch=local_mp")
  assert not sweep_plan.uses_ray(plan)


def test_an_older_sweep_can_be_resumed_elsewhere(folder):
  folder.write_plan(make("--launch=ray"))
  path = folder.path / "sweep.json"
  older = json.loads(path.read_text())
  for name in ("ray_address", "insecure", "at_once"):
    del older[name]
  older["flags"].append("--ray_address=a:1")
  path.write_text(json.dumps(older))
  assert sweep_plan.list_flags(resume(folder)) == older["flags"]
  plan = resume(folder, "--ray_address=b:2")
  assert sweep_plan.list_flags(plan)[-1] == "--ray_address=b:2"


@pytest.mark.parametrize(
  ("arguments", "flag"),
  [
    (["--settings=3"], "--settings=3"),
    (["--search_seed=3"], "--search_seed=3"),
    (["--insecure"], "--insecure"),
  ],
)
def test_a_flag_without_effect_is_rejected(arguments, flag):
  with pytest.raises(ValueError, match=f"{flag}.*no effect") as caught:
    make(*arguments)
  assert "\n" not in str(caught.value)


def test_a_flag_that_each_run_replaces_is_rejected():
  name = "config.learner.learning_rate"
  with pytest.raises(ValueError, match=f"--{name}.*no effect"):
    make("--vary=learner.learning_rate=1e-3,1e-4", f"--{name}=0.5")


@pytest.mark.parametrize(
  ("given", "resumed"),
  [
    (["--seeds=3"], "--seeds=2"),
    ([], "--settings=30"),
    (
      [
        "--search=random",
        "--settings=3",
        "--vary=learner.learning_rate=1e-4..1e-3",
      ],
      "--settings=2",
    ),
    (["--ray_address=a:1", "--insecure"], "--insecure --ray_address="),
  ],
)
def test_a_flag_of_a_resume_without_effect_is_rejected(folder, given, resumed):
  folder.write_plan(make(*given))
  resumed = resumed.split()
  with pytest.raises(ValueError, match=f"{resumed[0]}.*no effect") as caught:
    resume(folder, *resumed)
  assert "\n" not in str(caught.value)


def test_a_resume_adds_seeds_and_settings(folder):
  vary = "--vary=learner.learning_rate=1e-4..1e-3"
  folder.write_plan(make("--search=random", "--settings=3", vary))
  plan = resume(folder, "--settings=4", "--seeds=2")
  assert (plan.max_settings, plan.seeds) == (4, [1, 2])
  plan = resume(folder, "--settings=3", "--seeds=1")
  assert (plan.max_settings, plan.seeds) == (3, [1])
