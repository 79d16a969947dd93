"""The command `slipway doctor`, which examines this machine, or a run."""

import pathlib
from collections.abc import Iterable, Sequence

from slipway.environments import user_code
from slipway.launch.checks import flags as flags_lib
from slipway.launch.diagnosis import finding
from slipway.launch.display import standard_streams
from slipway.launch.doctor import examination, machine
from slipway.launch.processes import hung_process
from slipway.launch.runs import records

# Sentences that begin the help.
_USAGE = """\
Examines this machine, or a run that is active or has ended, and says what to
do about each finding, the worst first.

  slipway doctor
  slipway doctor runs/first
  slipway doctor runs/first --json

For a run, it reads the status, the metrics and the curves, and plays the
environment at random for some seconds. The exit status is 0 without findings,
1 with findings, and 2 if nothing can be judged."""


@user_code.exit_as_error()
def main(argv: Sequence[str]) -> int:
  """Prints the findings.

  Returns:
    Exit status: 0 if all is ok; 1 with findings, warnings included.

  Raises:
    ValueError: a flag is invalid, the folder is no run's, or the run has no
      results yet.
  """
  flags = flags_lib.Flags()
  flags.add_bool("json", False, "Print JSON.")
  flags.add_bool("play", True, "Play the run's environment, or test the parts.")
  flags.add_text("run_dir", "runs", "Folder of runs, whose disk is tested.")
  flags.add_trust()
  found = []
  words = flags.parse(argv, _USAGE, has_words=True)
  with (
    standard_streams.diverting_output(flags.json),
    hung_process.ending(0, 2, "doctor", lambda: None),
  ):
    for x in _examine(words, flags):
      found.append(x)
      if not flags.json:
        print(f"{x.severity:<8} {x.name}: {x.sentence}", flush=True)
  if flags.json:
    print(records.to_json(found).decode(), end="")
  return int(any(x.severity != finding.OK for x in found))


def _examine(
  words: Sequence[str], flags: flags_lib.Flags
) -> Iterable[finding.Finding]:
  """Returns the findings about a run, or about this machine."""
  if len(words) > 1:
    raise ValueError(
      f"{len(words)} folders are given, and the command examines one: give the "
      "folder of a run, such as runs/first"
    )
  if words:
    return examination.examine(words[0], flags.trust, flags.play)
  folder = pathlib.Path(flags.run_dir).expanduser()
  return machine.examine(folder, flags.play)
