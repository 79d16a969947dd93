"""Tests of `slipway train --dry_run`: it checks and shows what would start."""

import pytest

from slipway.configs import dqn
from slipway.launch.commands import train
from tests.launch import errors, saved


def run(tmp_path, *flags):
  return train.main(
    ["train", "--dry_run", f"--run_dir={tmp_path / 'runs'}", *flags]
  )


@pytest.mark.parametrize(
  ("flags", "shown"),
  [
    (
      ["--config=apex_dqn:cartpole"],
      [
        "mode async",
        "1 trainer, 1 evaluator, 1 proxy, 2 worker; 32 environments per worker",
        "18,750 items in each of 1 server(s); each has 208 bytes and 4 ",
        # 4 x 64 + 64, 64 x 64 + 64, and 2 outputs of 64 weights and a bias.
        "online 4,610 parameters: torso/linear_0 320, advantage/hidden 4,160, "
        "advantage/output 130",
        "target 4,610 parameters: ",
        "a mean return of 475",
      ],
    ),
    (
      ["--config=sac:pendulum", "--mode=sync"],
      ["critic_0/output 257", "policy 67,330 parameters"],
    ),
    (["--config=ppo:cartpole", "--mode=single"], ["in this process", "queue"]),
    (
      ["--config=dqn:cartpole", "--launch=ray", "--config.topology.machines=3"],
      ["3 machines", "have joined the cluster"],
    ),
  ],
)
def test_what_would_start_is_shown(flags, shown, tmp_path, capsys):
  assert not run(tmp_path, *flags)
  printed = capsys.readouterr().out
  text = " ".join(printed.split())
  for words in shown:
    assert words in text
  assert len(printed.splitlines()) <= 28
  assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
  ("flags", "words"),
  [
    (["--config.learner.batch_size=0"], ["batch_size"]),
    (["--name=a"], ["exists", "--overwrite"]),
    (["--resume=nowhere/a"], ["nowhere/a"]),
  ],
)
def test_what_can_not_start_is_rejected(flags, words, tmp_path, capsys):
  saved.write_run(dqn.get_config(), tmp_path / "runs")
  before = sorted(tmp_path.rglob("*"))
  where = [] if "--resume" in flags[0] else [f"--run_dir={tmp_path / 'runs'}"]
  assert train.main(["train", "--dry_run", *where, *flags]) == 2
  errors.check_printed(capsys, *words)
  assert sorted(tmp_path.rglob("*")) == before


def test_an_existing_run_is_kept_with_overwrite(tmp_path, capsys):
  folder = saved.write_run(dqn.get_config(), tmp_path / "runs")
  assert not run(tmp_path, "--name=a", "--overwrite")
  assert "runs/a could start" in " ".join(capsys.readouterr().out.split())
  assert folder.best.exists()
