"""Tests of the command `slipway sweep`, each of whose runs is a process."""

import csv
import json
import os
import re
import shlex
import signal
import subprocess
import sys

import psutil
import pytest

from slipway.launch.commands import cli
from slipway.launch.runs import curves
from tests import polling
from tests.launch import errors

pytestmark = pytest.mark.runs

_FLAGS = [
  "--config=apex_dqn:cartpole",
  "--mode=single",
  "--config.replay.min_size=100",
  "--config.network.hidden_sizes=(16,)",
  "--config.evaluation.episodes=2",
]


def start(*flags, **options):
  return subprocess.Popen(
    [sys.executable, "-m", "slipway.launch.commands.cli", "sweep", *flags],
    stdout=subprocess.PIPE,
    stderr=subprocess.STDOUT,
    text=True,
    **options,
  )


def sweep(*flags, **options):
  """Runs a sweep to its end; returns its exit status and its output."""
  process = start(*flags, **options)
  output, _ = process.communicate()
  return process.returncode, output


def read(path):
  with path.open(newline="") as file:
    return list(csv.DictReader(file))


@pytest.mark.timeout(400)
def test_a_sweep_is_interrupted_killed_and_ends(tmp_path):
  folder = tmp_path / "swept"
  limit = ["--config.limits.environment_steps=10_000"]
  process = start(
    *(f"--run_dir={tmp_path}", "--name=swept", "--at_once=2", *_FLAGS),
    "--first_seed=5",
    "--vary=learner.learning_rate=1e-3,0.0001",
    *limit,
  )
  polling.wait_until(lambda: (folder / "0-5" / "curves.csv").exists())
  # As Slurm and systemd do, to all processes.
  whole = psutil.Process(process.pid)
  for each in (whole, *whole.children(recursive=True)):
    each.send_signal(signal.SIGTERM)
  output, _ = process.communicate()
  assert process.returncode == 1
  assert "killed at once" not in output
  assert "2 of 2 runs have not ended at a limit" in output
  assert any((folder / "0-5" / "snapshots").iterdir())
  assert not list_processes(folder)

  process = start(f"--resume={folder}", "--at_once=1")
  polling.wait_until(lambda: list_processes(folder / "0-5"))
  again = [f"--run_dir={tmp_path}", "--name=swept", *limit]
  assert "--overwrite" in sweep(*again, *_FLAGS)[1]
  status, output = sweep(*again, "--overwrite")
  assert "is still active, process" in output
  assert status == 2
  process.kill()
  process.communicate()

  # From another directory, while the killed sweep's run may still be saving.
  status, output = sweep(
    *("--resume=swept", "--seeds=2", "--at_once=2"), cwd=tmp_path
  )
  assert status == 0, output
  runs = read(folder / "runs.csv")
  assert [(x["setting"], x["seed"]) for x in runs] == [
    *(("0", "5"), ("0", "6")),
    *(("1", "5"), ("1", "6")),
  ]
  assert [x["learner.learning_rate"] for x in runs] == [
    *(("1e-3",) * 2),
    *(("0.0001",) * 2),
  ]
  for run in runs:
    path = folder / f"{run['setting']}-{run['seed']}"
    summary = json.loads((path / "summary.json").read_text())
    config = json.loads((path / "config.json").read_text())
    rows = curves.read_evaluations(path / "curves.csv")
    assert summary["stopped_because"] == "environment_steps"
    assert summary["resumes"] == 0 or run["seed"] == "5"
    assert config["seed"] == int(run["seed"])
    assert float(run["score"]) == pytest.approx(
      curves.final_return(rows["env_steps"], rows["eval_return"])
    )
    assert float(run["best"]) == pytest.approx(
      summary["evaluation"]["best_mean_return"]
    )
  settings = read(folder / "settings.csv")
  assert [x["done"] for x in settings] == ["2", "2"]
  assert 0 <= float(settings[1]["improvement"]) <= 1
  assert (folder / "sweep.png").read_bytes().startswith(b"\x89PNG")


def test_a_failed_run_is_reported_and_the_others_continue(tmp_path):
  (tmp_path / "fails.py").write_text(
    "import gymnasium\n"
    "from gymnasium.envs import classic_control\n"
    "class Env(classic_control.CartPoleEnv):\n"
    "  def step(self, action):\n"
    "    if self.fails_after and self._count > self.fails_after: 1 / 0\n"
    "    self._count += 1\n"
    "    return super().step(action)\n"
    "  def __init__(self, fails_after=0, **kwargs):\n"
    "    self.fails_after, self._count = fails_after, 0\n"
    "    super().__init__(**kwargs)\n"
    "gymnasium.register('Fails-v0', entry_point=Env, max_episode_steps=500)\n"
  )
  status, output = sweep(
    *_FLAGS,
    *("--name=swept", "--at_once=1"),
    "--config.environment.name=fails:Fails-v0",
    "--config.limits.trainer_steps=40",
    "--vary=environment.kwargs.fails_after=5,0",
    cwd=tmp_path,
  )
  folder = tmp_path / "runs/swept"
  assert status == 1, output
  assert output.count("ZeroDivisionError") == 2
  runs = read(folder / "runs.csv")
  assert [x["is_done"] for x in runs] == ["False", "True"]


