"""Start run: checks the command line of `slipway train`, and executes it."""

import contextlib
import functools
import importlib
import os
import pathlib
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence

import psutil

from slipway.agents import core
from slipway.agents.networks import torsos
from slipway.configs import fields
from slipway.environments import specs, user_code
from slipway.launch.checks import (
  dry_run,
  environment_check,
  resumption,
  run_check,
  train_flags,
)
from slipway.launch.commands import ending
from slipway.launch.control import limits
from slipway.launch.display import plain_warnings, standard_streams
from slipway.launch.launchers import local
from slipway.launch.processes import (
  descendants,
  lean_tensorflow,
  processors,
  signals,
)
from slipway.launch.runs import (
  config_file,
  recorded_spaces,
  run_folder,
  run_lock,
  snapshot_store,
  user_modules,
)
from slipway.launch.runs import run as run_lib
from slipway.replay.tables import table_spec

# Sentence that begins the help.
_USAGE = "Trains an experiment until one of its limits is reached."


@user_code.exit_as_error()
def run(
  argv: Sequence[str],
  signal_handler: signals.Signals,
  started_at_s: float,
  host: local.Host,
) -> int:
  """Executes the command line of `slipway train`: trains until the run ends.

  Args:
    argv: the program's name and its arguments.
    signal_handler: handler of the signals that this process receives.
    started_at_s: unix seconds at which the command began.
    host: fork server of the run's nodes, which is closed if they need none.

  Returns:
    Exit status: 0 if the run ended normally; 1 if it failed; 2 if it was
    rejected before anything was started.
  """
  plain_warnings.enable()
  descendants.adopt()
  # Children that the caller of this function has started before are spared,
  # the fork server among them.
  spared = psutil.Process().children()

  def clean_up() -> None:
    descendants.kill_children(spared)
    host.close()

  signal_handler.clean_up = clean_up
  with contextlib.ExitStack() as resources:
    resources.callback(clean_up)
    resources.callback(signal_handler.ignore)
    try:
      working_folder = os.getcwd()
      make_spec = environment_check.remember(
        functools.partial(
          environment_check.make_spec, command="train", clean_up=clean_up
        )
      )
      flags, config = command = train_flags.parse(argv, _USAGE, make_spec)
      spec, builder = run_check.check(config, flags.launch, make_spec)
      if flags.dry_run:
        host.close()
        with _in_folder(working_folder):
          lines = _describe_dry_run(command, spec, builder)
        standard_streams.print_line("\n".join(lines))
        return 0
      metrics = None
      if flags.prometheus_port is not None:
        from slipway.launch.commands import prometheus

        metrics = prometheus.Server(flags.prometheus_port)
        resources.callback(metrics.close)
      launch = _prepare_launch(command, host)
      with _in_folder(working_folder):
        if flags.resume is None:
          shown, message = _begin_run(command, spec, signal_handler, resources)
        else:
          table = core.make_collected_table(builder, config, spec)
          shown, message = _resume_run(
            command, spec, table, signal_handler, resources
          )
        folder = run_folder.RunFolder(shown.path.absolute())
      if metrics is not None:
        metrics.folder = folder
        message += f"\nmetrics: {metrics.url}"
    except (ValueError, OSError, user_code.UserCodeError) as error:
      print(f"train: {error}", file=sys.stderr)
      return 2
    except BaseException as error:
      print(f"train: {user_code.wrap(error)}", file=sys.stderr)
      return 2
    try:
      ends = limits.describe(config.limits) or "it is stopped; it has no limit"
      message += f"\n{command.notice}" if command.notice else ""
      message += f"\nends after: {ends}"
      torso = fields.get(config, "network.torso")
      for advice in (limits.advise(config), torsos.advise(torso, spec)):
        message += f"\nadvice: {advice}" if advice else ""
      if run_check.needs_external_processes(
        config, spec, builder, flags.launch
      ):
        message += (
          "\nno workers: nothing is learned until a process collects by "
          f"slipway.connect({str(shown.path)!r})"
        )
      standard_streams.print_line(message)
      launch(run_lib.Run(config, spec, folder, started_at_s), signal_handler)
      standard_streams.print_line(ending.describe(folder, config, shown))
      ending.check(folder, config)
    except KeyboardInterrupt:
      print(
        "train: killed at once; what was not saved is lost", file=sys.stderr
      )
      return 1
    except BaseException as error:
      print(f"train: {user_code.wrap(error)}", file=sys.stderr)
      return 1
    return 0


@contextlib.contextmanager
def _in_folder(path: str) -> Iterator[None]:
  """Makes a folder the working folder, which an environment may change."""
  before = os.getcwd()
  os.chdir(path)
  try:
    yield
  finally:
    os.chdir(before)


