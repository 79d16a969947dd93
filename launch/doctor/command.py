"""The command `slipway doctor`, which examines this machine, or a run."""

import pathlib
import sys
from collections.abc import Sequence

from slipway.environments import user_code
from slipway.launch.checks import flags as flags_lib
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
    Exit status: 0 without findings, warnings included; 1 with findings; 2 if a
    flag is invalid, the folder is no run's, or the run has no results yet.
  """
  flags = flags_lib.Flags()
  flags.add_bool("json", False, "Print JSON.")
  flags.add_bool("play", True, "Play the run's environment, or test the parts.")
  flags.add_text("run_dir", "runs", "Folder of runs, whose disk is tested.")
  flags.add_trust()
  try:
    words = flags.parse(argv, _USAGE, has_words=True)
    if len(words) > 1:
      raise ValueError(
        f"{len(words)} folders are given, so it is not known which run is "
        "meant: give one, such as runs/first"
      )
    if words:
      return _examine_run(words[0], flags)
    return _examine_machine(flags)
  except ValueError as error:
    print(f"doctor: {error}", file=sys.stderr)
    return 2


def _examine_run(path: str, flags: flags_lib.Flags) -> int:
  """Examines a run; returns the exit status."""
  with (
    standard_streams.diverting_output(flags.json),
    hung_process.ending(0, 2, "doctor", lambda: None),
  ):
    found = examination.examine(path, flags.trust, flags.play)
  if flags.json:
    print(records.to_json(found).decode(), end="")
  else:
    print(f"{found.run}: {examination.count(found.findings)}")
    for fact in found.facts:
      print(f"  {fact}")
    for x in found.findings:
      print(f"{x.severity}: {x.name}: {x.sentence}")
  if not found.can_be_judged:
    print(
      "doctor: the run has made no update, so it can't be judged yet",
      file=sys.stderr,
    )
    return 2
  return 1 if found.findings else 0


def _examine_machine(flags: flags_lib.Flags) -> int:
  """Examines this machine; returns the exit status."""
  lines = []

  def add(line: machine.Line) -> None:
    lines.append(line)
    if not flags.json:
      print(f"{line.state:<8}{line.name:<12}{line.text}", flush=True)

  for line in machine.examine(pathlib.Path(flags.run_dir).expanduser()):
    add(line)
  if flags.play:
    from slipway.launch.doctor import data_path  # plays an environment

    for line in data_path.run():
      add(line)
  if flags.json:
    print(records.to_json(lines).decode(), end="")
  return int(any(line.state != machine.OK for line in lines))
