"""Trains: `slipway train --config=apex_dqn:cartpole`.

This module imports hardly anything, so that a signal in the seconds in which
`slipway.launch.training` is imported ends the command as it does later.
"""

import sys
from collections.abc import Sequence

from slipway.launch.processes import signals


def main(argv: Sequence[str]) -> int:
  """Runs a training.

  Returns:
    Exit status: 0 the run ended as it should, 1 it failed, 2 it was rejected
    before anything was started.
  """
  taken = signals.Signals()
  from slipway.launch import training

  return training.run(argv, taken)


if __name__ == "__main__":
  sys.exit(main(sys.argv))
