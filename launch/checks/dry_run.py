"""Dry run: describes what a checked config would start, without a start."""

import collections
import math
from collections.abc import Iterator

import ml_collections

from slipway.agents import core
from slipway.configs import fields
from slipway.environments import recordings, specs
from slipway.launch.checks import memory
from slipway.launch.control import limits
from slipway.launch.display import formatting
from slipway.launch.launchers import host_plan


def describe(
  config: ml_collections.ConfigDict,
  spec: specs.EnvironmentSpec,
  builder: core.Builder,
  launch: str,
) -> Iterator[str]:
  """Yields lines about the nodes, table, memory and networks of a run.

  The learner is made, which imports TensorFlow; `launch` is the flag's value.
  """
  rows = {
    "algorithm": f"{config.agent}, mode {config.mode}, seed {config.seed}",
    "environment": f"{config.environment.name}: {spec.observations.name}; "
    f"actions {spec.actions.name}",
    **_describe_nodes(config, launch),
    **_describe_data(config, spec, builder),
    **_describe_networks(builder.make_learner(config, spec)),
    "ends after": limits.describe(config.limits) or "it is stopped",
  }
  for label, text in rows.items():
    yield from formatting.wrap_row(label, text)


def _describe_nodes(
  config: ml_collections.ConfigDict, launch: str
) -> dict[str, str]:
  """Returns the rows about nodes, machines and addresses."""
  counts = host_plan.count_expected_nodes(config)
  nodes = ", ".join(
    f"{count} {role}" for role, count in counts.items() if count
  )
  each = f"{config.topology.environments_per_worker} environments per worker"
  if config.mode == "single":
    return {"nodes": f"worker, trainer and evaluator in this process; {each}"}
  if launch == "ray":
    machines = f"{config.topology.machines or 'all'} machines"
    addresses = "known once machines have joined the cluster"
    return {"nodes": f"{nodes}; {each}; {machines}", "addresses": addresses}
  place = "threads of this process" if launch == "local_mt" else "processes"
  servers = host_plan.count_replay_servers(config)
  return {
    "nodes": f"{nodes}; {each}; {place} of this machine",
    "addresses": f"{servers} replay server{'s' * (servers > 1)} at ports of "
    "127.0.0.1, control and proxy at unix sockets",
  }


def _describe_data(
  config: ml_collections.ConfigDict,
  spec: specs.EnvironmentSpec,
  builder: core.Builder,
) -> dict[str, str]:
  """Returns the rows about recorded episodes, the table and its memory."""
  rows: dict[str, str] = {}
  if path := fields.get(config, "dataset.path"):
    episodes, steps = recordings.count(path)
    rows["data set"] = f"{path}: {episodes:,} episodes, {steps:,} steps"
  table = core.make_collected_table(builder, config, spec)
  if table is None:
    return rows
  kind = "prioritized" if table.prioritized else "uniform"
  kind = "queue" if table.is_queue else f"{kind} replay"
  needed = memory.replay_bytes(table, config.mode)
  return rows | {
    "table": f"{kind}, {table.capacity:,} items in each of {table.shards} "
    f"server(s); each has {math.prod(table.schema.item_shape):,} bytes and "
    f"{table.steps_per_item} environment steps; batches of {table.batch_size} "
    f"from {table.min_size:,} items on",
    "memory": f"{needed / 2**30:.3g} GiB for the full table, uncompressed, of "
    f"{memory.format_bytes(memory.machine_bytes())}",
  }


def _describe_networks(learner: core.Learner) -> dict[str, str]:
  """Returns a row per network, with the number of parameters per layer."""
  rows = {}
  for name, part in learner.checkpointed.items():
    if not hasattr(part, "get_variables"):
      continue  # a counter, or an optimizer
    layers: collections.Counter[str] = collections.Counter()
    for variable, values in part.get_variables().items():
      layers[variable.rpartition("/")[0] or variable] += values.size
    if layers:
      shown = ", ".join(f"{layer} {count:,}" for layer, count in layers.items())
      rows[name] = f"{layers.total():,} parameters: {shown}"
  return rows
