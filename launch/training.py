"""Training: checks the command line of `slipway train`, and executes it."""

import contextlib
import functools
import importlib
import os
import pathlib
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence

import ml_collections
import psutil
from absl import flags as absl_flags

from slipway.agents import core, registry
from slipway.agents.networks import network, torsos
from slipway.configs import base, fields
from slipway.environments import factory, specs, user_code
from slipway.launch import (
  ending,
  environment_check,
  local,
  memory,
  resumption,
  train_flags,
)
from slipway.launch.display import plain_warnings, standard_streams
from slipway.launch.hooks import catalog as hooks
from slipway.launch.machines import host_plan
from slipway.launch.options import overrides
from slipway.launch.orchestration import limits
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

# Fields that have an effect only with --launch=ray.
_CLUSTER_FIELDS = (
  "topology.machines",
  "topology.home_workers",
  "topology.trainer_machine",
  "topology.trainer_cpus",
  "topology.trainer_gpus",
  "topology.cpus_per_worker",
)
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
      flags = train_flags.parse(argv, _USAGE)
      config = flags.config
      make_spec = functools.partial(
        environment_check.make_spec, command="train", clean_up=clean_up
      )
      spec, builder = check(flags, make_spec)
      launch = _prepare_launch(flags, host)
      with _in_folder(working_folder):
        if flags.resume is None:
          shown, message = _begin_run(flags, spec, signal_handler, resources)
        else:
          table = builder.make_table(config, spec)
          shown, message = _resume_run(
            flags, spec, table, signal_handler, resources
          )
        folder = run_folder.RunFolder(shown.path.absolute())
    except (ValueError, OSError, user_code.UserCodeError) as error:
      print(f"train: {error}", file=sys.stderr)
      return 2
    except BaseException as error:
      print(f"train: {user_code.wrap(error)}", file=sys.stderr)
      return 2
    try:
      ends = limits.describe(config.limits) or "it is stopped; it has no limit"
      message += f"\nends after: {ends}"
      torso = fields.get(config, "network.torso")
      for advice in (limits.advise(config), torsos.advise(torso, spec)):
        message += f"\nadvice: {advice}" if advice else ""
      if _needs_external_processes(config, spec, builder, flags.launch):
        message += (
          "\nno workers: nothing is learned until a process collects by "
          f"slipway.connect({str(shown.path)!r})"
        )
      standard_streams.print_line(message)
      launch(run_lib.Run(config, spec, folder, started_at_s), signal_handler)
      standard_streams.print_line(ending.describe(folder, config, shown))
      ending.check_learned(folder, config)
      ending.check_saved(folder, config)
    except (RuntimeError, OSError) as error:
      print(f"train: {error}", file=sys.stderr)
      return 1
    except KeyboardInterrupt:
      print(
        "train: killed at once; what was not saved is lost", file=sys.stderr
      )
      return 1
    except BaseException as error:
      print(f"train: {user_code.wrap(error)}", file=sys.stderr)
      return 1
    return 0


def check(
  flags: absl_flags.FlagValues,
  make_spec: environment_check.SpecFunction = factory.make_spec,
) -> tuple[specs.EnvironmentSpec, core.Builder]:
  """Checks that a config can be trained on this machine.

  Args:
    flags: parsed flags of `slipway train`.
    make_spec: function that returns the spec of the config's environments.

  Returns:
    The environment's spec, and the algorithm's builder.

  Raises:
    ValueError: the config can't be trained.
    user_code.UserCodeError: the environment or the algorithm has failed.
  """
  config = flags.config
  fields.validate(config, overrides.declared_fields(config))
  base.check_environment(config.environment)
  base.check_evaluations(config)
  spec = make_spec(config.environment)
  builder = registry.make_builder(config.agent)
  on_cluster = flags.launch == "ray"
  if not on_cluster:
    _check_no_cluster_fields(config)
  # The capacity of a queue depends on the number of all workers.
  workers = _count_workers(config, on_cluster)
  whole = fields.replace(config, "topology.workers", workers)
  builder.check(whole, spec)
  # Made here, so that an error of the user's own network comes first.
  network.variable_shapes(builder.make_network(whole, spec))
  hooks.check(config.hooks)
  _check_shards(config, on_cluster)
  if not on_cluster:
    processors.check_device(config.learner.device)
  # This machine's memory matters only if it runs the trainer.
  if not on_cluster or config.topology.trainer_machine == "home":
    table = builder.make_table(whole, spec)
    memory.check(whole, spec, table, memory.machine_bytes())
  return spec, builder


def _needs_external_processes(
  config: ml_collections.ConfigDict,
  spec: specs.EnvironmentSpec,
  builder: core.Builder,
  launch: str,
) -> bool:
  """Returns whether no process of the run itself steps environments."""
  return (
    config.mode != "single"
    and _count_workers(config, launch == "ray") == 0
    and builder.make_table(config, spec) is not None
  )


