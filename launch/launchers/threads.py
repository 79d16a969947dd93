"""Local threads: the launcher of --launch=local_mt, for use with a debugger."""

import signal
from collections.abc import Sequence

import launchpad as lp
from absl import flags

from slipway.environments import user_code
from slipway.launch.control import stages
from slipway.launch.launchers import host_plan, host_setup
from slipway.launch.launchers import program as program_lib
from slipway.launch.processes import controller as controller_lib
from slipway.launch.processes import hung_process, tmpfs_directory
from slipway.launch.processes import signals as signals_lib
from slipway.launch.runs import error_text
from slipway.launch.runs import run as run_lib

# Text of the error if a user changes the number of workers.
_WORKERS_ARE_FIXED = (
  "all nodes of this run are threads of one process, so the number of workers "
  "can't change: launch it with --launch=local_mp"
)


class _Threads:
  """The crew of nodes that are threads, which can't be killed."""

  def __init__(self, wiring: program_lib.Wiring):
    """Starts the threads."""
    self._threads = wiring.threads
    # Launchpad installs handlers of its own, which kill. Until ours are back,
    # no signal is delivered.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signals_lib.STOP_SIGNALS)
    handlers = {
      number: signal.getsignal(number) for number in signals_lib.STOP_SIGNALS
    }
    flags.FLAGS.mark_as_parsed()  # Launchpad uses the defaults of its flags
    try:
      self._manager = lp.launch(wiring.program, launch_type="local_mt")
    finally:
      for number, handler in handlers.items():
        signal.signal(number, handler)
      signal.pthread_sigmask(signal.SIG_SETMASK, mask)

  def run(self) -> None:
    """Waits until all threads have ended, and raises the error of one."""
    self._manager.wait()

  @property
  def has_failed(self) -> bool:
    """Whether a node has failed, so that Launchpad stops its program."""
    return self._manager.stop_event().is_set()

  def stop(self, is_quick: bool) -> None:
    """Requests the end of the current stage's nodes."""
    stop_stage(self._threads)

  def kill_at_once(self) -> None:
    """Ends the wait for the threads, which end with this process."""
    raise signals_lib.SecondInterrupt


def stop_stage(threads: Sequence[program_lib.ThreadNode]) -> None:
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

  Args:
    run: the run to execute.
    signals: handler of the signals that this process receives.

  Raises:
    RuntimeError: a node failed.
    user_code.UserCodeError: the user's own code failed in a node.
    KeyboardInterrupt: Ctrl-C was pressed twice.
  """
  host_setup.warn_of_other_users("all nodes are threads (--launch=local_mt)")
  expected = host_plan.count_expected_nodes(run.config)
  with (
    tmpfs_directory.create() as memory_dir,
    controller_lib.Controller(
      run, expected, memory_dir, signals, _WORKERS_ARE_FIXED
    ) as controller,
  ):
    plan = host_plan.HostPlan.for_single_host(
      run.config, memory_dir, controller.socket
    )
    crew = _Threads(program_lib.make_program(run, plan))
    controller.direct(crew)
    try:
      # Each worker and evaluator has a limit of its own.
      with hung_process.ending(0, 1, "train", signals.clean_up):
        crew.run()
    except user_code.UserCodeError:
      raise
    except Exception as error:
      text = error_text.one_line(error)
      raise RuntimeError(
        f"a node failed: {type(error).__name__}: {text}"
      ) from error
