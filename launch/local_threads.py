"""Launches a program on this machine, watches it, and stops it in order."""

import atexit
import contextlib
import io
import os
import shutil
import signal
import tempfile
import threading
import time
import typing
from collections.abc import Iterator, Mapping, Sequence
from unittest import mock

import launchpad as lp
import ml_collections
import psutil
from absl import flags
from acme import specs
from launchpad.launch import worker_manager
from launchpad.launch.run_locally import launch_local_output_to_files
from launchpad.nodes.python import local_multi_processing

from launch import panel as panel_lib
from launch import program as program_lib
from launch import run_folder, threads

_POLL_S = 0.5
# An orderly stop takes 1 to 5 s; one in the middle of a start-up waits for the
# nodes to be up first.
_STOP_GRACE_S = 30.0


def launch(
  config: ml_collections.ConfigDict,
  spec: specs.EnvironmentSpec,
  folder: run_folder.RunFolder,
  launch_type: str,
  started_at_s: float,
) -> None:
  """Runs a program to its end.

  Args:
    config: the whole config, validated.
    spec: of one environment.
    folder: of the run.
    launch_type: 'local_mp' or 'local_mt'.
    started_at_s: unix seconds of the user's command.

  Raises:
    RuntimeError: a node failed, or did not stop; in one line.
    KeyboardInterrupt: Ctrl-C came twice; all nodes have been killed.
  """
  # Launchpad, Reverb and TensorFlow leave temporary files behind: here, none
  # outlives the run.
  with (
    _memory_dir() as memory_dir,
    mock.patch.object(tempfile, "tempdir", memory_dir),
  ):
    program, control = program_lib.make_program(
      config, spec, folder, memory_dir, started_at_s
    )
    signals = _Signals()
    manager = _start(
      program, launch_type, config.learner.threads, folder, memory_dir
    )
    nodes = {name: list(ran) for name, ran in manager._active_workers.items()}
    watch = _Watch(control.dereference(), signals)
    try:
      manager.wait()
    except Exception as error:
      failure = _explain(folder, nodes, error)
      manager.wait(raise_error=False)
      raise RuntimeError(failure) from error
    except BaseException:
      _kill_nodes()
      raise
    finally:
      watch.close()


class _Signals:
  """Takes what asks this process to end, in Launchpad's stead.

  Its own handlers would stop all nodes at once and kill them 10 s later,
  whatever they are saving.
  """

  def __init__(self):
    """Takes signals from here on; to be made in the main thread."""
    self.first: signal.Signals | None = None
    for number in (signal.SIGINT, signal.SIGTERM):
      signal.signal(number, self._take)

  def _take(self, number: int, frame: typing.Any) -> None:
    if self.first is not None and number == signal.SIGINT:
      raise KeyboardInterrupt
    self.first = self.first or signal.Signals(number)


class _Watch:
  """Shows the run's status, and passes signals on to the control node."""

  def __init__(self, control: typing.Any, signals: _Signals):
    """Starts watching, after the launch."""
    self._control: typing.Any = control  # None: it has ended
    self._panel = panel_lib.Panel()
    self._signals = signals
    self._closed = threading.Event()
    self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
    self._thread.start()

  def close(self) -> None:
    """Shows the last status and stops watching."""
    self._closed.set()
    self._thread.join(timeout=5.0)
    self._panel.close()

  def _run(self) -> None:
    give_up_at_s = float("inf")
    while not self._closed.wait(_POLL_S):
      if self._signals.first is not None:
        give_up_at_s = min(give_up_at_s, time.monotonic() + _STOP_GRACE_S)
        self._call("stop", self._signals.first.name)
      if time.monotonic() > give_up_at_s:
        os.kill(os.getpid(), signal.SIGINT)
        return
      status = self._call("status")
      if status is not None:
        self._panel.update(status)
        if status["phase"] == "stopped":
          # Its node ends now: the reply, and any other call, would be waited
          # for until their timeout.
          self._control.futures.release()
          self._control = None

  def _call(self, method: str, *args: str) -> typing.Any:
    """Calls the control node; None if it is not up yet, or gone already."""
    if self._control is None:
      return None
    try:
      return getattr(self._control, method)(*args)
    except Exception:
      return None  # `manager.wait` knows which, and what to say of it


def _start(
  program: lp.Program,
  launch_type: str,
  learner_threads: int,
  folder: run_folder.RunFolder,
  memory_dir: str,
) -> typing.Any:
  """Launches, without Launchpad's prints; returns its worker manager."""
  # Launchpad reads where logs go from the environment, but at its import.
  launch_local_output_to_files._LOGGING_DIR = str(folder.logs)
  flags.FLAGS.mark_as_parsed()  # ours are apart: Launchpad takes its defaults
  if launch_type == "local_mt":
    with _interrupts_kept_away():
      return lp.launch(program, launch_type=launch_type)
  with contextlib.redirect_stdout(io.StringIO()), _interrupts_kept_away():
    manager = lp.launch(
      program,
      launch_type=launch_type,
      local_resources={
        role: local_multi_processing.PythonProcess(
          env={
            **threads.environment(role, learner_threads),
            "TF_CPP_MIN_LOG_LEVEL": "1",  # no notices
            "PYTHONUNBUFFERED": "1",  # logs are whole, however it ends
            "TMPDIR": memory_dir,
          }
        )
        for role in program.groups
      },
      terminal="output_to_files",
    )
  # `launch` waits itself, and says what went wrong.
  atexit.unregister(manager.wait)
  # Nodes that hang after a failure are killed, but not this process with them.
  manager._kill_main_thread = False
  return manager


@contextlib.contextmanager
def _interrupts_kept_away() -> Iterator[None]:
  """Keeps Launchpad's handlers out, and interrupts from the nodes it starts.

  A Ctrl-C reaches all processes of a terminal. That it is blocked, they
  inherit; a handler or its absence, they would not.
  """
  signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
  try:
    with mock.patch.object(worker_manager, "_register_signal_handler"):
      yield
  finally:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


@contextlib.contextmanager
def _memory_dir() -> Iterator[str]:
  """A folder in memory that only this user may enter, for one run."""
  shared_memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
  path = tempfile.mkdtemp(prefix=f"slipway-{os.getpid()}-", dir=shared_memory)
  try:
    yield path
  finally:
    shutil.rmtree(path, ignore_errors=True)


def _kill_nodes() -> None:
  for process in psutil.Process().children(recursive=True):
    with contextlib.suppress(psutil.NoSuchProcess):
      process.kill()


def _explain(
  folder: run_folder.RunFolder,
  nodes: Mapping[str, Sequence[typing.Any]],
  error: Exception,
) -> str:
  """One line: which node failed, why, and where its log is."""
  for name, processes in nodes.items():
    status = getattr(processes[0], "returncode", None)
    if not status:
      continue
    log = folder.logs / name
    lines = log.read_text(errors="replace").splitlines()
    if any(line.startswith("Traceback (most recent") for line in lines):
      last = [line for line in lines if line and not line[0].isspace()]
      errors = [line for line in last if "Error" in line.split(":")[0]]
      return f"node {name} failed: {(errors or last)[-1]} (log: {log})"
    how = (
      f"was ended by {signal.Signals(-status).name}"
      if status < 0
      else f"ended with exit status {status}"
    )
    return f"node {name} {how} (log: {log})"
  said = " ".join(str(error).split())
  return f"a node failed: {type(error).__name__}: {said} (logs: {folder.logs})"
