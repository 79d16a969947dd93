"""The command `slipway envs`, which measures an environment, or lists them."""

import fnmatch
import json
import sys
import typing
from collections.abc import Iterator, Sequence

import numpy as np
import psutil

from slipway.agents.networks import torsos
from slipway.configs import catalog, fields
from slipway.environments import ids, random_play, spaces
from slipway.launch.checks import environment_check, overrides, train_flags
from slipway.launch.checks import flags as flags_lib
from slipway.launch.commands import evaluate
from slipway.launch.display import formatting, standard_streams
from slipway.launch.processes import descendants, hung_process

# Text that begins the help.
_USAGE = (
  "Measures an environment under random play, in about 4 s. The argument is a "
  "gymnasium id or module:Class; without one, all installed environments are "
  "listed. --config.environment.FIELD=VALUE changes the environment as in "
  "`slipway train`.\n\n  slipway envs CartPole-v1"
)
_MAX_ELEMENTS = 64  # elements of a part of an observation that are listed
_ALONE_S = 0.3  # of processor time, for the speed of one environment


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
  changes = overrides.find_changes_of_environment(line.others)
  flags.reject([x for x in line.others if x not in changes], argv[0])
  if len(line.words) > 1 or (changes and not line.words):
    raise ValueError(
      f"{len(line.words)} environments are given, and the command measures "
      "one: give a gymnasium id or module:Class, such as CartPole-v1"
    )
  if not line.words:
    groups = ids.list_installed()
    rows = {group: "  ".join(names) for group, names in groups.items()}
    print(json.dumps(groups, indent=2) if flags.json else _format(rows))
    return 0
  with standard_streams.diverting_output(flags.json):
    found, more = _measure(line.words[0], changes)
  if flags.json:
    print(json.dumps(found | more, indent=2, default=_to_json))
  else:
    print(f"{found['name']}, played with random actions")
    print(_format(_describe(found) | more))
  return 0


def _measure(
  name: str, changes: Sequence[str]
) -> tuple[dict[str, typing.Any], dict[str, typing.Any]]:
  """Returns what random play shows, and the configs and problems."""
  descendants.adopt()
  spared = psutil.Process().children()

  def clean_up() -> None:
    descendants.kill_children(spared)

  named = f"--{overrides.PREFIX}environment.name={name}"
  flags, config = train_flags.parse(
    ["slipway train", named, *changes],
    _USAGE,
    lambda x: environment_check.make_spec(x, "envs", clean_up),
  )
  timeout_s = config.environment.step_timeout_s
  with hung_process.ending(timeout_s, 2, "envs", clean_up):
    found = random_play.play(config.environment)
    alone = random_play.play(config.environment, _ALONE_S, num_envs=1)
  clean_up()
  advice = torsos.advise(fields.get(config, "network.torso"), found.spec)
  return _summarize(found, alone.steps_per_s), {
    "config": flags.config,
    "presets": _find_presets(found.name),
    "problems": [*_find_problems(found), *filter(None, [advice])],
  }


def _find_presets(name: str) -> list[str]:
  """Returns the presets for an environment."""
  modules = catalog.algorithms()
  return [
    preset
    for preset, (algorithm, *_) in catalog.presets().items()
    if preset != "generic"
    and fnmatch.fnmatchcase(
      name,
      modules[algorithm]
      .get_config(preset)
      .environment.name.replace("{game}", "*"),
    )
  ]


def _find_problems(found: random_play.Probe) -> Iterator[str]:
  """Yields sentences on what may prevent that a policy is learned."""
  steps = f"{found.steps:,} steps of random play"
  if not found.is_reproducible:
    yield (
      "another environment with the same seed did not repeat its steps, so no "
      "run can be reproduced: use self.np_random, which reset(seed) seeds"
    )
  if not found.returns:
    yield (
      f"no episode ended in {steps}, of up to {found.longest_unfinished:,} "
      "steps each, so there is no return: an environment whose episodes never "
      "end needs --config.environment.time_limit"
    )
  elif len({*found.returns}) == 1 and len(found.returns) > 1:
    yield (
      f"all {len(found.returns):,} episodes had the return "
      f"{found.returns[0]:g}, so nothing can be learned from them: rewards "
      "must depend on the actions, or exploration find rare ones "
      "(config.bonus.kind)"
    )
  if np.array_equal(found.observation_low, found.observation_high):
    yield (
      f"the observation was the same in {steps}, so all that a policy can "
      "learn is one best action"
    )


