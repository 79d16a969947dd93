"""Tests of training from Python, as in a script or a notebook."""

import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import types

import msgspec
import numpy as np
import onnxruntime
import psutil
import pytest

import slipway
from slipway.launch.control import calls, control_service
from slipway.launch.runs import run_address, run_folder, run_lock, run_status
from tests import polling
from tests.launch import errors, small_disk

pytestmark = pytest.mark.runs


def small_config(**limits):
  config = slipway.load_config("apex_dqn:cartpole")
  config.replay.min_size = 100
  config.network.hidden_sizes = (16,)
  config.evaluation.episodes = 2
  config.limits.target_return = float("inf")
  config.limits.update(limits)
  return config


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory):
  return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def result(run_dir):
  """Returns the result of a run in one process."""
  config = small_config(trainer_steps=600)
  return slipway.train(config, name="first", run_dir=run_dir, mode="single")


def test_a_training_returns_its_result(result, run_dir, capfd):
  assert result.folder == run_dir / "first"
  assert result.summary.trainer_steps == 600
  assert result.summary.stopped_because == "trainer_steps"
  assert result.config.mode == "single"
  assert len(result.curves["eval_return"]) == 1
  assert result.curves["env_steps"].dtype == np.float64
  again = slipway.load_result(run_dir / "first")
  assert again.summary == result.summary


def test_a_run_continues_with_changes_and_is_changed_meanwhile(result, run_dir):
  config = slipway.load_config(str(result.folder / "config.json"))
  assert config == result.config
  config.limits.trainer_steps = 10**6
  config.environment.kwargs = {}
  training = slipway.start(config, resume=result.folder)
  limit = None
  for status in training:
    if status.trainer_steps > 650 and limit is None:
      limit = status.trainer_steps + 2_000
      training.set("limits.trainer_steps", limit)
  resumed = training.wait()
  assert resumed.summary.trainer_steps == limit
  assert resumed.summary.resumes == 1


def test_a_resume_with_another_mode_names_the_mode(result):
  config = slipway.load_config(str(result.folder / "config.json"))
  config.mode = "async"
  with pytest.raises(ValueError, match="--mode=async can't resume"):
    slipway.train(config, resume=result.folder)


def test_a_status_follows_the_run(run_dir):
  training = slipway.start(small_config(), name="watched", run_dir=run_dir)
  phases = []
  for status in training:
    phases.append(status.phase)
    if status.trainer_steps > 20:
      training.stop()
  assert "running" in phases
  assert not training.running
  assert training.wait().summary.stopped_because == "python"


@pytest.mark.parametrize(
  ("config", "options", "line"),
  [
    ("apex_dqn:cartpol", {}, "preset 'cartpol' is unknown"),
    ("nothing", {}, "--config=nothing can't be read"),
    (None, {}, "config is None"),
    ({"seed": 3}, {}, "{'seed': 3}"),
    ("ppo:cartpole", {"flags": "--mode=single"}, "flags is '--mode=single'"),
    ("ppo:cartpole", {"name": "a/b"}, "a/b"),
    ("ppo:cartpole", {"flags": ["--launc=ray"]}, "--launc is no flag"),
  ],
)
def test_a_rejected_training_raises_one_line(tmp_path, config, options, line):
  with errors.one_line(line):
    slipway.train(config, run_dir=tmp_path, **options)
  assert not list(tmp_path.iterdir())


def test_an_unknown_field_of_a_config_is_named_first(run_dir):
  config = small_config()
  config.learner.learning_rat = 0.1
  with pytest.raises(ValueError, match=r"^config\.learner\.learning_rat is no"):
    slipway.train(config, run_dir=run_dir)


def test_an_ended_training_leaves_no_temporary_file(tmp_path, monkeypatch):
  monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
  config = small_config()
  config.learner.learning_rate = -1.0  # rejected, so it ends soon
  training = slipway.start(config, run_dir=tmp_path / "runs")
  assert list(tmp_path.glob("*.json"))
  polling.wait_until(lambda: not training.running)
  assert not list(tmp_path.glob("*.json"))


def test_a_script_that_ends_first_leaves_no_temporary_file(tmp_path):
  script = (
    "import slipway\n"
    "training = slipway.start('apex_dqn:cartpole', name='a', mode='single')\n"
    "while training.status() is None and training.running:\n"
    "  pass\n"
    "print(training._process.pid)\n"
  )
  (tmp_path / "temporary").mkdir()
  ended = subprocess.run(
    [sys.executable, "-c", script],
    cwd=tmp_path,
    env={**os.environ, "TMPDIR": str(tmp_path / "temporary")},
    capture_output=True,
    text=True,
    check=True,
  )
  assert not list((tmp_path / "temporary").glob("*.json"))
  pid = int(ended.stdout.splitlines()[-1])
  polling.wait_until(lambda: not psutil.pid_exists(pid))


@small_disk.needs_root
def test_a_full_temporary_disk_gets_no_file(tmp_path, monkeypatch):
  with small_disk.mounted(tmp_path / "disk", megabytes=1) as disk:
    filler = small_disk.fill(disk)
    monkeypatch.setattr(tempfile, "tempdir", str(disk))
    with pytest.raises(OSError, match="No space left"):
      slipway.start(small_config(), run_dir=tmp_path / "runs")
    assert list(disk.iterdir()) == [filler]
  assert not (tmp_path / "runs").exists()


def test_names_of_trainings_that_start_at_once_differ(tmp_path):
  config = small_config()
  config.learner.learning_rate = -1.0  # rejected, and so leaves no folder
  trainings = [slipway.start(config, run_dir=tmp_path) for _ in range(3)]
  folders = {training.folder for training in trainings}
  assert len(folders) == 3
  assert all(folder.parent == tmp_path for folder in folders)
  for training in trainings:
    with pytest.raises(ValueError, match=r"learning_rate=-1\.0"):
      training.wait()
  assert not list(tmp_path.iterdir())