def _count_workers(config: ml_collections.ConfigDict, on_cluster: bool) -> int:
  """Returns the number of workers of a run.

  If the config leaves the number of machines to the cluster, one is counted.
  """
  topology = config.topology
  if not on_cluster:
    return topology.workers
  return topology.home_workers + max(1, topology.machines) * topology.workers


def _check_no_cluster_fields(config: ml_collections.ConfigDict) -> None:
  """Raises ValueError if a field is set that only --launch=ray uses."""
  for name in _CLUSTER_FIELDS:
    value, default = fields.get(config, name), base.FIELDS[name].default
    if value != default:
      raise ValueError(
        f"config.{name}={value!r} is for --launch=ray, and has no effect on "
        f"one machine: use {default!r}, or give --launch=ray"
      )


def _check_shards(config: ml_collections.ConfigDict, on_cluster: bool) -> None:
  """Checks that at least one worker writes to each replay server.

  A run without workers has any number of external processes. On a cluster whose
  machines are not counted in the config, the number of workers may grow.
  """
  shards = host_plan.count_replay_servers(config)
  workers = _count_workers(config, on_cluster)
  unknown = on_cluster and not config.topology.machines
  if 0 < workers < shards and not unknown:
    raise ValueError(
      f"config.replay.shards={shards} with {workers} workers in all "
      "(config.topology): each worker writes to one shard, so some shards "
      f"would stay empty; use at most {workers} shards, or {shards} or more "
      "workers"
    )


@contextlib.contextmanager
def _in_folder(path: str) -> Iterator[None]:
  """Makes a folder the working folder while a `with` block runs.

  Relative paths on the command line refer to the folder in which the command
  was started, and an environment may have changed it.
  """
  before = os.getcwd()
  os.chdir(path)
  try:
    yield
  finally:
    os.chdir(before)


def _begin_run(
  flags: absl_flags.FlagValues,
  spec: specs.EnvironmentSpec,
  signal_handler: signals.Signals,
  resources: contextlib.ExitStack,
) -> tuple[run_folder.RunFolder, str]:
  """Makes and locks the folder of a new run."""
  # Raises an error for an invalid config before an older run is removed.
  config_file.to_json(flags.config)
  name = flags.name
  if not flags["name"].present:
    reserved = run_folder.reserved(flags.run_dir, name)
    name = resources.enter_context(reserved).name
  before = run_folder.RunFolder(pathlib.Path(flags.run_dir, name))
  run_folder.check_name(name)
  run_folder.check_path(before.path)
  store = snapshot_store.open_store(flags.config, before)
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
  try:
    folder.write_config(flags.config)
    user_modules.write(folder, flags.config)
    recorded_spaces.write(folder, spec)
    store.publish_config(clear=True)
  except BaseException:
    # Otherwise the same command would then be rejected for an existing run.
    shutil.rmtree(folder.path, ignore_errors=True)
    raise
  return folder, f"run folder: {folder.path}"


def _resume_run(
  flags: absl_flags.FlagValues,
  spec: specs.EnvironmentSpec,
  table: table_spec.TableSpec | None,
  signal_handler: signals.Signals,
  resources: contextlib.ExitStack,
) -> tuple[run_folder.RunFolder, str]:
  """Locks the folder of a resumed run, and prepares it."""
  folder = run_folder.RunFolder.open(flags.resume, flags.trust)
  run_folder.check_path(folder.path)
  recorded_spaces.check(folder, flags.config.environment.name, spec)
  resources.enter_context(run_lock.held(folder))
  store = snapshot_store.open_store(flags.config, folder)
  store.check_remote(may_exist=True)
  resumed = resumption.Resumption.from_folder(folder, flags.config, table)
  signal_handler.begin_run()
  resumed.begin()
  recorded_spaces.write(folder, spec)  # for a run of an older version
  return folder, f"run folder: {folder.path}\n{resumed}"


def _import_and_launch(
  name: str, run: run_lib.Run, signal_handler: signals.Signals
) -> None:
  """Imports a launcher that runs all in this process, and launches a run.

  The import takes seconds, so it comes after all checks.
  """
  os.environ.update(processors.make_gpu_variables(run.config.learner.device))
  lean_tensorflow.import_tensorflow()
  importlib.import_module(name).launch(run, signal_handler)


def _prepare_launch(
  flags: absl_flags.FlagValues, host: local.Host
) -> Callable[..., None]:
  """Returns the function that launches a run, given the run and its signals.

  For --launch=ray, this connects to the cluster.
  """
  config = flags.config
  single = config.mode == "single"
  name = "single" if single else train_flags.LAUNCHES[flags.launch]
  if name == "local":
    return functools.partial(local.launch, host=host)
  host.close()
  descendants.adopt()  # still, though the server's end has disabled it
  if name != "machines.launcher":
    return functools.partial(_import_and_launch, f"slipway.launch.{name}")
  from slipway.launch.machines import admission

  address = admission.authenticate(flags.ray_address, flags.insecure)
  from slipway.launch.machines import launcher  # loads Ray

  return launcher.prepare(
    config, address, flags.wait_for_machines, standard_streams.print_line
  )
