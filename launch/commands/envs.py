"""The command `slipway envs`, which measures an environment, or lists them."""

import fnmatch
import json
import sys
import textwrap
import typing
from collections.abc import Iterator, Sequence

import numpy as np
import psutil

from slipway.agents.networks import torsos
from slipway.configs import catalog, fields
from slipway.environments import arrays, installed, probe, spaces
from slipway.launch.checks import environment_check, overrides, train_flags
from slipway.launch.checks import flags as flags_lib
from slipway.launch.commands import evaluate
from slipway.launch.display import formatting
from slipway.launch.processes import descendants, hung_process

# Text that begins the help.
_USAGE = (
  "Measures an environment under random play, in about 4 s. The argument is a "
  "gymnasium id or module:Class; without one, all installed environments are "
  "listed. --config.environment.FIELD=VALUE changes the environment as in "
  "`slipway train`.\n\n  slipway envs CartPole-v1"
)
_MAX_ELEMENTS = 64  # elements of a part of an observation that are listed
_SECONDS = 0.8  # duration of each of the two measurements
_WIDTH = 80  # columns of a line


def main(argv: Sequence[str]) -> int:
  """Measures and describes one environment, or lists those installed.

  Returns:
    Exit status: 0; 1 if the environment failed; 2 if there is no such
    environment or flag.
  """
  return evaluate.run_command("envs", lambda: _run(argv))


def _run(argv: Sequence[str]) -> int:
  """Prints the description or the list; returns the exit status."""
  flags = flags_lib.Flags()
  flags.add_bool("json", False, "Print JSON in place of text.")
  line = flags.split(argv)
  if ("help", "true") in line.own:
    flags.show_help(_USAGE)
  flags.set(line)
  changes = [x for x in line.others if _is_of_environment(x)]
  flags.reject([x for x in line.others if x not in changes], argv[0])
  if len(line.words) > 1 or (changes and not line.words):
    raise ValueError(
      f"{len(line.words)} environments are given, and the command measures "
      "one: give a gymnasium id or module:Class, such as CartPole-v1"
    )
  if line.words:
    found = _measure(line.words[0], changes)
    text = "\n".join(_describe(found))
  else:
    found = installed.list_groups()
    text = "\n".join(_describe_groups(found))
  print(json.dumps(found, indent=2) if flags.json else text)
  return 0


def _is_of_environment(argument: str) -> bool:
  """Returns whether an argument sets a field of section `environment`."""
  is_override = overrides.is_override(argument)
  return is_override and overrides.get_field(argument).startswith(
    "environment."
  )


def _measure(name: str, changes: Sequence[str]) -> dict[str, typing.Any]:
  """Returns what is shown of an environment, by name, for JSON."""
  descendants.adopt()
  spared = psutil.Process().children()

  def clean_up() -> None:
    descendants.kill_children(spared)

  def make_spec(config):
    return environment_check.make_spec(config, "envs", clean_up)

  named = f"--{overrides.PREFIX}environment.name={name}"
  flags, config = train_flags.parse(
    ["slipway train", named, *changes], "", make_spec
  )
  timeout_s = config.environment.step_timeout_s
  with hung_process.ending(timeout_s, 2, "envs", clean_up):
    found = probe.measure(config.environment, _SECONDS)
  clean_up()
  mask_size = 0
  if isinstance(found.spec.observations, arrays.MaskedArray):
    mask_size = found.spec.observations.mask_size
  advice = torsos.advise(fields.get(config, "network.torso"), found.spec)
  return {
    "name": found.name,
    "observations": spaces.describe(found.observation_space),
    "actions": spaces.describe(found.action_space),
    "mask_size": mask_size,
    "legal_share": found.legal_share,
    "steps": found.steps,
    "reward": found.rewards._asdict(),
    "rewarded_share": found.rewarded_share,
    "episodes": found.episodes,
    "return": found.returns and found.returns._asdict(),
    "length": found.lengths and found.lengths._asdict(),
    "longest_unfinished": found.longest_unfinished,
    "terminated_share": found.terminated_share,
    "steps_per_s": found.steps_per_s,
    "batch_size": found.batch_size,
    "batch_steps_per_s": found.batch_steps_per_s,
    "is_reproducible": found.is_reproducible,
    "starts_vary": found.starts_vary,
    "config": flags.config,
    "presets": _find_presets(found.name),
    "ranges": list(_find_ranges(found)),
    "problems": [*_find_problems(found), *filter(None, [advice])],
  }


def _find_presets(name: str) -> dict[str, list[str]]:
  """Returns the presets for an environment, with their algorithms."""
  modules, found = catalog.algorithms(), {}
  for preset, algorithms in catalog.presets().items():
    config = modules[algorithms[0]].get_config(preset)
    pattern = str(config.environment.name).replace("{game}", "*")
    if preset != "generic" and fnmatch.fnmatchcase(name, pattern):
      found[preset] = algorithms
  return found