def test_the_signal_that_ended_a_run_is_named(tmp_path):
  folder = tmp_path / "swept"
  process = start(
    *(f"--run_dir={tmp_path}", "--name=swept", *_FLAGS),
    "--config.limits.trainer_steps=1_000_000",
  )
  polling.wait_until(lambda: list_processes(folder))
  for run in list_processes(folder):
    run.kill()
  output, _ = process.communicate()
  assert process.returncode == 1
  assert "sweep: run 0-1 failed: ended by signal 9 (Killed), perhaps" in output


def test_settings_that_can_not_be_trained_are_skipped(tmp_path):
  status, output = sweep(
    *(f"--run_dir={tmp_path}", "--name=swept", "--search=tpe"),
    *("--settings=4", "--search_seed=19", "--vary=adder.discount=0.5..1.5"),
    # 2.5 is no integer, so no config can be made from the setting.
    "--vary=learner.batch_size=32,2.5",
    *(*_FLAGS, "--config.limits.trainer_steps=5"),
  )
  assert status == 1, output
  folder = tmp_path / "swept"
  settings = read(folder / "settings.csv")
  valid = [
    (float(x["adder.discount"]) <= 1, x["learner.batch_size"] == "32")
    for x in settings
  ]
  assert set(valid) > {(False, True), (True, False)}
  for number, checks in enumerate(valid):
    assert output.count(f"sweep: setting {number} (") == int(not all(checks))
  assert [x["done"] for x in settings] == [str(int(all(x))) for x in valid]

  (folder / "settings.csv").unlink()
  status, output = sweep(f"--resume={folder}")
  assert status == 1, output
  assert f"resume:  slipway sweep --resume={folder}" in output
  assert read(folder / "settings.csv") == settings


def test_runs_at_once_leave_cores_for_the_largest_setting(tmp_path):
  cores = sorted(os.sched_getaffinity(0))[:2]
  status, output = sweep(
    *(f"--run_dir={tmp_path}", "--name=swept", "--vary=mode=single,async"),
    *("--config.topology.workers=1", "--config.limits.trainer_steps=5"),
    *(flag for flag in _FLAGS if flag != "--mode=single"),
    preexec_fn=lambda: os.sched_setaffinity(0, cores),
  )
  assert status == 0, output
  ended, begun = (tmp_path / "swept" / x for x in ("0-1", "1-1"))
  ended_s = (ended / "summary.json").stat().st_mtime
  assert ended_s <= (begun / "config.json").stat().st_mtime


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
  """Returns the folder of a sweep that has ended, and that of its uploads."""
  path = tmp_path_factory.mktemp("ended")
  process = start(
    *(f"--run_dir={path}", "--name=swept", *_FLAGS),
    *("--config.limits.target_return", "-200", "--seeds", "1"),
    f"--config.snapshot.url={path}/uploads/",
    "--config.limits.trainer_steps=5",
  )
  process.stdout.close()  # a sweep continues without a reader of its output
  assert process.wait() == 0
  assert read(path / "swept" / "settings.csv")[0]["done"] == "1"
  return path / "swept", path / "uploads"


def test_a_run_that_was_killed_after_its_last_snapshot_is_done(ended):
  folder, _ = ended
  settings = (folder / "settings.csv").read_bytes()
  log = (folder / "0-1.log").read_bytes()
  summary = (folder / "0-1" / "summary.json").rename(folder / "moved")
  status, output = sweep(f"--resume={folder}")
  summary.rename(folder / "0-1" / "summary.json")
  assert status == 0, output
  assert (folder / "settings.csv").read_bytes() == settings
  assert (folder / "0-1.log").read_bytes() == log  # not started again


def test_a_run_that_a_hook_stopped_is_done(ended):
  folder, _ = ended
  path = folder / "0-1" / "summary.json"
  before, log = path.read_text(), (folder / "0-1.log").read_bytes()
  summary = json.loads(before) | {
    "stopped_because": "a hook stopped it: enough"
  }
  path.write_text(json.dumps(summary))
  status, output = sweep(f"--resume={folder}")
  assert status == 0, output
  assert (folder / "0-1.log").read_bytes() == log  # not started again
  path.write_text(before)


