"""Launches a program as threads of this process, for the debugger."""

import signal
from unittest import mock

import launchpad as lp
from absl import flags
from launchpad.launch import worker_manager

from slipway.environments import user_code
from slipway.launch import hosting, site
from slipway.launch import program as program_lib
from slipway.launch.processes import memory_folder, watch
from slipway.launch.processes import signals as signals_lib
from slipway.launch.runs import run as run_lib


def launch(run: run_lib.Run, signals: signals_lib.Signals) -> None:
  """Runs a program to its end.

  Args:
    run: what to run.
    signals: that this process takes.

  Raises:
    RuntimeError: a node failed; in one line.
    KeyboardInterrupt: Ctrl-C came twice.
  """
  hosting.warn_of_other_users("all nodes are threads (--launch=local_mt)")
  with memory_folder.made() as memory_dir:
    wiring = program_lib.make_program(
      run, site.Site.whole(run.config, memory_dir)
    )
    flags.FLAGS.mark_as_parsed()  # ours are apart: Launchpad takes its defaults
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
      with mock.patch.object(worker_manager, "_register_signal_handler"):
        manager = lp.launch(wiring.program, launch_type="local_mt")
    finally:
      signal.pthread_sigmask(signal.SIG_SETMASK, before)
    watcher = watch.Watch(wiring.control.dereference(), signals)
    try:
      manager.wait()
    except user_code.UserCodeError:
      raise
    except Exception as error:
      said = " ".join(str(error).split())
      raise RuntimeError(
        f"a node failed: {type(error).__name__}: {said}"
      ) from error
    finally:
      watcher.close()