def _find_ranges(found: probe.Probe) -> Iterator[dict[str, typing.Any]]:
  """Yields the lowest and highest values of each part of observations.

  They are lists with a number per element; of more than 64 elements, only the
  lowest and the highest.
  """
  low, high = found.observation_low.ravel(), found.observation_high.ravel()
  for part in spaces.describe_layout(found.observation_space):
    columns = slice(part["start"], part["stop"])
    lows, highs = low[columns], high[columns]
    constant = int((lows == highs).sum())
    if lows.size > _MAX_ELEMENTS:
      lows, highs = lows.min(keepdims=True), highs.max(keepdims=True)
    yield {
      "key": part["key"],
      "elements": part["stop"] - part["start"],
      "constant": constant,
      "low": lows.tolist(),
      "high": highs.tolist(),
    }


def _find_problems(found: probe.Probe) -> Iterator[str]:
  """Yields sentences on what may prevent that a policy is learned."""
  steps = f"{found.steps:,} steps of random play"
  if not found.is_reproducible:
    yield (
      "another environment with the same seed did not repeat its steps, so no "
      "run can be reproduced: use self.np_random, which reset(seed) seeds"
    )
  if found.returns is None:
    yield (
      f"no episode ended in {steps}, of up to {found.longest_unfinished:,} "
      "steps each, so there is no return: an environment whose episodes never "
      "end needs --config.environment.time_limit"
    )
  elif found.returns.low == found.returns.high and found.episodes > 1:
    yield (
      f"all {found.episodes:,} episodes had the return "
      f"{found.returns.low:g}, so nothing can be learned from them: rewards "
      "must depend on the actions, or exploration find rare ones "
      "(config.bonus.kind)"
    )
  if np.array_equal(found.observation_low, found.observation_high):
    yield (
      f"the observation was the same in {steps}, so all that a policy can "
      "learn is one best action"
    )


def _describe(found: dict[str, typing.Any]) -> Iterator[str]:
  """Yields the lines about an environment."""
  masks = "none"
  if found["mask_size"]:
    masks = f"{100 * found['legal_share']:.0f} % of the actions are legal"
  ends = f"none; the longest episode has {found['longest_unfinished']:,} steps"
  if found["episodes"]:
    ended = 100 * found["terminated_share"]
    ends = f"{ended:.0f} % terminated, {100 - ended:.0f} % truncated"
  seed = "reproducible" if found["is_reproducible"] else "not reproducible"
  starts = "vary with it" if found["starts_vary"] else "are all the same"
  presets = ", ".join(
    f"{preset} ({len(algorithms)} algorithms)"
    for preset, algorithms in found["presets"].items()
  )
  batched = (
    f"{formatting.rate(found['batch_steps_per_s'])} of {found['batch_size']} "
    "as one batch"
  )
  rows = {
    "observations": found["observations"],
    "actions": found["actions"],
    "action masks": masks,
    "rewards": f"{_describe_span(found['reward'])} per step; "
    f"{100 * found['rewarded_share']:.3g} % of {found['steps']:,} are not 0",
    "returns": f"{_describe_span(found['return'])} in {found['episodes']:,} "
    "episodes",
    "lengths": f"{_describe_span(found['length'])} environment steps",
    "ends": ends,
    "speed": f"{formatting.rate(found['steps_per_s'])} steps/s of one "
    f"environment, {batched}",
    "seed": f"{seed}; first observations {starts}",
    "config": f"{found['config']}, if `slipway train` gets no --config",
    "presets": f"{presets}; see `slipway list`" if presets else "none",
  }
  yield f"{found['name']}, played with random actions"
  for label, text in rows.items():
    yield from _wrap(label, text)
  for part in found["ranges"]:
    shown = [
      f"{low:.3g} to {high:.3g}"
      for low, high in zip(part["low"], part["high"], strict=True)
    ]
    text = ", ".join(shown)
    if part["elements"] > len(shown):
      text += f" in {part['elements']:,} elements"
    if part["constant"]:
      text += f"; {part['constant']:,} did not change"
    yield from _wrap(f"range {part['key']}".strip(), text)
  for problem in found["problems"]:
    yield from _wrap("problem", problem)


def _describe_span(span: dict[str, float] | None) -> str:
  """Returns the lowest, highest and mean value as text."""
  if span is None:
    return formatting.UNKNOWN
  if span["low"] == span["high"]:
    return f"always {span['mean']:.4g}"
  return f"{span['low']:.4g} to {span['high']:.4g}, mean {span['mean']:.4g}"


def _describe_groups(groups: dict[str, list[str]]) -> Iterator[str]:
  """Yields the lines with the ids of all groups."""
  for group, names in groups.items():
    yield f"{group} ({len(names)})"
    yield from textwrap.wrap(
      "  ".join(names),
      _WIDTH,
      initial_indent="  ",
      subsequent_indent="  ",
      break_on_hyphens=False,
    )
  yield "more: slipway envs NAME, or module:Class of your own"


def _wrap(label: str, text: str) -> list[str]:
  """Returns a label and its text in lines of the width."""
  return textwrap.wrap(
    text,
    _WIDTH,
    initial_indent=f"  {label:<13} ",
    subsequent_indent=" " * 16,
    break_on_hyphens=False,
  )


if __name__ == "__main__":
  sys.exit(main(sys.argv))
