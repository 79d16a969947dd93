"""The command `slipway profile`, which shows where a run's time goes.

It calls the launcher at the address in the run's folder, as `slipway control`
does, and the processes sample themselves.
"""

import os
import pathlib
import sys
import time
from collections.abc import Sequence

from slipway.launch.api import running
from slipway.launch.checks import flags as flags_lib
from slipway.launch.control import control_service, sampling
from slipway.launch.profiling import flame_graph, table, trace
from slipway.launch.runs import records, run_folder

_USAGE = """\
Shows where the time of an active run goes, by step of the data path.

  slipway profile runs/first
  slipway profile runs/first --seconds=30 --trace=first.json

All processes sample their own threads, and continue meanwhile. The folder of
the run gets a flame graph, profile.svg."""
_FLAME_GRAPH = "profile.svg"  # name of the file in the run's folder
# Seconds after the profile in which all processes should send theirs.
_TIMEOUT_S = 10.0
_POLL_S = 0.1  # seconds between two checks whether they have
_FIND_S = 0.5  # seconds between two checks whether the run is active
_MAX_SAMPLES = 100_000  # of a thread, which the control keeps in memory


def main(argv: Sequence[str]) -> int:
  """Executes the command line of `slipway profile`.

  Returns:
    Exit status: 0 if the profile was taken; 1 if the run is not active or does
    not reply; 2 if the command was rejected.
  """
  try:
    flags, folder = _parse(argv)
    profiles, missing = _profile(folder, flags.seconds, flags.samples_per_s)
    files = {"flame graph": folder.path / _FLAME_GRAPH}
    # The owner of the folder may be another user, whose link is not followed.
    files["flame graph"].unlink(missing_ok=True)
    with files["flame graph"].open("x") as file:
      file.write(flame_graph.to_svg(profiles))
    if flags.trace is not None:
      files["trace"] = pathlib.Path(flags.trace)
      files["trace"].write_text(trace.to_json(profiles))
  except (ValueError, OSError) as error:
    print(f"profile: {error}", file=sys.stderr)
    return 2
  except running.RunUnavailableError as error:
    print(f"profile: {error}", file=sys.stderr)
    return 1
  times = {name: table.make_times(x) for name, x in profiles.items()}
  if flags.json:
    print(records.to_json(times).decode(), end="")
  else:
    print(table.to_text(times))
    print("\n".join(f"{name}: {path}" for name, path in files.items()))
  if missing:
    names = ", ".join(missing)
    print(
      f"profile: no reply of {names}: it hangs or has ended", file=sys.stderr
    )
  return 0


def _profile(
  folder: run_folder.RunFolder, seconds: int, per_s: int
) -> tuple[dict[str, sampling.Profile], list[str]]:
  """Returns the profiles by process, and the processes without one."""
  with running.connect(folder) as control:
    status = control.status()
    names = {x: None for y in status.monitors.values() for x in y.processes}
    control.profile(seconds, per_s)
    end_s = time.monotonic() + seconds
    while (left_s := end_s - time.monotonic()) > 0:
      running.find(folder)  # raises if the run has ended meanwhile
      time.sleep(min(left_s, _FIND_S))
    deadline_s = time.monotonic() + _TIMEOUT_S
    profiles = _fetch(control, [*names])
    while len(profiles) < len(names) and time.monotonic() < deadline_s:
      time.sleep(_POLL_S)
      profiles |= _fetch(control, [x for x in names if x not in profiles])
    # External processes come and go, so none is waited for.
    externals = _fetch(control, [f"external/{x}" for x in status.externals])
  ordered = {name: profiles[name] for name in names if name in profiles}
  return ordered | externals, [name for name in names if name not in profiles]


def _fetch(
  control: control_service.ControlService, names: Sequence[str]
) -> dict[str, sampling.Profile]:
  """Returns the profiles that have arrived, by process."""
  found = {name: control.get_profile(name) for name in names}
  return {name: x for name, x in found.items() if x is not None}


def _parse(argv: Sequence[str]) -> tuple[flags_lib.Flags, run_folder.RunFolder]:
  """Parses the command line of `slipway profile`."""
  flags = flags_lib.Flags()
  flags.add_integer("seconds", 10, "Duration of the profile.", 1, 600)
  flags.add_integer(
    "samples_per_s", 100, "Samples per second and thread.", 1, 1_000
  )
  flags.add_text(
    "trace",
    None,
    "Also write a timeline to this file, as JSON that ui.perfetto.dev opens.",
  )
  flags.add_bool("json", False, "Print the table as JSON.")
  words = flags.parse(argv, _USAGE, has_words=True)
  if len(words) != 1:
    raise ValueError(
      f"{len(words)} runs are given, and a profile is of one: give the folder "
      "of an active run, such as runs/first"
    )
  if flags.seconds * flags.samples_per_s > _MAX_SAMPLES:
    raise ValueError(
      f"--seconds={flags.seconds} with --samples_per_s={flags.samples_per_s} "
      f"are more than {_MAX_SAMPLES:,} samples, which take too much memory: "
      "give less of one"
    )
  if flags.trace is not None:
    _check_writable(pathlib.Path(flags.trace))
  folder = run_folder.RunFolder.open(words[0], True)
  _check_writable(folder.path / _FLAME_GRAPH)
  return flags, folder


def _check_writable(path: pathlib.Path) -> None:
  """Raises ValueError if no file can be written at a path."""
  if not os.access(path.parent, os.W_OK):
    raise ValueError(
      f"{str(path)!r} can't be written, so the profile would be lost: its "
      "folder must exist, and be writable for this user"
    )
