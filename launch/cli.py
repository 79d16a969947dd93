"""The command `slipway`: its first word names what it does.

This module imports hardly anything: each command imports what it needs.
"""

import difflib
import importlib
import os
import sys
from collections.abc import Sequence

# Module of each command, and what it does.
_COMMANDS = {
  "train": ("train", "train an experiment, or resume a run"),
  "evaluate": ("evaluate", "play the policy of a run, film or record it"),
  "control": ("control", "show, pause, save or stop a run while it lasts"),
  "list": ("list", "list the algorithms and their presets"),
  "config": ("config", "show every field of a config: value and meaning"),
}
_USAGE = """\
Slipway: distributed reinforcement learning.

  slipway train --config=apex_dqn:cartpole --name=first
  slipway control --run=runs/first status
  slipway evaluate --run=runs/first --episodes=100

commands
{commands}

`slipway COMMAND --help` shows the flags of a command."""


def main(argv: Sequence[str] | None = None) -> int:
  """Runs a command.

  Args:
    argv: the program's name, the command and its arguments; None: those of
      this process.

  Returns:
    Exit status: the command's; 2 where there is no such command.
  """
  argv = sys.argv if argv is None else argv
  word, *arguments = argv[1:] or ["--help"]
  if word in ("--help", "-h", "help"):
    shown = "\n".join(f"  {c:<10}{does}" for c, (_, does) in _COMMANDS.items())
    print(_USAGE.format(commands=shown))
    return 0
  if word == "--version":
    import slipway

    print(slipway.__version__)
    return 0
  if word not in _COMMANDS:
    near = difflib.get_close_matches(word, _COMMANDS, n=1)
    advice = f"did you mean {near[0]}? " if near else ""
    print(
      f"slipway: {word!r} is not a command, so nothing was done: {advice}"
      f"the commands are {', '.join(_COMMANDS)}",
      file=sys.stderr,
    )
    return 2
  # As with `python -m`: modules of the user's that a config names are found
  # in the working directory.
  if os.getcwd() not in sys.path:
    sys.path.insert(0, os.getcwd())
  module = importlib.import_module(f"slipway.launch.{_COMMANDS[word][0]}")
  try:
    status = module.main([f"slipway {word}", *arguments])
    sys.stdout.flush()
  except BrokenPipeError:  # as in `slipway list | head`
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1
  return status


if __name__ == "__main__":
  sys.exit(main())
