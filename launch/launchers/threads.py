"""Local threads: the launcher of --launch=local_mt, for use with a debugger."""

import pathlib
import shutil
import signal
import threading
from collections.abc import Callable, Mapping, Sequence

import launchpad as lp
from absl import flags

from slipway.environments import user_code
from slipway.launch.control import stages
from slipway.launch.launchers import host_plan, host_setup
from slipway.launch.launchers import program as program_lib
from slipway.launch.nodes import link
from slipway.launch.processes import controller as controller_lib
from slipway.launch.processes import crew as crew_lib
from slipway.launch.processes import hung_process, tmpfs_directory
from slipway.launch.processes import signals as signals_lib
from slipway.launch.runs import error_text
from slipway.launch.runs import run as run_lib

# Text of the error if a user changes the number of workers.
_WORKERS_ARE_FIXED = (
  "all nodes of this run are threads of one process, so the number of workers "
  "can't change: launch it with --launch=local_mp"
)


class ThreadNode:
  """A node that a thread of this process runs, as in --launch=local_mt.

  Attributes:
    role: role of the node.
    stop_event: event that makes the node save and end.
    ended: event that is set once the node has ended.
  """

  def __init__(self, spec: program_lib.NodeSpec):
    """Makes a node from its spec."""
    self.role, self._spec = spec.role, spec
    self.stop_event, self.ended = threading.Event(), threading.Event()

  def run(self) -> None:
    """Runs the node; Launchpad calls it in a thread."""
    link.own_stop_event.set(self.stop_event)
    try:
      self._spec.run()
    finally:
      self.ended.set()


def make_program(
  specs: Sequence[program_lib.NodeSpec],
) -> tuple[lp.Program, list[ThreadNode]]:
  """Returns a Launchpad program, and the nodes that are its threads."""
  program = lp.Program("slipway")
  threads = [ThreadNode(spec) for spec in specs]
  for thread in threads:
    program.add_node(lp.PyNode(thread.run), label=thread.role)
  return program, threads


class _Threads(crew_lib.Crew):
  """The crew of nodes that are threads, which can't be killed."""

  def __init__(
    self,
    wiring: program_lib.Wiring,
    log: pathlib.Path,
    expected: Mapping[str, int],
  ):
    """Makes a crew without starting the threads."""
    super().__init__(log, expected)
    self._wiring = wiring  # with the reserved ports
    self._program, self._threads = make_program(wiring.nodes)
    self._has_failed: Callable[[], bool] = lambda: False

  def _step(self) -> bool:
    """Runs the threads until all have ended, and raises the error of one."""
    # Launchpad installs handlers of its own, which kill. Until ours are back,
    # no signal is delivered.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signals_lib.STOP_SIGNALS)
    handlers = {
      number: signal.getsignal(number) for number in signals_lib.STOP_SIGNALS
    }
    flags.FLAGS.mark_as_parsed()  # Launchpad uses the defaults of its flags
    try:
      manager = lp.launch(self._program, launch_type="local_mt")
    finally:
      for number, handler in handlers.items():
        signal.signal(number, handler)
      signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    self._has_failed = manager.stop_event().is_set
    manager.wait()
    return False

  def _kill_all(self) -> None:
    """Does nothing, as the threads end with this process."""

  @property
  def has_failed(self) -> bool:
    """Whether a node has failed, so that Launchpad stops its program."""
    return self._has_failed()

  def stop(self, is_quick: bool = False) -> None:
    """Requests the end of the current stage's nodes."""
    stop_stage(self._threads)

  def kill_at_once(self) -> None:
    """Ends the wait for the threads, which end with this process."""
    raise signals_lib.SecondInterrupt


def stop_stage(threads: Sequence[ThreadNode]) -> None:
  """Requests the end of the nodes of the current one of `stages`.

  It is to be called until all nodes have ended.
  """
  live = [node for node in threads if not node.ended.is_set()]
  stage = stages.find_stage(node.role for node in live)
  for node in live:
    if node.role in stages.STAGES[stage]:
      node.stop_event.set()


def launch(run: run_lib.Run, signals: signals_lib.Signals) -> None:
  """Executes a run to its end in this process, with one thread per node.

  Raises:
    RuntimeError: a node failed.
    user_code.UserCodeError: the user's own code failed in a node.
    KeyboardInterrupt: Ctrl-C was pressed twice.
  """
  host_setup.warn_of_other_users("all nodes are threads (--launch=local_mt)")
  with tmpfs_directory.create() as memory_dir:
    socket = controller_lib.socket_in(memory_dir)
    plan = host_plan.HostPlan.for_single_host(run.config, memory_dir, socket)
    wiring = program_lib.make_program(run, plan)
    crew = _Threads(wiring, run.folder.logs / "runner", plan.expected)

    def clean_up() -> None:
      signals.clean_up()
      shutil.rmtree(memory_dir, ignore_errors=True)

    with controller_lib.Controller(
      run, crew, socket, signals, _WORKERS_ARE_FIXED
    ) as controller:
      controller.start()
      try:
        # Each worker and evaluator has a limit of its own.
        with hung_process.ending(0, 1, "train", clean_up):
          crew.run()
      except user_code.UserCodeError:
        raise
      except Exception as error:
        text = error_text.one_line(error)
        raise RuntimeError(
          f"a node failed: {type(error).__name__}: {text}"
        ) from error
