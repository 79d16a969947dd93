"""Runs: `slipway train` as a user starts it, and what it leaves."""

import csv
import glob
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import uuid

import msgspec
import psutil
import pytest
from tensorboard.backend.event_processing import event_accumulator

from slipway.launch.orchestration import control_service
from slipway.launch.rpc import client as rpc_client
from slipway.launch.runs import run_address, run_folder

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_MARK = "SLIPWAY_TEST_RUN"  # in the environment of all processes of a run
_SMALL = (
  # The run of another test may be starting meanwhile.
  "--config.rates.environment_steps_per_s=1500",
  "--config.network.hidden_sizes=(32,)",
  "--config.evaluation.episodes=5",
  "--config.evaluation.period_s=0.2",
  "--config.limits.target_return=inf",
)
_SMALL_REPLAY = "--config.replay.min_size=200"


class Run:
  """One training in processes of its own."""

  def __init__(self, folder, *flags, config=None, resume=False, terminal=None):
    """Starts it, as the leader of its own process group.

    Args:
      folder: of the test; the run's is below it.
      flags: besides those that make it small.
      config: file and preset of a family without a replay that fills, such as
        'ppo.py:cartpole'; None: the default, or the one in `flags`.
      resume: whether it continues the folder's earlier run, as small.
      terminal: descriptor of its standard output; None: a file.
    """
    self.path = folder / "runs" / "a-run"
    self._said = [folder / "stdout", folder / "stderr"]
    self._temporary = folder / "temporary"
    self._temporary.mkdir(exist_ok=True)
    self._mark = uuid.uuid4().hex
    family = f"--config=configs/{config}" if config else _SMALL_REPLAY
    arguments = (
      (f"--resume={self.path}",)
      if resume
      else ("--name=a-run", f"--run_dir={folder / 'runs'}", family, *_SMALL)
    )
    with open(self._said[0], "w") as out, open(self._said[1], "w") as err:
      self.launcher = subprocess.Popen(
        [
          # If the tests run under nohup, which ignores it.
          *("env", "--default-signal=HUP", sys.executable),
          *("-m", "slipway.launch.train", *arguments, *flags),
        ],
        stdout=out if terminal is None else terminal,
        stderr=err,
        start_new_session=True,
        cwd=_ROOT,
        env={**os.environ, _MARK: self._mark, "TMPDIR": str(self._temporary)},
      )

  @property
  def stdout(self):
    return self._said[0].read_text()

  @property
  def stderr(self):
    return self._said[1].read_text()

  @property
  def summary(self):
    return json.loads((self.path / "summary.json").read_text())

  @property
  def evaluations(self):
    """Rows of curves.csv: numbers by column."""
    with open(self.path / "curves.csv", newline="") as file:
      rows = list(csv.DictReader(file))
    return [{name: float(row[name]) for name in row} for row in rows]

  def scalars(self, name):
    """Values of a metric in TensorBoard's files, in their order."""
    folder = run_folder.RunFolder.open(self.path)
    events = event_accumulator.EventAccumulator(
      str(folder.events), {event_accumulator.SCALARS: 0}
    )
    events.Reload()
    return [event.value for event in events.Scalars(name)]

  def log(self, node):
    return (self.path / "logs" / node).read_text()

  def processes(self, node=None):
    """Those alive, launcher included; of one node such as 'worker/0'."""
    return [p for p in psutil.process_iter() if self._is_ours(p, node)]

  def process(self, node):
    """A node's own process, without those that it has started, or None.

    The runner's log says which it is. Times of creation do not: psutil adds the
    time of the boot to them, which changes by a second as clocks are adjusted.
    """
    pids = re.findall(rf"{node} is process (\d+)", self.log("runner"))
    try:
      process = psutil.Process(int(pids[-1]))
    except (IndexError, psutil.NoSuchProcess):
      return None
    return process if self._is_ours(process, node) else None

  def _is_ours(self, process, node):
    try:
      return (
        process.environ().get(_MARK) == self._mark
        and process.status() != psutil.STATUS_ZOMBIE
        and (node is None or self._log_of(process) == self._logs / node)
      )
    except (psutil.Error, OSError):
      return False

  def _log_of(self, process):
    return pathlib.Path(f"/proc/{process.pid}/fd/1").resolve()

  @property
  def _logs(self):
    return (self.path / "logs").resolve()

  def memory(self):
    """Folders in memory of this launcher: its socket, its variables."""
    return glob.glob(f"/dev/shm/slipway-{self.launcher.pid}-*")

  def wait_until(self, condition, timeout_s=120.0):
    """Waits for `condition()`, while the run is alive."""
    deadline = time.monotonic() + timeout_s
    while not condition():
      assert self.launcher.poll() is None, self.stdout + self.stderr
      assert time.monotonic() < deadline, self.stdout + self.stderr
      time.sleep(0.05)

  def status(self):
    """Its control node's status as JSON has it; the node may have to start."""
    got = []

    def answers():
      where = run_address.read(run_folder.RunFolder.open(self.path))
      if where is None:
        return False
      try:
        status = rpc_client.connect(
          control_service.ControlService, where.address, timeout_s=1.0
        ).status()
        got.append(json.loads(msgspec.json.encode(status)))
      except Exception:
        return False
      return True

    self.wait_until(answers)
    return got[-1]

  def wait_until_learning(self):
    self.wait_until(lambda: ": running" in self.stdout)

  def wait(self, timeout_s=120.0):
    """Waits for the end; returns the exit status."""
    return self.launcher.wait(timeout_s)

  def check_nothing_left(self, within_s=0.0):
    """Asserts that no process, memory or file outlives the run."""
    deadline = time.monotonic() + within_s
    while self.processes() and time.monotonic() < deadline:
      time.sleep(0.05)
    assert not [process.cmdline() for process in self.processes()]
    assert not self.memory()
    assert not list(self._temporary.iterdir())

  def kill(self):
    """Ends all that is left of it."""
    for process in self.processes():
      process.send_signal(signal.SIGKILL)
    self.launcher.wait(10)


@pytest.fixture(scope="session")
def run_class():
  """The class of a run, for tests that start many at a time."""
  return Run


@pytest.fixture
def start_run(tmp_path):
  """Starts runs with the given flags, and kills what a test leaves of them."""
  runs = []

  def start(*flags, **options):
    runs.append(Run(tmp_path, *flags, **options))
    return runs[-1]

  yield start
  for run in runs:
    run.kill()


@pytest.fixture
def control():
  """Sends a run a command with `slipway control`."""

  def send(run, *words):
    """Returns what the command printed."""
    done = subprocess.run(
      [
        sys.executable,
        "-m",
        "slipway.launch.control",
        f"--run={run.path}",
        *words,
      ],
      capture_output=True,
      text=True,
      timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout

  return send
