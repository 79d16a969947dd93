"""Runs: `slipway train` as a user starts it, with its files and processes."""

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

from slipway.launch.control import calls, control_service
from slipway.launch.runs import run_address, run_folder

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_MARK = "SLIPWAY_TEST_RUN"  # environment variable of all processes of a run
_SMALL = (
  # The limit leaves CPU time for another test's run, which may be starting.
  "--config.rates.environment_steps_per_s=1500",
  "--config.network.hidden_sizes=(32,)",
  "--config.evaluation.episodes=5",
  "--config.limits.target_return=inf",
)
_PERIOD = "--config.evaluation.period_s=0.2"  # has no effect in mode 'single'
_DEFAULT = "--config=apex_dqn:cartpole"
_SMALL_REPLAY = "--config.replay.min_size=200"


class Run:
  """One run of `slipway train`, in its own processes."""

  def __init__(
    self,
    folder,
    *flags,
    config=None,
    resume=False,
    terminal=None,
    script="",
  ):
    """Starts the launcher as the leader of its own process group.

    Args:
      folder: folder of the test; the run's folder is created below it.
      *flags: command-line flags besides those that make the run small.
      config: file and preset of a family without a minimum replay size, such
        as 'ppo.py:cartpole'. None stands for the default, or the one in
        `flags`.
      resume: whether to resume the earlier run of the same folder, with its
        config.
      terminal: file descriptor of the standard output; None writes to a file.
      script: commands of a shell that then executes the launcher in its place.
    """
    self.path = folder / "runs" / "a-run"
    self._outputs = [folder / "stdout", folder / "stderr"]
    self._temporary = folder / "temporary"
    self._temporary.mkdir(exist_ok=True)
    self._mark = uuid.uuid4().hex
    family = [f"--config=configs/{config}"] if config else [_SMALL_REPLAY]
    if not config and not any(x.startswith("--config=") for x in flags):
      family.append(_DEFAULT)
    if "--mode=single" not in flags:
      family.append(_PERIOD)
    arguments = (
      (f"--resume={self.path}",)
      if resume
      else ("--name=a-run", f"--run_dir={folder / 'runs'}", *family, *_SMALL)
    )
    with open(self._outputs[0], "w") as out, open(self._outputs[1], "w") as err:
      self.launcher = subprocess.Popen(
        [
          *("sh", "-c", f'{script}\nexec "$@"', "sh"),
          # The tests may run under nohup, which ignores SIGHUP.
          *("env", "--default-signal=HUP", sys.executable),
          *("-m", "slipway.launch.commands.train", *arguments, *flags),
        ],
        stdout=out if terminal is None else terminal,
        stderr=err,
        start_new_session=True,
        cwd=_ROOT,
        env={**os.environ, _MARK: self._mark, "TMPDIR": str(self._temporary)},
      )

  @property
  def stdout(self):
    return self._outputs[0].read_text()

  @property
  def stderr(self):
    return self._outputs[1].read_text()

  @property
  def summary(self):
    return json.loads((self.path / "summary.json").read_text())

  @property
  def evaluations(self):
    """Rows of curves.csv, each a dictionary of floats by column."""
    with open(self.path / "curves.csv", newline="") as file:
      rows = list(csv.DictReader(file))
    return [{name: float(row[name]) for name in row} for row in rows]

  def scalars(self, name):
    """Returns the values of a metric in TensorBoard's files, in order."""
    folder = run_folder.RunFolder.open(self.path)
    events = event_accumulator.EventAccumulator(
      str(folder.events), {event_accumulator.SCALARS: 0}
    )
    events.Reload()
    return [event.value for event in events.Scalars(name)]

  def log(self, node):
    return (self.path / "logs" / node).read_text()

  def processes(self, node=None):
    """Returns the run's live processes, including the launcher.

    Args:
      node: name of a node, such as 'worker/0', to return only the processes
        that write to its log.
    """
    return [p for p in psutil.process_iter() if self._is_ours(p, node)]

  def nodes(self):
    """Returns a live process of each node, by the name of the node."""
    logs, found = self._logs, {}
    for process in self.processes():
      try:
        log = self._log_of(process)
      except (psutil.Error, OSError):  # it has ended since
        continue
      if log.parent.parent == logs:
        found[str(log.relative_to(logs))] = process
    return found

  def process(self, node):
    """Returns a node's own process, not its child processes, or None.

    The process ID comes from the runner's log. Creation times can't identify
    the process: psutil adds the boot time to them, which changes by a second
    when the clock is adjusted.
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
    """Returns the launcher's tmpfs directories, with sockets and variables."""
    return glob.glob(f"/dev/shm/slipway-{self.launcher.pid}-*")

  def wait_until(self, condition, timeout_s=120.0):
    """Waits for `condition()`; fails if the run ends or the time is over."""
    deadline = time.monotonic() + timeout_s
    while not condition():
      assert self.launcher.poll() is None, self.stdout + self.stderr
      assert time.monotonic() < deadline, self.stdout + self.stderr
      time.sleep(0.05)

  def status(self):
    """Waits for the launcher's reply; returns its status as JSON data."""
    got = []

    def has_replied():
      where = run_address.read(run_folder.RunFolder.open(self.path))
      if where is None:
        return False
      try:
        status = calls.connect(
          control_service.ControlService, where.address, timeout_s=1.0
        ).status()
        got.append(json.loads(msgspec.json.encode(status)))
      except Exception:
        return False
      return True

    self.wait_until(has_replied)
    return got[-1]

  def wait_until_learning(self):
    self.wait_until(lambda: ": running" in self.stdout)

  def wait(self, timeout_s=120.0):
    """Waits for the launcher to exit; returns its exit status."""
    return self.launcher.wait(timeout_s)

  def check_nothing_left(self, within_s=0.0):
    """Asserts that no process, tmpfs directory or temporary file is left.

    Args:
      within_s: seconds in which the run's processes may still exit.
    """
    deadline = time.monotonic() + within_s
    while self.processes() and time.monotonic() < deadline:
      time.sleep(0.05)
    assert not [process.cmdline() for process in self.processes()]
    assert not self.memory()
    assert not list(self._temporary.iterdir())

  def kill(self):
    """Kills the run's remaining processes."""
    for process in self.processes():
      process.send_signal(signal.SIGKILL)
    self.launcher.wait(10)


@pytest.fixture(scope="session")
def run_class():
  """Returns the class `Run`, for tests that start many runs at a time."""
  return Run


@pytest.fixture
def start_run(tmp_path):
  """Yields a function that starts runs; kills their processes at the end."""
  runs = []

  def start(*flags, **options):
    runs.append(Run(tmp_path, *flags, **options))
    return runs[-1]

  yield start
  for run in runs:
    run.kill()


@pytest.fixture
def control():
  """Returns a function that sends a command to a run by `slipway control`."""

  def send(run, *words):
    """Sends the command; returns its standard output."""
    done = subprocess.run(
      [
        sys.executable,
        "-m",
        "slipway.launch.commands.cli",
        "control",
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
