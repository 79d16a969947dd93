"""The command `slipway train`, which starts or resumes a run.

This module imports little, so that signals are handled, and the fork server
imports its modules, before the import of `slipway.launch.commands.start_run`.
"""

import sys
import time
from collections.abc import Sequence

from slipway.launch.display import standard_streams
from slipway.launch.launchers import local
from slipway.launch.processes import signals


def main(argv: Sequence[str]) -> int:
  """Executes the command line of `slipway train`.

  Returns:
    Exit status: 0 if the run ended normally; 1 if it failed; 2 if it was
    rejected before anything was started.
  """
  # Not the time at which the process was created: a script may have worked for
  # long before its `exec slipway train`. The imports below do count.
  started_at_s = time.time()
  signal_handler = signals.Signals()
  try:
    host = local.Host()
  except OSError as error:
    print(f"train: no process could be started: {error}", file=sys.stderr)
    return 2
  signal_handler.clean_up = host.close
  try:
    from slipway.launch.commands import start_run

    return start_run.run(argv, signal_handler, started_at_s, host)
  finally:
    host.close()


if __name__ == "__main__":
  standard_streams.exit_process(main(sys.argv))
