"""The command `slipway control --run=runs/<name> COMMAND`.

It calls the launcher at the address in the run's folder. It imports neither
TensorFlow nor Reverb, so that it starts at once.
"""

import contextlib
import time
from collections.abc import Sequence

from slipway.configs import base, names, typed_config
from slipway.launch.api import running
from slipway.launch.checks import flags as flags_lib
from slipway.launch.control import settings
from slipway.launch.display import lines
from slipway.launch.display import panel as panel_lib
from slipway.launch.runs import (
  records,
  run_folder,
  run_lock,
  run_status,
)

# Names of the arguments of each command, by the command's name.
_COMMANDS = {
  "status": (),
  "pause": (),
  "resume": (),
  "stop": (),
  "save": (),
  "set": ("FIELD", "VALUE"),
  "workers": ("N",),
}
# Text that begins the help.
_USAGE = (
  "Shows the status of an active run, or controls it: --run=FOLDER and one "
  f"of {', '.join(' '.join([name, *args]) for name, args in _COMMANDS.items())}"
  ". "
  f"FIELD is one of {', '.join(settings.FIELDS)}. `save` writes a snapshot "
  "now, and `workers N` changes the number of workers to N."
)
# Seconds in which a run should end after `stop`, hooks and pictures included,
# apart from those for its last snapshot.
_END_TIMEOUT_S = 45.0
_POLL_S = 0.1  # seconds between two checks whether the run has stopped


def main(argv: Sequence[str]) -> None:
  """Executes the command line of `slipway control`.

  Raises:
    ValueError: the command was rejected.
    RunUnavailableError: the run has ended (`status` then prints its summary),
      or does not reply.
    TimeoutError: the run does not end in time after `stop`.
  """
  flags, words = _parse(argv)
  folder = run_folder.RunFolder.open(flags.run, True)
  if words == ["status"] and running.has_ended(folder):
    # The call below raises RunUnavailableError, which reports the end.
    _show_status(run_status.read_summary(folder), flags.json)
  _execute(folder, words, flags.json)


def _execute(
  folder: run_folder.RunFolder, words: Sequence[str], as_json: bool
) -> None:
  """Executes a command on a run, and prints the result."""
  command, *args = words
  with running.connect(folder) as control:
    if command == "status":
      _show_status(control.status(), as_json)
    elif command in ("pause", "resume"):
      control.pause() if command == "pause" else control.resume()
      print(lines.phase_line(control.status()))
    elif command == "stop":
      control.stop("control")
      _wait_until_ended(folder)
      print("stopped")
    elif command == "save":
      control.save()
      print("a snapshot is being written")
    elif command == "set":
      field, value = args
      control.set(field, value)
      print(f"{field} is {value} now")
    elif command == "workers":
      count = _parse_worker_count(*args)
      control.set_workers(count)
      print(f"workers are {count} now")


def _wait_until_ended(folder: run_folder.RunFolder) -> None:
  """Waits until the launcher of a run that stops has ended."""
  deadline_s = time.monotonic() + _END_TIMEOUT_S
  while run_lock.is_held(folder):
    with (
      contextlib.suppress(running.RunUnavailableError),
      running.connect(folder) as control,
    ):
      # Writing a last snapshot has a limit of its own.
      if control.status().snapshots.finishing_s is not None:
        deadline_s = time.monotonic() + _END_TIMEOUT_S
    if time.monotonic() > deadline_s:
      raise TimeoutError(
        f"run {str(folder.path)!r} has not ended within {_END_TIMEOUT_S:.0f} "
        "s, apart from its last snapshot: a hook or a node may hang; `status` "
        f"shows how far it is, and {str(folder.logs)!r} may say why"
      )
    time.sleep(_POLL_S)


def _parse_worker_count(text: str) -> int:
  """Parses the argument of the command `workers`."""
  try:
    count = typed_config.parse_int(text)
  except (ValueError, OverflowError):
    raise ValueError(
      f"workers {text!r} is no whole number, so the number does not change: "
      "give a whole number"
    ) from None
  base.check_workers(count)
  return count


def _show_status(status: run_status.RunStatus, as_json: bool) -> None:
  """Prints a run's status, as a panel or as JSON."""
  if as_json:
    print(records.to_json(status).decode(), end="")
    return
  with panel_lib.Panel() as panel:
    panel.update(status)


def _parse(argv: Sequence[str]) -> tuple[flags_lib.Flags, list[str]]:
  """Parses the command line of `slipway control`."""
  flags = flags_lib.Flags()
  flags.add_run("Folder of the run: runs/<name>.")
  flags.add_bool(
    "json",
    False,
    "Print the whole status as JSON, in which infinite numbers are null.",
  )
  others = flags.split(argv).others
  if any(x.lstrip("-").partition("=")[0] == "command" for x in others):
    raise ValueError(
      "--command is no flag, so nothing is done: the command is a word, such "
      "as `slipway control --run=runs/first status`"
    )
  words = flags.parse(argv, _USAGE, has_words=True)
  if not words:
    raise ValueError(
      f"there is no command, so nothing is done: give one of "
      f"{', '.join(_COMMANDS)}"
    )
  word, *args = words
  if word not in _COMMANDS:
    raise ValueError(
      f"{word!r} is no command, so nothing is done: "
      f"{names.advise(word, _COMMANDS)}"
    )
  if len(args) != len(_COMMANDS[word]):
    wanted = " ".join([word, *_COMMANDS[word]])
    raise ValueError(
      f"{' '.join(words)!r} has the wrong arguments, so nothing is done: give "
      f"{wanted!r}"
    )
  if flags.json and word != "status":
    raise ValueError(f"--json is an option of status only: {word} has none")
  return flags, words
