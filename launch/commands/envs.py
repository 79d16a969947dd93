"""The command `slipway envs`, which measures an environment, or lists them."""

import fnmatch
from collections.abc import Iterator, Sequence

import numpy as np

from slipway.agents.networks import torsos
from slipway.configs import catalog, fields
from slipway.environments import (
  ids,
  probe_layers,
  random_play,
  spaces,
  user_code,
)
from slipway.launch.checks import environment_check, overrides, train_flags
from slipway.launch.checks import flags as flags_lib
from slipway.launch.diagnosis import environment, finding
from slipway.launch.display import formatting
from slipway.launch.processes import hung_process

# Text that begins the help.
_USAGE = (
  "Measures an environment under random play, in some seconds. The argument is "
  "a gymnasium id or module:Class; without one, registered environments are "
  "listed. --config.environment.FIELD=VALUE changes the environment as in "
  "`slipway train`.\n\n  slipway envs CartPole-v1"
)
_MAX_ELEMENTS = 16  # of an observation, whose ranges are listed


@user_code.exit_as_error()
def main(argv: Sequence[str]) -> None:
  """Measures one environment, or lists those registered.

  Raises:
    ValueError: there is no such environment.
    UserCodeError: the environment failed.
  """
  flags = flags_lib.Flags()
  line = flags.split(argv)
  if ("help", "true") in line.own:
    flags.show_help(_USAGE)
  changes = overrides.find_changes_of_environment(line.others)
  flags.reject([x for x in line.others if x not in changes], argv[0])
  if len(line.words) > 1 or (changes and not line.words):
    raise ValueError(
      f"{len(line.words)} environments are given, and the command measures "
      "one: give a gymnasium id or module:Class, such as CartPole-v1"
    )
  if line.words:
    rows = list(_measure(line.words[0], changes))
  else:
    rows = [(x, "  ".join(names)) for x, names in ids.list_registered().items()]
  for label, text in rows:
    print("\n".join(formatting.wrap_row(label, text)))


def _measure(name: str, changes: Sequence[str]) -> Iterator[tuple[str, str]]:
  """Yields the labels and texts of rows about an environment."""
  named = f"--{overrides.PREFIX}environment.name={name}"
  flags, config = train_flags.parse(
    ["slipway train", named, *changes],
    _USAGE,
    lambda x: environment_check.make_spec(x, "envs", lambda: None),
  )
  timeout_s = config.environment.step_timeout_s
  with hung_process.ending(timeout_s, 2, "envs", lambda: None):
    probe = random_play.play(config.environment)
    faults = probe_layers.find_faults(config.environment, probe)
  yield from _describe(probe)
  yield "config", flags.config
  for preset, (algorithm, *_) in catalog.presets().items():
    preset_config = catalog.algorithms()[algorithm].get_config(preset)
    pattern = preset_config.environment.name.replace("{game}", "*")
    if preset != "generic" and fnmatch.fnmatchcase(probe.name, pattern):
      yield "preset", preset
  evidence = finding.Evidence(config, probe=probe, faults=faults)
  for found in environment.check(evidence):
    yield found.severity, f"{found.name}: {found.sentence}"
  if advice := torsos.advise(fields.get(config, "network.torso"), probe.spec):
    yield "advice", advice


def _describe(probe: random_play.Probe) -> Iterator[tuple[str, str]]:
  """Yields the rows of the measurements."""
  low, high = probe.observation_low.ravel(), probe.observation_high.ravel()
  if low.size > _MAX_ELEMENTS:
    low, high = low.min(keepdims=True), high.max(keepdims=True)
  episodes, span = len(probe.lengths), _describe_span
  yield "environment", f"{probe.name}, played with random actions"
  yield "observations", spaces.describe(probe.observation_space)
  yield "range", ", ".join(map("{:.3g} to {:.3g}".format, low, high))
  yield "actions", spaces.describe(probe.action_space)
  if probe.legal_share < 1:
    yield "legal actions", f"{probe.legal_share:.0%}"
  share = np.mean(probe.raw_rewards != 0)
  yield "rewards", f"{span(probe.raw_rewards)} per step; {share:.1%} are not 0"
  yield "returns", f"{span(probe.returns)} in {episodes:,} episodes"
  yield "lengths", f"{span(probe.lengths)} environment steps"
  yield "ends", f"{probe.terminations:,} of {episodes:,} by termination"
  rate = formatting.rate(probe.steps_per_s)
  yield "speed", f"{rate} steps/s of {random_play.ENVIRONMENTS} environments"
  seed = "reproducible" if probe.is_reproducible else "not reproducible"
  starts = "vary with it" if probe.starts_vary else "are all the same"
  yield "seed", f"{seed}; first observations {starts}"


def _describe_span(values: Sequence[float] | np.ndarray) -> str:
  """Returns the lowest, highest and mean value as text."""
  if not len(values):
    return formatting.UNKNOWN
  low, mean, high = np.min(values), np.mean(values), np.max(values)
  return f"{low:.4g} to {high:.4g}, mean {mean:.4g}"
