"""Tests of folders that another user has made, and of what their files do."""

import json
import os
import sys

import pytest

import slipway
from slipway.configs import dqn
from slipway.launch.checks import train_flags
from slipway.launch.commands import cli
from slipway.launch.runs import run_folder
from tests.launch import errors, saved

_STRANGER = 12_345  # a user number that no user has

only_root = pytest.mark.skipif(
  os.geteuid() != 0, reason="only root can give files to another user"
)


@pytest.fixture
def run(tmp_path):
  """Returns the folder of a run of this user, with untrained variables."""
  return saved.write_run(dqn.get_config(), tmp_path / "runs")


def give_folder(run):
  os.chown(run.path, _STRANGER, -1)


def give_config(run):
  os.chown(run.config, _STRANGER, -1)


def open_to_all(run):
  run.path.chmod(0o777)


def link_snapshots(run):
  """A link in place of the snapshots, as to a folder of another user."""
  foreign = run.path.parent / "foreign"
  run.snapshots.rename(foreign)
  os.chown(foreign, _STRANGER, -1)
  run.snapshots.symlink_to(foreign)


def give_snapshot(run):
  (run.snapshots / "000001").mkdir()
  (run.snapshots / "000001" / "single.pkl").touch()
  os.chown(run.snapshots / "000001" / "single.pkl", _STRANGER, -1)


def open_snapshots(run):
  run.path.chmod(0o755)
  run.snapshots.chmod(0o777)


def give_python_path(run):
  (run.path / "python_path.json").write_text("[]")
  os.chown(run.path / "python_path.json", _STRANGER, -1)


FOREIGN = [
  pytest.param(give_folder, marks=only_root),
  pytest.param(give_config, marks=only_root),
  pytest.param(link_snapshots, marks=only_root),
  pytest.param(give_snapshot, marks=only_root),
  pytest.param(give_python_path, marks=only_root),
  open_to_all,
  open_snapshots,
]


@pytest.mark.parametrize("make_foreign", FOREIGN)
def test_a_run_of_another_user_needs_trust(run, make_foreign, capsys):
  make_foreign(run)
  with errors.one_line("trust=True", run.path):
    slipway.load(run.path)
  slipway.load(run.path, trust=True)
  assert cli.run(["slipway", "evaluate", f"--run={run.path}"]) == 2
  assert "--trust" in capsys.readouterr().err
  played = ["--trust", "--episodes=1"]
  assert cli.run(["slipway", "evaluate", f"--run={run.path}", *played]) == 0
  with pytest.raises(ValueError, match="--trust"):
    train_flags.parse(["train", f"--resume={run.path}"], "Trains.")
  resumed = ["train", f"--resume={run.path}", "--trust"]
  assert train_flags.parse(resumed, "Trains.").flags.trust


def test_trust_without_a_run_to_resume_is_rejected():
  with pytest.raises(ValueError, match="--trust is for --resume"):
    train_flags.parse(["train", "--config=dqn:cartpole", "--trust"], "Trains.")


@only_root
def test_a_new_run_takes_no_folder_of_another_user(tmp_path):
  (tmp_path / "a").mkdir()
  os.chown(tmp_path / "a", _STRANGER, -1)
  with pytest.raises((ValueError, OSError), match="another user"):
    run_folder.RunFolder.create(tmp_path, "a", overwrite=True)
  assert not any((tmp_path / "a").iterdir())


@pytest.mark.parametrize("is_damaged", [False, True])
def test_loading_a_policy_of_built_in_parts_runs_nothing_of_its_folder(
  run, tmp_path, monkeypatch, is_damaged
):
  if is_damaged:  # its copy in a snapshot is used
    copy = run.snapshots / "000001"
    copy.mkdir()
    run.config.rename(copy / "config.json")
    run.config.write_text("damaged")
  shadow = tmp_path / "code"
  shadow.mkdir()
  (run.path / "python_path.json").write_text(json.dumps([str(shadow)]))
  monkeypatch.setattr(sys, "path", list(sys.path))
  slipway.load(run.path)
  assert str(shadow) not in sys.path
