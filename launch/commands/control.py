"""The command `slipway control --run=runs/<name> COMMAND`.

It calls the launcher at the address in the run's folder. It imports neither
TensorFlow nor Reverb, so that it starts at once.
"""

import sys
import time
from collections.abc import Sequence

import msgspec
from absl import flags as absl_flags

from slipway.configs import base, names, typed_config
from slipway.launch.api import running
from slipway.launch.checks import flags as flags_lib
from slipway.launch.control import settings
from slipway.launch.display import lines
from slipway.launch.display import panel as panel_lib
from slipway.launch.runs import (
  run_address,
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
# Seconds in which a run should end after `stop`, apart from those for its last
# snapshot.
_STOP_TIMEOUT_S = 15.0
# Seconds that a stopped run may then take for its pictures and hooks, for which
# it waits up to 10 s, and for the ends of its processes.
_END_TIMEOUT_S = 30.0
_POLL_S = 0.1  # seconds between two checks whether the run has stopped


def main(argv: Sequence[str]) -> int:
  """Executes the command line of `slipway control`.

  Args:
    argv: the program's name and its arguments.

  Returns:
    Exit status: 0 if the command succeeded; 1 if the run has ended (`status`
    then prints its summary), does not reply, or does not end in time after
    `stop`; 2 if the command was rejected.
  """
  try:
    values, words = _parse(argv)
    folder = run_folder.RunFolder.open(values.run, True)
    if words == ["status"] and running.has_ended(folder):
      # The call below raises RunUnavailableError, which reports the end.
      _show_status(run_status.read_summary(folder), values.json)
    _execute(folder, words, values.json)
  except ValueError as error:
    print(f"control: {error}", file=sys.stderr)
    return 2
  except (running.RunUnavailableError, running.StillRunningError) as error:
    print(f"control: {error}", file=sys.stderr)
    return 1
  return 0


def _execute(
  folder: run_folder.RunFolder, words: Sequence[str], as_json: bool
) -> None:
  """Executes a command on a run, and prints the result."""
  command, *args = words
  with running.connect(folder) as control:
    if command == "status":
      _show_status(control.status(), as_json)
    elif command == "pause":
      control.pause()
      print(lines.phase_line(control.status()))
    elif command == "resume":
      control.resume()
      print(lines.phase_line(control.status()))
    elif command == "stop":
      control.stop(running.USER_REQUEST)
      _wait_until_stopped(folder)
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


def _wait_until_stopped(folder: run_folder.RunFolder) -> None:
  """Waits until a run has stopped after a request to stop."""
  deadline_s = time.monotonic() + _STOP_TIMEOUT_S
  is_finishing = False
  while True:
    try:
      with running.connect(folder) as control:
        status = control.status()
      if status.phase == "stopped":
        return
      is_finishing = status.snapshots.finishing_s is not None
    except running.RunUnavailableError:
      if not _is_only_slow(folder):
        return
    if is_finishing:  # writing a last snapshot has a limit of its own
      deadline_s = time.monotonic() + _STOP_TIMEOUT_S
    if time.monotonic() > deadline_s:
      raise running.StillRunningError(
        f"run {str(folder.path)!r} has not stopped within "
        f"{_STOP_TIMEOUT_S:.0f} s; `status` shows how far it is"
      )
    time.sleep(_POLL_S)


def _wait_until_ended(folder: run_folder.RunFolder) -> None:
  """Waits until the launcher of a stopped run has ended."""
  try:
    run_lock.wait_until_free(folder, _END_TIMEOUT_S)
  except FileNotFoundError:  # the folder was removed, so the run has ended
    pass
  except ValueError as error:
    raise running.StillRunningError(
      f"run {str(folder.path)!r} has stopped, but its launcher has not ended "
      f"within {_END_TIMEOUT_S:.0f} s: a hook or a node may hang; see "
      f"{str(folder.logs)!r}"
    ) from error


def _is_only_slow(folder: run_folder.RunFolder) -> bool:
  """Whether the run may be active although its launcher didn't reply."""
  return run_address.read(folder) is not None and run_lock.is_held(folder)


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
    print(msgspec.json.format(msgspec.json.encode(status), indent=2).decode())
    return
  with panel_lib.Panel() as panel:
    panel.update(status)


def _parse(
  argv: Sequence[str],
) -> tuple[absl_flags.FlagValues, list[str]]:
  """Parses the command line of `slipway control`."""
  values = _define_flags()
  flags, words = flags_lib.split_words(values, argv)
  if any(flag.lstrip("-").partition("=")[0] == "command" for flag in flags):
    raise ValueError(
      "--command is no flag, so nothing is done: the command is a word, such "
      "as `slipway control --run=runs/first status`"
    )
  flags_lib.parse(values, flags, _USAGE)
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
  if values.json and word != "status":
    raise ValueError(f"--json is an option of status only: {word} has none")
  return values, words


def _define_flags() -> absl_flags.FlagValues:
  """Returns the flags of `slipway control`, before parsing."""
  values = absl_flags.FlagValues()
  absl_flags.DEFINE_string(
    "run",
    None,
    "Folder of the run: runs/<name>.",
    flag_values=values,
  )
  absl_flags.mark_flag_as_required("run", flag_values=values)
  absl_flags.DEFINE_bool(
    "json",
    False,
    "Print the whole status as JSON, in which infinite numbers are null.",
    flag_values=values,
  )
  absl_flags.DEFINE_bool("help", False, "Show this help.", flag_values=values)
  return values


if __name__ == "__main__":
  sys.exit(main(sys.argv))
