"""Run check: checks that a config can be trained, before anything starts."""

import ml_collections

from slipway.agents import core, recorded_items, registry
from slipway.agents.networks import network
from slipway.configs import base, checks, fields
from slipway.environments import factory, recorder, specs, video
from slipway.launch.checks import (
  environment_check,
  initial_weights,
  memory,
  overrides,
)
from slipway.launch.hooks import catalog as hooks
from slipway.launch.launchers import host_plan
from slipway.launch.processes import processors

# Fields that have an effect only with --launch=ray.
_CLUSTER_FIELDS = (
  "topology.machines",
  "topology.home_workers",
  "topology.trainer_machine",
  "topology.trainer_cpus",
  "topology.trainer_gpus",
  "topology.cpus_per_worker",
)


def check(
  config: ml_collections.ConfigDict,
  launch: str,
  make_spec: environment_check.SpecFunction = factory.make_spec,
) -> tuple[specs.EnvironmentSpec, core.Builder]:
  """Checks that a config can be trained on this machine.

  Returns:
    The environment's spec, and the algorithm's builder.

  Raises:
    ValueError: the config can't be trained.
    user_code.UserCodeError: the environment or the algorithm has failed.
  """
  fields.validate(config, overrides.declared_fields(config))
  base.check_environment(config.environment)
  base.check_evaluations(config)
  spec = make_spec(config.environment)
  _check_evaluation_environment(config, spec, make_spec)
  builder = registry.make_builder(config.agent)
  on_cluster = launch == "ray"
  if not on_cluster:
    _check_no_cluster_fields(config)
    processors.check_device(config.learner.device)
  # The capacity of a queue depends on the number of all workers.
  workers = _count_workers(config, on_cluster)
  whole = fields.replace(config, "topology.workers", workers)
  # A network of the user's may use TensorFlow, whose GPU is the trainer's.
  is_trainer = config.mode == "single" or launch == "local_mt"
  with processors.shown_gpu(config.learner.device if is_trainer else "cpu"):
    builder.check(whole, spec)
    # Made here, so that an error of the user's own network comes first.
    network.variable_shapes(builder.make_network(whole, spec))
  if checks.is_user_code(name := config.learner.get("optimizer", "adam")):
    core.load_optimizer(name)
  if config.get("dataset", {}).get("path", ""):
    recorded_items.check(whole, spec, builder)
  _check_recording(config, spec, builder, on_cluster)
  _check_videos(config)
  hooks.check(config.hooks)
  initial_weights.check(config, spec)
  _check_shards(config, on_cluster)
  # This machine's memory matters only if it runs the trainer.
  if not on_cluster or config.topology.trainer_machine == "home":
    table = core.make_collected_table(builder, whole, spec)
    memory.check(whole, spec, table, memory.machine_bytes())
  return spec, builder


def _check_evaluation_environment(
  config: ml_collections.ConfigDict,
  spec: specs.EnvironmentSpec,
  make_spec: environment_check.SpecFunction,
) -> None:
  """Checks that evaluations have an environment with the same spaces."""
  if not base.has_evaluation_environment(config):
    return
  try:
    found = make_spec(base.get_evaluation_environment(config))
  except ValueError as error:
    raise ValueError(f"with config.evaluation.environment, {error}") from error
  if field := specs.find_difference(found, spec):
    here, there = getattr(found, field).name, getattr(spec, field).name
    raise ValueError(
      f"config.evaluation.environment={config.evaluation.environment.to_dict()}"
      f" makes an environment with other {field} than config.environment, "
      f"{here} in place of {there}, so the policy could not act in it: give "
      "arguments that keep the spaces"
    )


def _check_recording(
  config: ml_collections.ConfigDict,
  spec: specs.EnvironmentSpec,
  builder: core.Builder,
  on_cluster: bool,
) -> None:
  """Checks that workers can record their episodes, if they should."""
  path = config.recording.path
  if not path:
    return
  given = f"config.recording.path={path!r}"
  if core.make_collected_table(builder, config, spec) is None:
    raise ValueError(
      f"{given} is for episodes of workers, and the run learns from recorded "
      "ones only, so it would have no effect: leave it out"
    )
  if not on_cluster:
    recorder.check_folder(given, path)


def _check_videos(config: ml_collections.ConfigDict) -> None:
  """Checks that evaluations can be filmed on this machine, if they should."""
  if period := config.evaluation.video_period:
    try:
      video.check(base.get_evaluation_environment(config))
    except (ValueError, OSError, RuntimeError) as error:  # also of ffmpeg
      raise ValueError(
        f"with config.evaluation.video_period={period}, {error}"
      ) from error


def needs_external_processes(
  config: ml_collections.ConfigDict,
  spec: specs.EnvironmentSpec,
  builder: core.Builder,
  launch: str,
) -> bool:
  """Returns whether no process of the run itself steps environments."""
  return (
    config.mode != "single"
    and _count_workers(config, launch == "ray") == 0
    and core.make_collected_table(builder, config, spec) is not None
  )


def _count_workers(config: ml_collections.ConfigDict, on_cluster: bool) -> int:
  """Returns the number of workers, on one machine if their number is open."""
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
  """Checks that at least one worker writes to each replay server."""
  shards = host_plan.count_replay_servers(config)
  workers = _count_workers(config, on_cluster)
  # A run without workers has any number of external processes. On a cluster
  # whose machines the config doesn't count, the number of workers may grow.
  unknown = on_cluster and not config.topology.machines
  if 0 < workers < shards and not unknown:
    raise ValueError(
      f"config.replay.shards={shards} with {workers} workers in all "
      "(config.topology): each worker writes to one shard, so some shards "
      f"would stay empty; use at most {workers} shards, or {shards} or more "
      "workers"
    )
