"""Session: runs trainings from Python, by `slipway.train` and `slipway.start`.

A training runs in processes of its own, like `slipway train`. The signal
handlers, threads and imports of the calling process do not change, so it may be
a script, a notebook or a test.
"""

import atexit
import collections
import contextlib
import dataclasses
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import typing
from collections.abc import Callable, Iterator, Sequence

import ml_collections
import numpy as np

from slipway.configs import fields
from slipway.environments import user_code
from slipway.launch.api import running
from slipway.launch.checks import overrides, run_config
from slipway.launch.control import control_service
from slipway.launch.display import notebook
from slipway.launch.processes import attached_process
from slipway.launch.runs import (
  config_file,
  curves,
  run_folder,
  run_status,
)

_STATUS_PERIOD_S = 1.0  # seconds between two statuses of an iteration
_COMMAND_POLL_S = 0.1  # seconds between two attempts to send a command
# Last lines of the run's standard error that are kept, since they contain the
# message of an error.
_KEPT_ERROR_LINES = 20

# Type of an argument that is a config or the name of a config.
Config = ml_collections.ConfigDict | str


@dataclasses.dataclass(frozen=True)
class RunResult:
  """The results of a run that has ended.

  Attributes:
    folder: the run's folder.
    config: the run's config.
    summary: the run's last status: counts, rates, reason of the stop.
    curves: columns of curves.csv by name, float64 [N] for N evaluations:
      `env_steps`, `wall_s`, `eval_return`, ...; nan where a value is unknown.
  """

  folder: pathlib.Path
  config: ml_collections.ConfigDict
  summary: run_status.RunStatus
  curves: dict[str, np.ndarray]


def load_config(name: str) -> ml_collections.ConfigDict:
  """Loads a config, whose fields the caller may then change.

  Args:
    name: 'ALGORITHM:PRESET', such as 'apex_dqn:cartpole', or the path of a
      file, 'mine/a2c.py:cartpole' or 'runs/first/config.json'.

  Raises:
    ValueError: there is no such algorithm, preset or file, or its fields are
      not those of its algorithm.
  """
  return overrides.load(name)


def load_result(run: str | os.PathLike[str], trust: bool = False) -> RunResult:
  """Loads the results of a run that has ended.

  Args:
    run: folder of the run, such as 'runs/first'.
    trust: whether to load a run of another user, as for `slipway.load`.

  Raises:
    ValueError: there is no such run, it has no summary.json because it has not
      ended, this file can't be read, or the run is not trusted.
  """
  folder = run_folder.RunFolder.open(run, trust)
  try:
    summary = run_status.read_summary(folder)
  except FileNotFoundError as error:
    raise ValueError(
      f"run {str(folder.path)!r} has no summary.json, so it has no result: let "
      "the run end, or resume it"
    ) from error
  return RunResult(
    folder.path,
    run_config.read(folder.path, trust),
    summary,
    curves.read(folder.curves_csv),
  )


def train(config: Config | None = None, **options: typing.Any) -> RunResult:
  """Trains until a limit is reached, and returns the results.

  The output is that of `slipway train`; in a notebook, it is a line and a
  curve, which are updated in place, besides what remains of interest. An
  interrupt (Ctrl-C) stops the run with a last snapshot, and then raises
  KeyboardInterrupt; a second interrupt kills the run.

  Args:
    config: a config or its name; see `start`.
    **options: keyword arguments of `start`, such as `name`.

  Raises:
    ValueError: the training was rejected, and nothing was started.
    RuntimeError: the run failed.
    KeyboardInterrupt: the run was interrupted, and has stopped.
  """
  with start(config, **options) as training:
    return training.wait()


