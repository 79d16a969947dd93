"""The command `slipway profile`, which shows where a run's time goes.

It calls the launcher at the address in the run's folder, as `slipway control`
does, and the processes sample themselves.
"""

import pathlib
import sys
import time
from collections.abc import Sequence

from slipway.launch.api import running
from slipway.launch.checks import flags as flags_lib
from slipway.launch.control import sampling
from slipway.launch.profiling import views
from slipway.launch.runs import run_folder

_USAGE = """\
Shows where the time of an active run goes, by step of the data path.

  slipway profile runs/first
  slipway profile runs/first --seconds=30 --trace=first.json

All processes sample their own threads, and continue meanwhile. The folder of
the run gets a flame graph for https://speedscope.app."""
_RENEW_S = 0.5  # seconds between two requests to sample


def main(argv: Sequence[str]) -> None:
  """Executes the command line of `slipway profile`.

  Raises:
    ValueError: the command was rejected.
    RunUnavailableError: the run is not active or does not reply.
    OSError: a file can't be written.
  """
  flags = flags_lib.Flags()
  flags.add_integer("seconds", 10, "Duration of the profile.", 1, 60)
  flags.add_integer("samples_per_s", 100, "Samples per second.", 1, 1_000)
  flags.add_text("trace", None, "Path of a timeline for ui.perfetto.dev.")
  run = flags.parse_run(argv, _USAGE)
  if flags.trace and not pathlib.Path(flags.trace).parent.is_dir():
    raise ValueError(
      f"--trace={flags.trace} is in a folder that does not exist, so the "
      "timeline could not be written: make the folder first"
    )
  folder = run_folder.RunFolder.open(run, True)
  profiles = _profile(folder, flags.seconds, flags.samples_per_s)
  print(views.make_table(profiles))
  flame_graph = folder.path / "profile.collapsedstack.txt"
  written = {flame_graph: views.make_flame_graph(profiles)}
  if flags.trace is not None:
    written[pathlib.Path(flags.trace)] = views.make_timeline(profiles)
  for path, text in written.items():
    # A link, such as one of another user, is replaced instead of followed.
    with run_folder.replacing(path) as temporary:
      temporary.write_text(text)
    print(path)


def _profile(
  folder: run_folder.RunFolder, seconds: int, per_s: int
) -> dict[str, sampling.Profile]:
  """Returns the profile of each process that replies, by its name."""
  profiles = {}
  with running.connect(folder) as control:
    monitors = control.status().monitors.values()
    names = dict.fromkeys(x for usage in monitors for x in usage.processes)
    is_first, end_s = True, time.monotonic() + seconds
    while (left_s := end_s - time.monotonic()) > 0.0:
      control.sample(left_s, per_s, is_first)
      is_first = False
      time.sleep(min(left_s, _RENEW_S))
      running.find(folder)  # raises the reason if the run has ended
    for name in names:
      if profile := control.get_profile(name):
        profiles[name] = profile
      else:
        print(f"profile: no reply of {name}; has it ended?", file=sys.stderr)
  return profiles