def test_a_run_that_exists_is_kept(result, run_dir):
  with pytest.raises(ValueError, match="exists"):
    slipway.train("ppo:cartpole", name="first", run_dir=run_dir)
  assert slipway.load_result(run_dir / "first").config.agent == "dqn"


def test_a_script_whose_import_starts_a_run_is_rejected(tmp_path):
  """Otherwise each process of the run would start another run."""
  (tmp_path / "script.py").write_text(
    "import slipway\n"
    "from gymnasium.envs.classic_control.cartpole import CartPoleEnv\n"
    "config = slipway.load_config('dqn:cartpole')\n"
    "config.environment.name = 'script:CartPoleEnv'\n"
    "slipway.train(config, name='one')\n"
  )
  done = subprocess.run(
    [sys.executable, "script.py"],
    cwd=tmp_path,
    capture_output=True,
    text=True,
    timeout=100,
  )
  assert done.returncode == 1
  assert "put the call under if __name__ == '__main__':" in done.stderr
  assert not (tmp_path / "runs" / "one").exists()


def test_an_environment_of_the_script_itself_raises_one_line(tmp_path):
  config = small_config()
  config.environment.name = "__main__:Corridor"
  with pytest.raises(ValueError, match="put the environment in a"):
    slipway.train(config, run_dir=tmp_path)


def test_another_run_in_the_folder_gets_no_command(tmp_path):
  folder = run_folder.RunFolder.create(tmp_path, "used", overwrite=False)
  folder.write_config(small_config())
  commands = []
  other = types.SimpleNamespace(
    status=run_status.RunStatus,
    pause=lambda: commands.append("pause"),
    stop=commands.append,
  )
  socket = str(tmp_path / "control.sock")
  with (
    run_lock.held(folder),
    calls.Server(socket, control_service.ControlService, other),
  ):
    # The other run has begun before the training's process, and after it.
    publish(folder, socket, os.getpid())
    with slipway.start(resume=folder.path) as training:
      assert training.status() is None
      with subprocess.Popen(["sleep", "60"]) as later:
        publish(folder, socket, later.pid)
        assert training.status() is None
        training.stop()
        later.kill()
  assert not training.running
  assert commands == []


def publish(folder, path, pid):
  """Writes the address of a launcher into a run's folder."""
  address = run_address.RunAddress(path, pid, socket.gethostname())
  run_address.path_in(folder).write_bytes(msgspec.json.encode(address))


def test_leaving_the_with_block_stops_the_run(run_dir, tmp_path, monkeypatch):
  monkeypatch.chdir(run_dir)
  with slipway.start(
    small_config(), name="left", run_dir=".", mode="single"
  ) as training:
    monkeypatch.chdir(tmp_path)  # the run's folder stays the same
    # Commands wait until the run is up.
    with pytest.raises(ValueError, match="nonsense"):
      training.set("limits.environment_steps", "nonsense")
    training.pause()
    status = training.status()
    assert status is not None and status.phase == "paused"
  assert not training.running
  with pytest.raises(ValueError, match="has ended"):
    training.pause()
  # A signal would leave less time for the last snapshot.
  summary = slipway.load_result(training.folder).summary
  assert summary.stopped_because == "python"


def test_the_run_stops_with_the_process_that_started_it(tmp_path):
  # The forked child outlives the process, but must not keep the run active.
  script = (
    "import os, time, slipway\n"
    "training = slipway.start('apex_dqn:cartpole', name='a', run_dir='runs',"
    " mode='single')\n"
    "child = os.fork()\n"
    "if not child:\n"
    "  time.sleep(600)\n"
    "print(training._process.pid, child, flush=True)\n"
    "training.wait()\n"
  )
  caller = subprocess.Popen(
    [sys.executable, "-c", script],
    cwd=tmp_path,
    stdout=subprocess.PIPE,
    text=True,
  )
  assert caller.stdout is not None
  run, child = map(psutil.Process, map(int, caller.stdout.readline().split()))
  while not (tmp_path / "runs" / "a" / "control.json").exists():
    time.sleep(0.1)
  caller.kill()
  caller.wait()
  try:
    run.wait(60)
    assert child.is_running()
  finally:
    child.kill()
  summary = slipway.load_result(tmp_path / "runs" / "a").summary
  assert summary.stopped_because == "SIGTERM"


def test_a_policy_acts_and_is_exported(result, tmp_path):
  policy = slipway.load(result.folder)
  batch = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
  actions = policy(batch)
  assert actions.shape == (50,)
  assert [policy(observation) for observation in batch] == list(actions)
  assert all(policy.action_space.contains(action) for action in actions)
  path = tmp_path / "policy.onnx"
  policy.export(path)
  session = onnxruntime.InferenceSession(str(path))
  (exported,) = session.run(["action"], {"observation": batch})
  np.testing.assert_array_equal(exported, actions)


def test_a_small_policy_needs_no_tensorflow(result):
  script = (
    "import sys, slipway; import numpy as np\n"
    f"policy = slipway.load({str(result.folder)!r})\n"
    "policy(np.zeros(4, np.float32))\n"
    "assert 'tensorflow' not in sys.modules\n"
  )
  subprocess.run([sys.executable, "-c", script], check=True)


def test_public_names_are_documented():
  assert set(slipway.__all__) <= set(dir(slipway))
  for name in slipway.__all__:
    assert getattr(slipway, name).__doc__
  assert pathlib.Path(slipway.__path__[0], "py.typed").exists()
  with pytest.raises(AttributeError, match="trane"):
    slipway.trane  # noqa: B018