def start(
  config: Config | None = None,
  *,
  name: str | None = None,
  run_dir: str | os.PathLike[str] = "runs",
  mode: str | None = None,
  resume: str | os.PathLike[str] | None = None,
  overwrite: bool = False,
  flags: Sequence[str] = (),
) -> "Training":
  """Starts a training in processes of its own, and returns at once.

      for status in slipway.start("apex_dqn:cartpole"):
        print(status.env_steps, status.evaluation.mean_return)

  Args:
    config: a config, or a name for `load_config`. With `resume`: the run's
      config with changes, or None to leave it unchanged.
    name: name of the run's folder in `run_dir`, or None for a name with
      algorithm, environment and time.
    run_dir: folder of all runs; made if it is missing.
    mode: 'async', 'sync' or 'single', or None for the config's mode.
    resume: folder of a run to resume, in place of `name`, `run_dir` and
      `overwrite`.
    overwrite: whether a run of this name is replaced.
    flags: further flags of `slipway train`, such as '--launch=ray'.

  Raises:
    ValueError: `config` can't be read, neither `config` nor `resume` is given,
      or `run_dir` can't be written.
    RuntimeError: a module that a config names calls this when it is imported.
  """
  user_code.check_not_importing("slipway.train or slipway.start")
  if "--dry_run" in flags:
    raise ValueError(
      "flags has --dry_run, with which nothing is started, so there would be "
      "no result: call `slipway train --dry_run` on the command line"
    )
  if isinstance(flags, str):
    raise ValueError(
      f"flags is {flags!r}, whose letters would be flags: give a list, "
      f"[{flags!r}]"
    )
  if resume is not None:
    trust = "--trust" in flags
    folder = run_folder.RunFolder.open(resume, trust).path
    arguments = [f"--resume={folder}"]
    if config is not None:
      config = _resolve_config(config)
      before = run_config.read(folder, trust)
      arguments += _list_overrides(before, config)
      mode = mode or config.mode
    arguments += [*_make_mode_flags(mode), *flags]
    return Training(folder, arguments, contextlib.ExitStack())
  if config is None:
    raise ValueError(
      "config is None, so there is nothing to train: give a config, the name "
      "of one, such as 'apex_dqn:cartpole', or resume='runs/NAME'"
    )
  config, run_dir = _resolve_config(config), run_folder.expand(run_dir)
  text = config_file.to_json(config)
  with contextlib.ExitStack() as resources:
    if name is None:
      reserved = run_folder.reserved(run_dir, _make_name(config))
      name = resources.enter_context(reserved).name
    with tempfile.NamedTemporaryFile("w", suffix=".json", delete=False) as file:
      resources.callback(pathlib.Path(file.name).unlink, missing_ok=True)
      file.write(text)
    arguments = [
      f"--config={file.name}",
      f"--name={name}",
      f"--run_dir={run_dir}",
      *(["--overwrite"] if overwrite else []),
    ]
    return Training(
      pathlib.Path(run_dir, name),
      [*arguments, *_make_mode_flags(mode), *flags],
      resources,
    )


