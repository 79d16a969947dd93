"""Lists what can be run: `python -m launch.list`, `--algorithm=rainbow`."""

import math
import sys
import typing
from collections.abc import Iterator, Sequence

import ml_collections

from agents import registry
from configs import catalog, dqn, sizes
from environments import factory
from launch.options import flags as flags_lib
from launch.options import overrides

_USAGE = "Lists algorithms and presets, or one algorithm with what it needs."


def main(argv: Sequence[str]) -> int:
  """Prints a list.

  Returns:
    Exit status: 0, or 2 where there is no such algorithm.
  """
  try:
    flags = flags_lib.parse(flags_lib.define_list_flags(), argv, _USAGE)
    lines = _one(flags.algorithm) if flags.algorithm else _all()
    print("\n".join(lines))
  except ValueError as error:
    print(f"list: {error}", file=sys.stderr)
    return 2
  return 0


def _all() -> Iterator[str]:
  """All algorithms with their papers, and all presets."""
  yield "algorithms: --config=configs/ALGORITHM.py:PRESET"
  for name, module in catalog.algorithms().items():
    yield f"  {name:<18}{_paper(module)}"
  yield ""
  yield "presets"
  for preset in catalog.PRESETS:
    config = dqn.get_config(preset)
    name, _ = factory.read(config.environment)
    yield f"  {preset:<18}{name}, until {_end(config)}"
  yield ""
  yield "more: python -m launch.list --algorithm=NAME"


def _one(algorithm: str) -> Iterator[str]:
  """An algorithm: its paper, what it changes, what its presets need."""
  modules = catalog.algorithms()
  if algorithm not in modules:
    raise ValueError(
      f"--algorithm={algorithm} is no file of configs/, so there is nothing to "
      f"show: did you mean {catalog.nearest(algorithm)}?"
    )
  module = modules[algorithm]
  yield f"{algorithm}: {_paper(module)}"
  yield ""
  yield "other than in dqn, preset cartpole"
  before = dict(overrides.fields(dqn.get_config()))
  for field, value in overrides.fields(module.get_config()):
    if before.get(field) != value:
      yield f"  {field:<38}{value}"
  yield ""
  yield "needs: discrete actions, and"
  for preset in catalog.PRESETS:
    yield f"  {preset:<18}{_needs(module.get_config(preset))}"


def _needs(config: ml_collections.ConfigDict) -> str:
  spec = factory.make_spec(config.environment)
  layout = registry.make_builder(config.agent).make_layout(config, spec)
  bytes_each = math.prod(layout.item_shape)
  if config.adder.stacked_frames:  # each of an item's cells is kept once
    bytes_each = layout.item_shape[-1]
  items = config.replay.shards * sizes.Sizes.of(config).capacity
  replay_gb = items * bytes_each / 1e9
  workers = config.topology.workers
  return (
    f"{config.network.torso}, {workers} worker{'s' if workers > 1 else ''} x "
    f"{config.topology.environments_per_worker} environments, "
    f"{replay_gb:.2g} GB of replay at most"
  )


def _paper(module: typing.Any) -> str:
  """The first paragraph of what a config says of itself, as one line."""
  return " ".join((module.__doc__ or "").split("\n\n")[0].split())


def _end(config: ml_collections.ConfigDict) -> str:
  limits = config.limits
  if math.isfinite(limits.target_return):
    return f"a mean return of {limits.target_return:g}"
  return f"{limits.environment_steps:,} environment steps"


if __name__ == "__main__":
  sys.exit(main(sys.argv))
