"""A run's control that is served by the test's process, as by the launcher."""

import contextlib
import types

from slipway.launch.processes import controller as controller_lib


class Crew:
  """Nodes that the test itself ends."""

  has_failed = False

  def stop_restarting(self):
    pass

  def end_soon(self):
    pass

  def force_shutdown(self):
    pass


@contextlib.contextmanager
def controlled(run, expected, memory_dir, crew=None, **signals):
  """Yields the controller of a run whose nodes the test starts."""
  received = {"first": None, "snapshot_requested": False} | signals
  with controller_lib.Controller(
    run, expected, str(memory_dir), types.SimpleNamespace(**received)
  ) as controller:
    controller.direct(crew or Crew())
    yield controller
