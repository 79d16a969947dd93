"""The command `slipway list`, which shows algorithms and presets."""

import typing
from collections.abc import Iterator, Sequence

import ml_collections

from slipway.agents import core, registry
from slipway.configs import catalog
from slipway.configs import fields as fields_lib
from slipway.environments import factory, ids
from slipway.launch.checks import flags as flags_lib
from slipway.launch.checks import memory, overrides
from slipway.launch.control import limits

# Sentence that begins the help.
_USAGE = "Lists all algorithms and presets, or describes one algorithm."


def main(argv: Sequence[str]) -> None:
  """Prints all algorithms and presets, or the description of one algorithm.

  Raises:
    ValueError: there is no such algorithm or flag.
    UserCodeError: the config's file failed.
  """
  flags = flags_lib.Flags()
  flags.add_text(
    "algorithm",
    None,
    "Algorithm to describe: a built-in name, or the path of your own "
    "config's file, which ends in .py. Default: list all algorithms.",
  )
  flags.parse(argv, _USAGE)
  lines = (
    _describe_algorithm(flags.algorithm) if flags.algorithm else _describe_all()
  )
  print("\n".join(lines))


def _describe_all() -> Iterator[str]:
  """Yields lines with all algorithms, their papers, and all presets."""
  algorithms = catalog.algorithms()
  yield "algorithms: --config=ALGORITHM:PRESET"
  for name, module in algorithms.items():
    yield f"  {name:<18}{_read_first_paragraph(module)}"
  yield ""
  yield "presets"
  for preset, names in catalog.presets().items():
    config = algorithms[names[0]].get_config(preset)
    name, _ = ids.get_name_and_kwargs(config.environment)
    only = "" if len(names) == len(algorithms) else f"; {', '.join(names)}"
    until = limits.describe(config.limits) or "a limit that you set"
    yield f"  {preset:<18}{name}, until {until}{only}"
  yield ""
  yield "more: slipway list --algorithm=NAME"


def _describe_algorithm(name: str) -> Iterator[str]:
  """Yields lines with an algorithm's changed fields, and what its runs need."""
  if name.endswith(".py"):
    first, config = name, overrides.load(name)
    fields_lib.validate(config, overrides.declared_fields(config))
    title, configs = config.agent, {"default": config}
  else:
    modules = catalog.algorithms()
    if name not in modules:
      near = catalog.find_similar(name)
      advice = f"did you mean {near}?" if near else "`slipway list` shows all"
      raise ValueError(
        f"--algorithm={name} is not an algorithm, so there is nothing to "
        f"show: {advice}"
      )
    module = modules[name]
    configs = {preset: module.get_config(preset) for preset in module.PRESETS}
    first, config = next(iter(configs.items()))
    title, first = _read_first_paragraph(module), f"{name}:{first}"
  yield f"{name}: {title}"
  yield ""
  yield f"values that differ from the fields' defaults, in {first}"
  defaults = fields_lib.make_config(overrides.declared_fields(config))
  for field, value in fields_lib.flatten(config).items():
    if fields_lib.get(defaults, field) != value:
      yield f"  {field:<38}{value}"
  yield ""
  yield "presets and their needs"
  for preset, config in configs.items():
    yield f"  {preset:<18}{_describe_needs(config)}"
  yield ""
  yield f"all fields: slipway config {first}"


def _describe_needs(config: ml_collections.ConfigDict) -> str:
  """Returns text with a config's torso, workers and maximum replay memory."""
  spec = factory.make_spec(config.environment)
  builder = registry.make_builder(config.agent)
  table = core.make_collected_table(builder, config, spec)
  if table is None or not config.topology.workers:
    return f"{config.network.torso}, recorded episodes, no workers"
  replay_gb = memory.replay_bytes(table, config.mode) / 1e9
  workers = config.topology.workers
  return (
    f"{config.network.torso}, {workers} worker{'s' if workers > 1 else ''} x "
    f"{config.topology.environments_per_worker} environments, "
    f"{replay_gb:.2g} GB of replay at most"
  )


def _read_first_paragraph(module: typing.Any) -> str:
  """Returns the paragraph of a config module that names its paper."""
  return " ".join((module.__doc__ or "").split("\n\n")[0].split())
