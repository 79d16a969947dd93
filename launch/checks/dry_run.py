"""Dry run: describes what a checked config would start, without a start."""

import math
import os
from collections.abc import Iterator

import ml_collections

from slipway.agents import core
from slipway.configs import fields
from slipway.environments import specs
from slipway.launch.checks import memory
from slipway.launch.control import limits
from slipway.launch.control import rates as rates_lib
from slipway.launch.display import formatting
from slipway.launch.launchers import host_plan


def describe(
  config: ml_collections.ConfigDict,
  spec: specs.EnvironmentSpec,
  builder: core.Builder,
  launch: str,
) -> Iterator[str]:
  """Yields lines about the nodes, table, memory, networks and rates of a run.

  The learner is made for them, which imports TensorFlow.

  Args:
    config: the whole config, which `run_check.check` has accepted.
    launch: value of the flag --launch.
  """
  rows = {
    "algorithm": f"{config.agent}, mode {config.mode}, seed {config.seed}",
    "environment": f"{config.environment.name}: {spec.observations.name}; "
    f"actions {spec.actions.name}",
    **_describe_nodes(config, launch),
    **_describe_table(config, spec, builder),
    **_describe_networks(builder.make_learner(config, spec)),
    "rates": _describe_rates(config, spec),
    "ends after": limits.describe(config.limits) or "it is stopped",
  }
  for label, text in rows.items():
    yield from formatting.wrap_row(label, text)


def _describe_nodes(
  config: ml_collections.ConfigDict, launch: str
) -> dict[str, str]:
  """Returns the rows about nodes, machines and addresses."""
  topology = config.topology
  environments = f"{topology.environments_per_worker} environments"
  if config.mode == "single":
    return {
      "nodes": f"worker ({environments}), trainer and evaluator in this process"
    }
  counts = host_plan.count_expected_nodes(config)
  nodes = ", ".join(
    f"{count} {role}" + (f" ({environments} each)" if role == "worker" else "")
    for role, count in counts.items()
    if count
  )
  if launch == "ray":
    machines = topology.machines or "all other"
    return {
      "nodes": f"{nodes}; workers and a proxy on each of {machines} machines, "
      f"{topology.home_workers} workers on the driver host",
      "addresses": "known once machines have joined the cluster, which was not "
      "connected to",
    }
  place = "threads of this process" if launch == "local_mt" else "processes"
  servers = host_plan.count_replay_servers(config)
  return {
    "nodes": f"{nodes}; {place} of this machine",
    "addresses": f"{servers} replay server{'s' * (servers > 1)} at 127.0.0.1, "
    "whose ports are chosen at the start; control and proxy at unix sockets",
  }


def _describe_table(
  config: ml_collections.ConfigDict,
  spec: specs.EnvironmentSpec,
  builder: core.Builder,
) -> dict[str, str]:
  """Returns the rows about the table and its memory."""
  table = core.make_collected_table(builder, config, spec)
  if table is None:
    return {"table": "none; the run learns from recorded episodes"}
  kind = "queue" if table.is_queue else "uniform replay"
  if table.prioritized:
    kind = f"replay prioritized by the power {table.priority_exponent:g}"
  shards = f" in each of {table.shards} shards" if table.shards > 1 else ""
  item_bytes = math.prod(table.schema.item_shape)
  needed = memory.replay_bytes(table, config.mode)
  return {
    "table": f"{kind}, {table.capacity:,} items{shards}; each has "
    f"{item_bytes:,} bytes and {table.steps_per_item} environment steps; "
    f"batches of {table.batch_size} from {table.min_size:,} items on",
    "memory": f"{needed / 2**30:.3g} GiB for the full table, uncompressed; "
    f"this machine has {memory.format_bytes(memory.machine_bytes())}",
  }


def _describe_networks(learner: core.Learner) -> dict[str, str]:
  """Returns a row per network, with the number of parameters per layer."""
  rows: dict[str, str] = {}
  names: dict[tuple[int, ...], str] = {}  # of networks, by their layers' sizes
  for name, part in learner.checkpointed.items():
    if not hasattr(part, "get_variables"):
      continue  # a counter, or an optimizer
    layers: dict[str, int] = {}
    for variable, values in part.get_variables().items():
      layer = variable.rpartition("/")[0] or variable
      layers[layer] = layers.get(layer, 0) + values.size
    if layers:
      equal = names.setdefault(tuple(layers.values()), name)
      prefix = os.path.commonpath(layers) if len(layers) > 1 else ""
      shown = ", ".join(
        f"{os.path.relpath(layer, prefix or '.')} {count:,}"
        for layer, count in layers.items()
      )
      text = f"like {equal}" if equal != name else shown
      rows[name] = f"{sum(layers.values()):,} parameters: {text}"
  return rows


def _describe_rates(
  config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
) -> str:
  """Returns text about the schedule of workers and trainer."""
  rates = rates_lib.Rates.from_config(config, spec)
  texts = [
    f"variables are published every {rates.publish_period} updates",
    f"{rates.updates_per_call} updates per call of the trainer",
  ]
  if rates.table and not rates.table.is_queue:
    ratio = rates.table.samples_per_insert
    texts.insert(0, f"{ratio:g} samples per item" if ratio else "no ratio")
  if steps := rates.worker_steps(max(1, config.topology.workers)):
    texts.append(f"rounds of {steps} steps of each environment")
  if config.rates.environment_steps_per_s:
    most = fields.get(config, "rates.environment_steps_per_s")
    texts.append(f"at most {most:g} environment steps/s")
  return "; ".join(texts)
