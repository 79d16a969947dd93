"""Launches a program as processes of this machine, and stops it in order."""

import ml_collections
from acme import specs

from launch import memory_folder, payloads, run_folder, threads, watch
from launch import program as program_lib
from launch import runner as runner_lib


def launch(
  config: ml_collections.ConfigDict,
  spec: specs.EnvironmentSpec,
  folder: run_folder.RunFolder,
  started_at_s: float,
) -> None:
  """Runs a program to its end.

  Args:
    config: the whole config, validated.
    spec: of one environment.
    folder: of the run.
    started_at_s: unix seconds of the user's command.

  Raises:
    RuntimeError: a node failed for good; in one line.
    KeyboardInterrupt: Ctrl-C came twice; all nodes have been killed.
  """
  signals = watch.Signals()
  with memory_folder.made() as memory_dir:
    runner_lib.start_fork_server(
      {
        # For what its imports fix; a node's own come on top.
        **threads.environment("worker", learner_threads=1),
        "TF_CPP_MIN_LOG_LEVEL": "1",  # no notices
        "PYTHONUNBUFFERED": "1",  # logs are whole, however it ends
        "TMPDIR": memory_dir,
      }
    )
    program, control = program_lib.make_program(
      config, spec, folder, memory_dir, started_at_s
    )
    learner_threads = config.learner.threads
    runner = runner_lib.Runner(
      payloads.prepare(
        program,
        {
          role: threads.environment(role, learner_threads)
          for role in program.groups
        },
      ),
      folder.logs,
      config.restarts.budget,
      config.restarts.period_s,
    )
    watcher = watch.Watch(
      control.dereference(), signals, runner.stop_restarting
    )
    try:
      runner.run()
    finally:
      watcher.close()