def test_a_resume_with_other_spaces_is_rejected(ended, capsys):
  """Runs of further seeds could not be compared with those before."""
  folder, _ = ended
  spaces = folder / "0-1" / "spaces.json"
  before = spaces.read_text()
  spaces.write_text(before.replace("float32 [4]", "float32 [5]"))
  assert cli.run(["slipway", "sweep", f"--resume={folder}", "--seeds=2"]) == 2
  assert "has other observations than when run" in capsys.readouterr().err
  spaces.write_text(before)


def test_sweeps_that_start_at_once_have_different_names(tmp_path):
  flags = [f"--run_dir={tmp_path}", *_FLAGS, "--config.limits.trainer_steps=5"]
  started = [start(*flags) for _ in range(2)]
  for process in started:
    output, _ = process.communicate()
    assert process.returncode == 0, output
  assert len([*tmp_path.glob("sweep-*/settings.csv")]) == 2


def test_sweeps_share_a_url_for_snapshots(ended, tmp_path):
  _, uploads = ended
  status, output = sweep(
    *(f"--run_dir={tmp_path}", "--name=second", *_FLAGS),
    f"--config.snapshot.url={uploads}",
    "--config.limits.trainer_steps=5",
  )
  assert status == 0, output
  for name in ("swept", "second"):
    uploaded = uploads / name / "0-1"
    assert any(uploaded.glob("snapshots/0*"))
    config = json.loads((uploaded / "config.json").read_text())
    assert config["snapshot"]["url"] == str(uploaded.parent)


def test_results_that_can_not_be_written_are_shown(tmp_path):
  folder = tmp_path / "swept"
  process = start(
    *(f"--run_dir={tmp_path}", "--name=swept", *_FLAGS),
    "--config.limits.trainer_steps=5",
  )
  polling.wait_until(lambda: (folder / "0-1").exists())
  (folder / "runs.csv").mkdir()
  output, _ = process.communicate()
  assert process.returncode == 1
  assert re.search(r"as +1/1 ", output)  # the setting's line in the table
  assert f"sweep: '{folder}/runs.csv' cannot be written" in output


REJECTED = [
  ("--vary=learner.lr=1,2", "did you mean --config.learner.learning_rate"),
  ("--vary=learner.learning_rate=-1,1.0", "setting 0 (learning_rate=-1)"),
  ("--vary=learner.learning_rate=1,1", "has '1' twice"),
  ("--search=random --vary=mode=sync,single", "give --settings=2"),
  ("--config.seed=3", "give --seeds=NUMBER"),
  ("--name=x", "the config has no limit"),
  ("--run_dir=a[1] --config.limits.trainer_steps=5", "has '[' in its path"),
  ("--resume=nothing", "is not a sweep"),
  ("--resume=nothing --vary=a=1", "--vary is for a new sweep"),
  ("--resume=nothing --mode=sync", "--mode=sync is for a new sweep"),
  ("--nam=x", "did you mean --name?"),
  ("--at_once=0", "--at_once=0 can't be used"),
  ("--settings=5", "--settings=5 would have no effect"),
  ("--search=tpe", "give --vary"),
  ("--prune --config.limits.episodes=9", "--prune compares runs"),
  ("--dry_run", "--dry_run is for `slipway train`"),
  ("word", "'word' is no flag"),
]


@pytest.mark.parametrize(("flags", "line"), REJECTED)
def test_a_rejected_sweep_prints_one_line(
  flags, line, tmp_path, monkeypatch, capsys
):
  monkeypatch.chdir(tmp_path)
  where = [] if "--resume" in flags else [f"--run_dir={tmp_path}"]
  assert cli.run(["slipway", "sweep", *where, *flags.split()]) == 2
  errors.check_printed(capsys, "sweep: ", line)
  assert not list(tmp_path.iterdir())


def test_the_examples_of_the_help_are_valid(tmp_path, capsys):
  """They are rejected only since their folder can't be made."""
  (tmp_path / "file").touch()
  with pytest.raises(SystemExit):
    cli.run(["slipway", "sweep", "--help"])
  text = capsys.readouterr().out.replace("\\\n", "")
  examples = re.findall(r"^ *slipway sweep (.*--vary.*)$", text, re.MULTILINE)
  assert len(examples) == 3
  for line in examples:
    where = f"--run_dir={tmp_path / 'file'}"
    assert cli.run(["slipway", "sweep", *shlex.split(line), where]) == 2
    (error,) = capsys.readouterr().err.splitlines()
    assert str(tmp_path / "file") in error


def list_processes(folder):
  """Returns the training processes of a sweep's folder."""
  found = []
  for process in psutil.process_iter(["cmdline"]):
    words = process.info["cmdline"] or []
    if any(str(folder) in word for word in words[1:]):
      found.append(process)
  return found
