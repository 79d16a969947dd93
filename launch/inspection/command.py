"""The command `slipway inspect RUN`: what a run's table and policy are like."""

import os
import pathlib
import sys
import time
from collections.abc import Sequence

import rich.console

from slipway.environments import user_code
from slipway.launch.api import running
from slipway.launch.checks import flags as flags_lib
from slipway.launch.display import formatting, plain_warnings, standard_streams
from slipway.launch.inspection import inspection, rendering
from slipway.launch.processes import hung_process, processors
from slipway.launch.runs import records, run_folder, run_lock

# Sentences that begin the help.
_USAGE = """\
Shows what a run's replay table held and what its policy does, at its newest
snapshot.

  slipway inspect runs/first
  slipway inspect runs/first --save --pictures=pictures

The run may be active. Its trainer is not disturbed, unless --save requests a
new snapshot."""
_SAVE_TIMEOUT_S = 120.0  # seconds in which a requested snapshot must be written
_POLL_S = 0.1  # seconds between two checks whether it is
# Value of nice(2) while the run is active, whose processes come first.
_NICENESS = 19


@user_code.exit_as_error()
def main(argv: Sequence[str]) -> int:
  """Inspects a run, and prints what it has found.

  Returns:
    Exit status: 0; 1 if the run does not save itself, or its environment
    failed; 2 if a flag is invalid or there is nothing to inspect.
  """
  plain_warnings.enable()
  # TensorFlow would take all memory of a GPU, which the trainer needs.
  os.environ.update(processors.NO_GPU)
  try:
    return _inspect(argv)
  except (running.RunUnavailableError, user_code.UserCodeError) as error:
    print(f"inspect: {error}", file=sys.stderr)
    return 1
  except BrokenPipeError:  # the command line's program handles it
    raise
  except (ValueError, OSError) as error:
    print(f"inspect: {error}", file=sys.stderr)
    return 2


def _inspect(argv: Sequence[str]) -> int:
  """Executes the command; returns the exit status."""
  flags = _define_flags()
  runs = flags.parse(argv, _USAGE, has_words=True)
  if len(runs) != 1:
    raise ValueError(
      f"{len(runs)} runs are given, and the command inspects one: give the "
      "folder of a run, such as runs/first"
    )
  folder = run_folder.RunFolder.open(runs[0], flags.trust)
  pictures = None
  if flags.pictures is not None:
    pictures = pathlib.Path(flags.pictures)
    pictures.mkdir(parents=True, exist_ok=True)
  if run_lock.is_held(folder):
    os.nice(_NICENESS)
  if flags.save:
    _save(folder)
  with (
    standard_streams.diverting_output(flags.json),
    hung_process.ending(0, 1, "inspect", lambda: None),
  ):
    found = inspection.inspect(
      runs[0], flags.items, pictures, flags.episodes, flags.trust
    )
  if flags.json:
    print(records.to_json(found).decode(), end="")
  else:
    title = f"{folder.name}, {formatting.estimate(found.age_s)} ago"
    console = rich.console.Console(highlight=False)
    console.print(*rendering.render(title, found), sep="\n")
  return 0


def _define_flags() -> flags_lib.Flags:
  """Returns the flags of `slipway inspect`, before parsing."""
  flags = flags_lib.Flags()
  flags.add_bool("save", False, "Let an active run write a new snapshot first.")
  flags.add_integer(
    "items",
    2,
    "Number of items to show in full at each end of the order: those of the "
    "highest and lowest priority, or the newest and oldest ones.",
    0,
    1000,
  )
  flags.add_text(
    "pictures",
    None,
    "Folder for PNG files of these items' observations, if they are images.",
  )
  flags.add_integer(
    "episodes", 5, "Number of episodes to play; 0: no policy.", 0, 10_000
  )
  flags.add_bool("json", False, "Print all numbers as JSON.")
  flags.add_trust()
  return flags


def _save(folder: run_folder.RunFolder) -> None:
  """Lets an active run write a snapshot, and waits for it."""
  with running.connect(folder) as control:
    before = control.status().snapshots.written
    control.save()
    end_s = time.monotonic() + _SAVE_TIMEOUT_S
    while control.status().snapshots.written == before:
      if time.monotonic() > end_s:
        raise running.RunUnavailableError(
          f"run {str(folder.path)!r} has not written a snapshot within "
          f"{_SAVE_TIMEOUT_S:.0f} s: inspect the last one, without --save; "
          f"{str(folder.logs)!r} may say why"
        )
      time.sleep(_POLL_S)


if __name__ == "__main__":
  sys.exit(main(sys.argv))
