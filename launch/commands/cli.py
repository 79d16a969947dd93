"""The program `slipway`, whose first argument is the name of a command.

For a fast start, this module imports a command only when it is called.
"""

import importlib
import os
import pathlib
import sys
import typing
from collections.abc import Sequence

from slipway.configs import names
from slipway.launch.display import standard_streams

# Module in launch/ and description of each command, by the command's name.
_COMMANDS = {
  "train": ("commands.train", "train a policy, or resume a run"),
  "evaluate": ("commands.evaluate", "play episodes by a run's policy"),
  "play": ("commands.play", "show a run's policy in a window, or film it"),
  "record": ("commands.record", "record episodes of a policy"),
  "export": ("commands.export", "write the episodes that a run's table holds"),
  "control": ("commands.control", "show, pause, save or stop an active run"),
  "inspect": (
    "inspection.command",
    "show what a run's table holds and its policy does",
  ),
  "profile": (
    "profiling.command",
    "show where the time of an active run goes",
  ),
  "sweep": (
    "sweeps.command",
    "train several seeds and settings, and compare them",
  ),
  "dashboard": ("dashboard.command", "show runs on a page in a browser"),
  "doctor": (
    "doctor.command",
    "find what is wrong with a run, or with this machine",
  ),
  "plot": ("commands.plot", "compare the curves of runs in one picture"),
  "certificates": (
    "machines.authority",
    "make the certificates of a cluster's machines",
  ),
  "envs": (
    "commands.envs",
    "measure an environment under random play, or list them",
  ),
  "list": ("commands.list", "list the algorithms and their presets"),
  "config": (
    "commands.config",
    "show all fields of a config, with value and meaning",
  ),
}
# What to use for a word that is a command of other programs.
_ALIASES = {
  "run": "slipway train",
  "fit": "slipway train",
  "resume": "slipway train --resume=RUN",
  "eval": "slipway evaluate --run=RUN",
  "enjoy": "slipway play RUN",
  "test": "slipway evaluate --run=RUN",
  "video": "slipway play RUN --video",
  "status": "slipway control --run=RUN status",
  "pause": "slipway control --run=RUN pause",
  "save": "slipway control --run=RUN save",
  "stop": "slipway control --run=RUN stop",
  "tune": "slipway sweep",
  "compare": "slipway plot RUN RUN",
  "show": "slipway config CONFIG",
  "diagnose": "slipway doctor RUN",
  "check": "slipway doctor RUN",
}
# Packages that commands import. The working directory must not hide them.
_PACKAGES = (
  *("absl", "acme", "cloudpickle", "cryptography", "dm_env", "fsspec"),
  *("gymnasium", "launchpad", "matplotlib", "minari", "ml_collections"),
  *("msgspec", "numpy", "onnx", "optuna", "prometheus_client", "psutil", "ray"),
  *("reverb", "rich", "slipway", "tensorboard", "tensorflow", "tf2onnx"),
  *("uvloop", "werkzeug"),
)
# Commands that play an environment or load a snapshot.
_PLAYING = ("evaluate", "play", "record", "export", "inspect", "envs")
# Errors of user code, and of calls of an active run.
_FAILURES = (RuntimeError, ConnectionError, TimeoutError)
# Text of `slipway --help`, in which the list of commands is filled in.
_USAGE = """\
Slipway: distributed reinforcement learning.

  slipway train --config=apex_dqn:cartpole --name=first
  slipway control --run=runs/first status
  slipway evaluate --run=runs/first --episodes=100

commands
{commands}

`slipway COMMAND --help` shows the flags of a command."""


def main() -> typing.NoReturn:
  """Runs the command of this process's arguments, and exits the process.

  Threads that an environment has left behind can't prevent the exit.
  """
  standard_streams.replace_missing()
  standard_streams.exit_process(run(sys.argv))


def run(argv: Sequence[str]) -> int:
  """Runs the command that is the first argument of `slipway`.

  An error of the command is printed as one line, but for a bug of Slipway.

  Returns:
    Exit status of the command, 0 if it has none. If it has raised an error: 1
    if code of the user or a call of an active run failed, it was interrupted,
    or the reader of standard output has closed it; 2 if it was rejected.
  """
  name, *arguments = argv[1:] or ["--help"]
  if name in ("--help", "-h", "help"):
    shown = "\n".join(
      f"  {c:<14}{meaning}" for c, (_, meaning) in _COMMANDS.items()
    )
    print(_USAGE.format(commands=shown))
    return 0
  if name == "--version":
    import slipway

    print(slipway.__version__)
    return 0
  if name not in _COMMANDS:
    near = _ALIASES.get(name) or names.find_word(name, _COMMANDS)
    advice = f"did you mean {near}? " if near else ""
    print(
      f"slipway: {name!r} is not a command, so nothing was done: {advice}"
      f"the commands are {', '.join(_COMMANDS)}",
      file=sys.stderr,
    )
    return 2
  try:
    working_folder = os.getcwd()
  except OSError as error:  # usually, it was deleted
    print(
      f"{name}: the working directory can't be used ({error.strerror}), so "
      "nothing was done: change to another one",
      file=sys.stderr,
    )
    return 2
  for package in _PACKAGES:
    file = pathlib.Path(working_folder, f"{package}.py")
    if file.exists():
      print(
        f"{name}: {str(file)!r} hides the package {package}, so nothing was "
        "done: rename the file, or change to another directory",
        file=sys.stderr,
      )
      return 2
  _add_to_path(working_folder)
  if name in _PLAYING:
    from slipway.launch.display import plain_warnings
    from slipway.launch.processes import processors

    plain_warnings.enable()
    # TensorFlow would take all memory of a GPU, which a trainer needs.
    os.environ.update(processors.NO_GPU)
  try:
    module = importlib.import_module(f"slipway.launch.{_COMMANDS[name][0]}")
    status = module.main([f"slipway {name}", *arguments]) or 0
    sys.stdout.flush()
  except BrokenPipeError:  # as in `slipway list | head`
    standard_streams.discard(sys.stdout.fileno())
    return 1
  except KeyboardInterrupt:
    print(f"{name}: interrupted", file=sys.stderr)
    return 1
  except BaseException as error:
    return _report(name, error)
  return status


def _report(name: str, error: BaseException) -> int:
  """Prints the error of a command, or raises a bug; returns the status."""
  from slipway.environments import user_code  # takes time

  if not isinstance(error, ValueError | OSError):
    error = user_code.wrap(error)
  print(f"{name}: {error}", file=sys.stderr)
  # Code in a config's file is part of the question that these commands answer.
  if name in ("list", "config"):
    return 2
  return 1 if isinstance(error, _FAILURES) else 2


def _add_to_path(working_folder: str) -> None:
  """Makes user modules be found that a config names."""
  # They are found in the working directory, before installed packages but after
  # the standard library, whose modules a file `queue.py` would hide otherwise.
  # Those of an existing run are found where its folder records them.
  if working_folder in sys.path:
    return
  installed = (
    index
    for index, path in enumerate(sys.path)
    if os.path.basename(path) in ("site-packages", "dist-packages")
  )
  sys.path.insert(next(installed, len(sys.path)), working_folder)


if __name__ == "__main__":
  main()
