"""The command `slipway list`, which shows algorithms and presets."""

import sys
import typing
from collections.abc import Iterator, Sequence

import ml_collections
from absl import flags as absl_flags

from slipway.agents import registry
from slipway.configs import catalog
from slipway.configs import fields as fields_lib
from slipway.environments import factory, ids, user_code
from slipway.launch.checks import flags as flags_lib
from slipway.launch.checks import memory, overrides
from slipway.launch.control import limits

# Sentence that begins the help.
_USAGE = "Lists all algorithms and presets, or describes one algorithm."


def main(argv: Sequence[str]) -> int:
  """Prints all algorithms and presets, or the description of one algorithm.

  Args:
    argv: the program's name and its arguments.

  Returns:
    Exit status: 0, or 2 if there is no such algorithm or flag.
  """
  try:
    flags = flags_lib.parse(_define_flags(), argv, _USAGE)
    lines = (
      _describe_algorithm(flags.algorithm)
      if flags.algorithm
      else _describe_all()
    )
    print("\n".join(lines))
  except (ValueError, user_code.UserCodeError) as error:
    print(f"list: {error}", file=sys.stderr)
    return 2
  return 0


def _define_flags() -> absl_flags.FlagValues:
  """Returns the flags of `slipway list`, before parsing."""
  values = absl_flags.FlagValues()
  absl_flags.DEFINE_string(
    "algorithm",
    None,
    "Algorithm to describe: a built-in name, or the path of your own config's "
    "file, which ends in .py. Default: list all algorithms.",
    flag_values=values,
  )
  absl_flags.DEFINE_bool("help", False, "Show this help.", flag_values=values)
  return values


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
    until = limits.describe(config.limits)
    yield f"  {preset:<18}{name}, until {until}{only}"
  yield ""
  yield "more: slipway list --algorithm=NAME"


def _describe_algorithm(algorithm: str) -> Iterator[str]:
  """Yields lines with an algorithm's paper, changed fields and presets."""
  if algorithm.endswith(".py"):
    yield from _describe_file(algorithm)
    return
  modules = catalog.algorithms()
  if algorithm not in modules:
    near = catalog.find_similar(algorithm)
    advice = f"did you mean {near}?" if near else "`slipway list` shows all"
    raise ValueError(
      f"--algorithm={algorithm} is not an algorithm, so there is nothing to "
      f"show: {advice}"
    )
  module = modules[algorithm]
  first, *_ = module.PRESETS
  config = module.get_config(first)
  yield f"{algorithm}: {_read_first_paragraph(module)}"
  yield ""
  yield f"values that differ from the fields' defaults, preset {first}"
  yield from _list_changed_fields(config)
  yield ""
  yield "presets and their needs"
  for preset in module.PRESETS:
    yield f"  {preset:<18}{_describe_needs(module.get_config(preset))}"
  yield ""
  yield f"all fields: slipway config {algorithm}:{first}"


def _describe_file(path: str) -> Iterator[str]:
  """Yields lines with a config file's changed fields, and what a run needs."""
  config = overrides.load(path)
  fields_lib.validate(config, overrides.declared_fields(config))
  yield f"{path}: {config.agent}"
  yield ""
  yield "values that differ from the fields' defaults"
  yield from _list_changed_fields(config)
  yield ""
  yield f"needs: {_describe_needs(config)}"
  yield ""
  yield f"all fields: slipway config {path}"


def _list_changed_fields(config: ml_collections.ConfigDict) -> Iterator[str]:
  """Yields a line per field of a config that differs from its default."""
  defaults = fields_lib.make_config(overrides.declared_fields(config))
  for field, value in fields_lib.flatten(config).items():
    if fields_lib.get(defaults, field) != value:
      yield f"  {field:<38}{value}"


def _describe_needs(config: ml_collections.ConfigDict) -> str:
  """Returns text with a config's torso, workers and maximum replay memory."""
  spec = factory.make_spec(config.environment)
  table = registry.make_builder(config.agent).make_table(config, spec)
  if table is None:
    return f"{config.network.torso}, recorded episodes, no workers"
  replay_gb = memory.replay_bytes(table, config.mode) / 1e9
  workers = config.topology.workers
  return (
    f"{config.network.torso}, {workers} worker{'s' if workers > 1 else ''} x "
    f"{config.topology.environments_per_worker} environments, "
    f"{replay_gb:.2g} GB of replay at most"
  )


def _read_first_paragraph(module: typing.Any) -> str:
  """Returns the first paragraph of a config module's docstring, in one line.

  The paragraph names the algorithm's paper.
  """
  return " ".join((module.__doc__ or "").split("\n\n")[0].split())


if __name__ == "__main__":
  sys.exit(main(sys.argv))
