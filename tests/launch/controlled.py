"""A run's control that is served by the test's process, as by the launcher."""

import contextlib
import types

from slipway.launch.launchers import threads
from slipway.launch.processes import controller as controller_lib
from slipway.launch.runs import run_lock


class Crew:
  """Nodes that are threads, or that the test itself ends."""

  has_failed = False
  is_stopped_quickly = None  # whether, once it is stopped
  threads = ()
  first_failures = types.MappingProxyType({})
  follow = staticmethod(lambda control: None)
  measure = dict

  def stop(self, is_quick):
    self.is_stopped_quickly = is_quick
    threads.stop_stage(self.threads)

  @property
  def has_ended(self):
    return all(node.ended.is_set() for node in self.threads)


@contextlib.contextmanager
def controlled(run, expected, memory_dir, crew=None, **signals):
  """Yields the controller of a run whose nodes the test starts."""
  received = {"first": None, "snapshot_requested": False} | signals
  crew, socket = crew or Crew(), controller_lib.socket_in(memory_dir)
  crew.expected = expected
  with (
    run_lock.held(run.folder),
    controller_lib.Controller(
      run, crew, socket, types.SimpleNamespace(**received)
    ) as controller,
  ):
    controller.socket = socket
    controller.start()
    yield controller