def _describe_dry_run(
  command: train_flags.Command,
  spec: specs.EnvironmentSpec,
  builder: core.Builder,
) -> list[str]:
  """Checks the folder of a run that is not started; returns lines about it."""
  flags, config = command
  if flags.resume is None:
    folder = run_folder.RunFolder(pathlib.Path(flags.run_dir, flags.name))
    run_folder.check_name(flags.name)
    run_folder.check_path(folder.path)
    if os.path.lexists(folder.path) and flags["name"].present:
      folder.check_replaceable(flags.overwrite)
    shown = f"the new run {folder.path}"
  else:
    folder = run_folder.RunFolder.open(flags.resume, flags.trust)
    recorded_spaces.check(folder, config.environment.name, spec)
    table = core.make_collected_table(builder, config, spec)
    store = snapshot_store.open_store(config, folder)
    snapshot, _ = resumption.check(folder, config, table, store)
    shown = f"run {folder.path} from snapshot {snapshot.number}"
  # The learner is made in this process, but no GPU is taken.
  os.environ.update(processors.NO_GPU)
  lean_tensorflow.import_tensorflow()
  described = dry_run.describe(config, spec, builder, flags.launch)
  return [f"dry run: {shown} could start; nothing was started", *described]


def _begin_run(
  command: train_flags.Command,
  spec: specs.EnvironmentSpec,
  signal_handler: signals.Signals,
  resources: contextlib.ExitStack,
) -> tuple[run_folder.RunFolder, str]:
  """Makes and locks the folder of a new run."""
  flags, config = command
  # Raises an error for an invalid config before an older run is removed.
  config_file.to_json(config)
  name = flags.name
  if not flags["name"].present:
    reserved = run_folder.reserved(flags.run_dir, name)
    name = resources.enter_context(reserved).name
  before = run_folder.RunFolder(pathlib.Path(flags.run_dir, name))
  run_folder.check_name(name)
  run_folder.check_path(before.path)
  store = snapshot_store.open_store(config, before)
  store.check_remote(may_exist=flags.overwrite)
  overwrite = flags.overwrite and os.path.lexists(before.path)
  with contextlib.ExitStack() as replaced:
    if overwrite and before.is_replaceable():
      # Held until the new folder is locked. Otherwise another command could
      # replace the old run meanwhile, and this one would delete its new run.
      replaced.enter_context(run_lock.held(before))
    signal_handler.begin_run()
    # A folder that another command has made since the check is not deleted.
    folder = run_folder.RunFolder.create(flags.run_dir, name, overwrite)
    resources.enter_context(run_lock.held(folder))
  path = folder.path.absolute()  # an environment may change the working folder

  def remove_unless_started() -> None:
    # Otherwise the same command would then be rejected for an existing run.
    if not signal_handler.run_started:
      shutil.rmtree(path, ignore_errors=True)

  resources.callback(remove_unless_started)
  folder.write_config(config)
  user_modules.write(folder, config)
  recorded_spaces.write(folder, spec)
  store.publish_config(clear=True)
  return folder, f"run folder: {folder.path}"


def _resume_run(
  command: train_flags.Command,
  spec: specs.EnvironmentSpec,
  table: table_spec.TableSpec | None,
  signal_handler: signals.Signals,
  resources: contextlib.ExitStack,
) -> tuple[run_folder.RunFolder, str]:
  """Locks the folder of a resumed run, and prepares it."""
  flags, config = command
  folder = run_folder.RunFolder.open(flags.resume, flags.trust)
  run_folder.check_path(folder.path)
  recorded_spaces.check(folder, config.environment.name, spec)
  resources.enter_context(run_lock.held(folder))
  store = snapshot_store.open_store(config, folder)
  store.check_remote(may_exist=True)
  snapshot, counters = resumption.check(folder, config, table, store)
  signal_handler.begin_run()
  resumption.begin(folder, config, store)
  recorded_spaces.write(folder, spec)  # for a run of an older version
  return folder, (
    f"run folder: {folder.path}\nresumes from snapshot {snapshot.number}: "
    f"{counters.status.env_steps:,} environment steps, "
    f"{counters.status.trainer_steps:,} trainer steps"
  )


def _import_and_launch(
  name: str, run: run_lib.Run, signal_handler: signals.Signals
) -> None:
  """Imports a launcher, which takes seconds, and launches a run."""
  os.environ.update(processors.make_gpu_variables(run.config.learner.device))
  lean_tensorflow.import_tensorflow()
  importlib.import_module(name).launch(run, signal_handler)


def _prepare_launch(
  command: train_flags.Command, host: local.Host
) -> Callable[..., None]:
  """Returns the function that launches a run; connects to Ray's cluster."""
  flags, config = command
  single = config.mode == "single"
  name = "launchers.single" if single else train_flags.LAUNCHES[flags.launch]
  if name == "launchers.local":
    return functools.partial(local.launch, host=host)
  host.close()
  if name != "machines.launcher":
    return functools.partial(_import_and_launch, f"slipway.launch.{name}")
  from slipway.launch.machines import admission

  address = admission.authenticate(flags.ray_address, flags.insecure)
  from slipway.launch.machines import launcher  # loads Ray

  return launcher.prepare(
    config, address, flags.wait_for_machines, standard_streams.print_line
  )