def _summarize(
  found: random_play.Probe, steps_per_s: float
) -> dict[str, typing.Any]:
  """Returns the measurements of a batch, and the speed of one environment."""
  episodes = len(found.lengths)
  return vars(found) | {
    "rewards": _make_span(found.raw_rewards.tolist()),
    "rewarded_share": float(np.mean(found.raw_rewards != 0)),
    "returns": _make_span(found.returns),
    "lengths": _make_span(found.lengths),
    "episodes": episodes,
    "terminated_share": found.terminations / max(episodes, 1),
    "steps_per_s": steps_per_s,
    "batch_steps_per_s": found.steps_per_s,
    "batch_size": random_play.ENVIRONMENTS,
    "unpredictable": formatting.to_finite(found.unpredictable),
  }


def _make_span(values: Sequence[float]) -> tuple[float, float, float] | None:
  """Returns the lowest, mean and highest of numbers; None if there is none."""
  if not values:
    return None
  return min(values), float(np.mean(values)), max(values)


def _describe(found: dict[str, typing.Any]) -> dict[str, str]:
  """Returns the rows about an environment, by label."""
  episodes, ended = found["episodes"], 100 * found["terminated_share"]
  ends = f"{ended:.0f} % terminated, {100 - ended:.0f} % truncated"
  seed = "reproducible" if found["is_reproducible"] else "not reproducible"
  starts = "vary with it" if found["starts_vary"] else "are all the same"
  rate = formatting.rate
  return {
    "observations": spaces.describe(found["observation_space"]),
    **dict(_describe_ranges(found)),
    "actions": spaces.describe(found["action_space"]),
    "legal actions": f"{100 * found['legal_share']:.0f} %",
    "rewards": f"{_describe_span(found['rewards'])} per step; "
    f"{100 * found['rewarded_share']:.3g} % of {found['steps']:,} are not 0",
    "returns": f"{_describe_span(found['returns'])} in {episodes:,} episodes",
    "lengths": f"{_describe_span(found['lengths'])} environment steps",
    "ends": ends if episodes else "none",
    "speed": f"{rate(found['steps_per_s'])} steps/s of one environment, "
    f"{rate(found['batch_steps_per_s'])} of {found['batch_size']} as one batch",
    "seed": f"{seed}; first observations {starts}",
  }


def _describe_ranges(
  found: dict[str, typing.Any],
) -> Iterator[tuple[str, str]]:
  """Yields a label and the ranges of the elements per part of observations."""
  low, high = (found[f"observation_{x}"].ravel() for x in ("low", "high"))
  for part in spaces.describe_layout(found["observation_space"]):
    columns = slice(part["start"], part["stop"])
    lows, highs = low[columns], high[columns]
    constant = int((lows == highs).sum())
    text = f"{lows.min():.3g} to {highs.max():.3g} in {lows.size:,} elements"
    if lows.size <= _MAX_ELEMENTS:
      pairs = zip(lows, highs, strict=True)
      text = ", ".join(f"{a:.3g} to {b:.3g}" for a, b in pairs)
    if constant:
      text += f"; {constant:,} did not change"
    yield f"range {part['key']}".strip(), text


def _describe_span(span: tuple[float, float, float] | None) -> str:
  """Returns the lowest, highest and mean value as text."""
  if span is None:
    return formatting.UNKNOWN
  low, mean, high = span
  if low == high:
    return f"always {mean:.4g}"
  return f"{low:.4g} to {high:.4g}, mean {mean:.4g}"


def _format(rows: dict[str, typing.Any]) -> str:
  """Returns rows as lines; a row with a list has its items, or is left out."""
  return "\n".join(
    line
    for label, texts in rows.items()
    for text in (texts if isinstance(texts, list) else [texts])
    for line in formatting.wrap_row(label, text)
  )


def _to_json(value: typing.Any) -> typing.Any:
  """Returns what JSON can hold of an array, a space or a spec."""
  if not isinstance(value, np.ndarray):
    return str(value)
  if value.size > _MAX_ELEMENTS:
    return [value.min().item(), value.max().item()]
  return value.tolist()


if __name__ == "__main__":
  sys.exit(main(sys.argv))