class Training:
  """A training that runs in processes of its own; `start` makes it.

  Iteration yields the run's status about once a second. As a context manager,
  it stops the run at the end of the block. The run also stops, with a last
  snapshot, if the process that started it ends.

  Attributes:
    folder: absolute path of the run's folder, which stays valid when the
      working directory changes.
  """

  def __init__(
    self,
    folder: pathlib.Path,
    arguments: Sequence[str],
    resources: contextlib.ExitStack,
  ):
    """Starts the training's process; to be called by `start` only."""
    self.folder = folder.absolute()
    self._arguments = arguments
    self._errors: collections.deque[str] = collections.deque(
      maxlen=_KEPT_ERROR_LINES
    )
    self._status: run_status.RunStatus | None = None
    self._stop_sent = False
    # Whether the run uses this process's terminal. It then shows the panel, and
    # Ctrl-C interrupts both processes.
    self._shares_terminal = sys.stdout is sys.__stdout__ and sys.stdout.isatty()
    self._cell: notebook.Cell | None = None
    if notebook.is_active():
      self._cell = notebook.Cell(run_folder.RunFolder(self.folder))
    self._process = attached_process.AttachedProcess(
      arguments,
      stdout=None if self._shares_terminal else subprocess.PIPE,
      stderr=subprocess.PIPE,
      start_new_session=not self._shares_terminal,
      text=True,
      errors="replace",
    )
    self._resources = resources.pop_all()
    self._resources.callback(self._process.detach)
    # For scripts that end without `wait`.
    atexit.register(self._resources.close)
    self._resources.callback(atexit.unregister, self._resources.close)
    self._printers = [
      threading.Thread(target=target, args=(stream,), daemon=True)
      for target, stream in (
        (self._print_errors, self._process.stderr),
        (self._print_lines, self._process.stdout),
      )
      if stream is not None
    ]
    for printer in self._printers:
      printer.start()

  def __enter__(self) -> "Training":
    """Returns this training."""
    return self

  def __exit__(self, *error: typing.Any) -> None:
    """Stops the run, and waits until it has ended."""
    # A first SIGINT stops the run, and a second one kills it. So the run must
    # not get the same Ctrl-C both from a shared terminal and from here.
    if error[0] is not KeyboardInterrupt:
      self.stop()  # unlike a signal, it leaves time for a large last snapshot
    elif self.running and not self._shares_terminal:
      self._process.send_signal(signal.SIGINT)
    try:
      self._process.wait()
    except KeyboardInterrupt:
      # Ctrl-C while the run stops: it is the run's second SIGINT. A shared
      # terminal has sent it to the run already.
      if not self._shares_terminal:
        self._process.send_signal(signal.SIGINT)
      self._process.wait()
      raise
    finally:
      self._resources.close()

  def __iter__(self) -> Iterator[run_status.RunStatus]:
    """Yields the run's status about once a second, until the run has ended.

    Raises:
      ValueError: the training was rejected, and nothing was started.
      RuntimeError: the run failed.
    """
    with self:
      while self.running:
        status = self.status()
        if status is not None:
          yield status
        with contextlib.suppress(subprocess.TimeoutExpired):
          self._process.wait(_STATUS_PERIOD_S)
      self._check_exit_status()

  @property
  def running(self) -> bool:
    """Whether the training's process has not ended."""
    if self._process.poll() is None:
      return True
    self._resources.close()  # for callers that never wait
    return False

  def status(self) -> run_status.RunStatus | None:
    """Returns the run's newest status, or None until the run is up.

    After the end of the run, the last status that was received is returned.
    """
    with (
      contextlib.suppress(running.RunUnavailableError, ValueError),
      self._connect() as control,
    ):
      self._status = control.status()
    return self._status

  def stop(self) -> None:
    """Requests that the run stops with a last snapshot; returns at once."""
    if self._stop_sent or not self.running:
      return
    self._stop_sent = True
    with (
      contextlib.suppress(running.RunUnavailableError, ValueError),
      self._connect() as control,
    ):
      control.stop("python")
      return
    self._process.send_signal(signal.SIGTERM)

  def pause(self) -> None:
    """Pauses all workers and the trainer until `resume`.

    The call waits until the run is up.

    Raises:
      ValueError: the run is stopping or has ended.
    """
    self._send(lambda control: control.pause())

  def resume(self) -> None:
    """Continues a run that `pause` has paused.

    The call waits until the run is up.

    Raises:
      ValueError: the run is stopping or has ended.
    """
    self._send(lambda control: control.resume())

  def save(self) -> None:
    """Requests that the run writes a snapshot now.

    The call waits until the run is up, but not for the snapshot.

    Raises:
      ValueError: the run is stopping or has ended.
    """
    self._send(lambda control: control.save())

  def set(self, field: str, value: float | str) -> None:
    """Changes a limit or a rate of the run, as `slipway control set` does.

    The call waits until the run is up.

    Args:
      field: name of the field, such as 'limits.target_return'.
      value: the field's new value.

    Raises:
      ValueError: the run has rejected the value, is stopping or has ended.
    """
    self._send(lambda control: control.set(field, value))

  def wait(self) -> RunResult:
    """Waits until the run has ended, and returns its results.

    Raises:
      ValueError: the training was rejected, and nothing was started.
      RuntimeError: the run failed.
    """
    self._process.wait()
    self._check_exit_status()
    return load_result(self.folder)

  def _connect(
    self,
  ) -> contextlib.AbstractContextManager[control_service.ControlService]:
    """Returns `running.connect` of this training's own run."""
    # While the training starts, and if it is rejected because its folder is in
    # use, the folder belongs to another run.
    return running.connect(run_folder.RunFolder(self.folder), self._process.pid)

  def _send(
    self, command: Callable[[control_service.ControlService], None]
  ) -> None:
    """Sends an idempotent command to the run, as soon as the run is up."""
    while True:
      # Read first: a run that ends after this check may still reply.
      was_running = self.running
      try:
        with self._connect() as control:
          return command(control)
      except running.RunUnavailableError as error:
        if not was_running:
          raise ValueError(
            f"the training in {str(self.folder)!r} has ended or was rejected, "
            "so the command has no effect: `wait` returns its result or raises "
            "its error"
          ) from error
      time.sleep(_COMMAND_POLL_S)

  def _check_exit_status(self) -> None:
    """Raises an error if the training's process, which has ended, failed."""
    for printer in self._printers:
      printer.join()
    status = self._process.returncode
    self._resources.close()
    if status == 0:
      return
    message = self._process.explain_end(self._errors)
    for argument in self._arguments:
      if argument.startswith("--config="):  # the temporary file of `start`
        message = message.removeprefix(f"{argument}: ")
    if status == 2:
      raise ValueError(message)
    if not any(map(attached_process.is_explanation, self._errors)):
      message += (
        f" (exit status {status}); see its logs in "
        f"{str(self.folder / 'logs')!r}"
      )
    raise RuntimeError(message)

  def _print_lines(self, stream: typing.IO[str]) -> None:
    """Prints the run's standard output to its end; the function of a thread."""
    for line in stream:
      if self._cell is None:
        print(line, end="", flush=True)
      else:
        self._cell.show(line)
    if self._cell is not None:
      self._cell.draw()

  def _print_errors(self, stream: typing.IO[str]) -> None:
    """Prints the run's standard error, but for what an exception contains."""
    for line in stream:
      self._errors.append(line.rstrip("\n"))
      if not attached_process.is_explanation(line):
        print(line, end="", file=sys.stderr, flush=True)


def _resolve_config(config: Config) -> ml_collections.ConfigDict:
  """Returns `config` itself, or loads the config with this name."""
  if isinstance(config, str):
    return load_config(config)
  if not isinstance(config, ml_collections.ConfigDict):
    raise ValueError(
      f"config is {config!r:.80} of type {type(config).__name__}, so there is "
      "nothing to train: give the result of slipway.load_config, or a name"
    )
  return config


def _make_name(config: ml_collections.ConfigDict) -> str:
  """Returns a name of a run: its algorithm, its environment and the time."""
  environment = config.environment
  return run_folder.make_name(
    str(config.agent).rpartition(":")[2],
    environment.game or environment.name.rpartition(":")[2],
  )


def _make_mode_flags(mode: str | None) -> list[str]:
  """Returns the flag --mode as a list, which is empty if `mode` is None."""
  return [] if mode is None else [f"--mode={mode}"]


def _list_overrides(
  run: ml_collections.ConfigDict, config: ml_collections.ConfigDict
) -> list[str]:
  """Returns the flags that turn a run's config into another one."""
  before = fields.flatten(run)
  return [
    f"--config.{name}={value}"
    for name, value in fields.flatten(config).items()
    if name != "mode"
    and not (name in before and fields.is_equal(before[name], value))
  ]
