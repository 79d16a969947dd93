"""Train flags: defines and parses the flags of `slipway train`."""

import itertools
import math
import pathlib
import typing
from collections.abc import Collection, Sequence

import ml_collections

from slipway.agents import core
from slipway.configs import base
from slipway.configs import fields as fields_lib
from slipway.environments import absent, arrays, factory, ids
from slipway.launch.checks import environment_check, overrides, run_config
from slipway.launch.checks import flags as flags_lib
from slipway.launch.runs import run_folder

# Module of launch/ with the launcher, by value of --launch.
LAUNCHES = {
  "local_mp": "launchers.local",
  "local_mt": "launchers.threads",
  "ray": "machines.launcher",
}
# Names of the flags that have an effect only with --launch=ray.
_RAY_FLAGS = ("ray_address", "wait_for_machines", "insecure")
# The modes in which fields have an effect, by the fields' names. Presets may
# set all of them, as a preset is for any mode.
_MODES_OF_FIELDS = {
  "evaluation.period_steps": ("single",),
  "sync.environment_steps": ("sync",),
  **dict.fromkeys(
    (
      *("evaluation.period_s", "evaluation.max_share"),
      *("restarts.budget", "restarts.period_s", "topology.proxy"),
      *("topology.replay", "variables.publish_period"),
    ),
    ("async", "sync"),
  ),
}
# Names of the flags for new runs, which can't be combined with --resume.
_NEW_RUN_FLAGS = ("config", "name", "run_dir", "overwrite")

# Fields of a categorical head's support of returns.
_SUPPORT = {"network.lowest_return", "network.highest_return", "network.atoms"}
# Lines about a config that was chosen, by the config.
_NOTICES = {
  "ppo:generic": "config: ppo:generic, which takes any actions, because none "
  "was given; dqn:generic (Discrete) often needs fewer environment steps",
  "sac:generic": "config: sac:generic, for continuous actions, because none "
  "was given; ppo:generic takes more environment steps in less time",
}


class Command(typing.NamedTuple):
  """A command line of `slipway train`.

  Attributes:
    flags: the flags, with the name of a new run.
    config: the config of the new or resumed run, with all overrides.
  """

  flags: flags_lib.Flags
  config: ml_collections.ConfigDict

  @property
  def notice(self) -> str:
    """A line for the user about a config that was chosen, or empty."""
    is_given = self.flags["config"].present
    return "" if is_given else _NOTICES.get(self.flags.config, "")


def define() -> flags_lib.Flags:
  """Returns the flags of `slipway train`, before parsing."""
  values = flags_lib.Flags()
  values.add_text(
    "config",
    None,
    "Config of the run: ALGORITHM:PRESET, such as dqn:cartpole, or the "
    "path of a file and its preset, such as mine/a2c.py:cartpole. Each field "
    "of the config is a flag, too, such as --config.replay.capacity=50_000. "
    f"Default: {overrides.DEFAULT_CONFIG}; with --config.environment.name, "
    "sac:generic if its actions are continuous, else ppo:generic.",
  )
  values.add_choice(
    "mode",
    None,
    base.MODES,
    "Schedule of the run: async, workers and trainer run at the same time, as "
    "fast as the rates allow; sync, they alternate in rounds of environment "
    "steps and updates; single, they alternate in one process without servers, "
    "bit-for-bit reproducible with a fixed seed. Default: the config's mode.",
  )
  values.add_text(
    "resume",
    None,
    "Folder of a run, runs/<name>, which is resumed from its newest snapshot, "
    "in the same folder and with the same config. --config.FIELD=VALUE changes "
    "fields on which the saved state does not depend. Can't be combined with "
    "--config, --name, --run_dir and --overwrite.",
  )
  values.add_text(
    "name",
    None,
    "Name of the run's folder inside --run_dir. Default: the config's name and "
    "the time.",
  )
  values.add_text(
    "run_dir",
    "runs",
    "Folder that contains the folders of all runs; created if it is missing.",
  )
  values.add_bool(
    "overwrite",
    False,
    "Replace the run of this name if there is one. Without this flag, the "
    "existing run is kept and the new run is rejected.",
  )
  values.add_bool(
    "dry_run",
    False,
    "Check everything, and show the nodes, table, networks, memory and rates, "
    "without a start and without a run folder.",
  )
  values.add_trust()
  values.add_choice(
    "launch",
    "local_mp",
    list(LAUNCHES),
    "Placement of the nodes: local_mp, one process per node; local_mt, threads "
    "of one process, for a debugger; ray, processes on the machines of a Ray "
    "cluster. Can't be combined with --mode=single.",
  )
  values.add_text(
    "ray_address",
    None,
    "Address of the Ray cluster for --launch=ray, as HOST:PORT; this machine "
    "must belong to the cluster. Default: the environment variable "
    "RAY_ADDRESS.",
  )
  values.add_bool(
    "wait_for_machines",
    False,
    "With --launch=ray: wait until the cluster has all machines that the "
    "config's topology needs. Without this flag, the run is rejected.",
  )
  values.add_bool(
    "insecure",
    False,
    "With --launch=ray: accept a Ray cluster without TLS, whose machines then "
    "communicate in plaintext, too. Anyone on their network can read and "
    "change the run, and run programs: for private networks only.",
  )
  values.add_integer(
    "prometheus_port",
    None,
    "Serve the run's status to Prometheus at http://127.0.0.1:PORT/metrics.",
    0,
    2**16 - 1,
  )
  return values


def parse(
  argv: Sequence[str],
  usage: str,
  make_spec: environment_check.SpecFunction = factory.make_spec,
) -> Command:
  """Parses the command line of `slipway train`.

  If it names an environment but no config, `make_spec` makes that environment,
  whose actions choose the config.

  Raises:
    ValueError: a flag or its value is invalid; the message suggests another.
    SystemExit: help was requested and printed.
    Exception: as `make_spec`.
  """
  flags = define()
  line = flags.split(argv)
  own = dict(line.own)
  given = list(filter(overrides.is_override, line.others))
  is_named = "environment.name" in map(overrides.get_field, given)
  default = (
    overrides.GENERIC_CONFIGS[False] if is_named else overrides.DEFAULT_CONFIG
  )
  if own.get("help") == "true":
    flags.show_help(usage, _describe_fields(own.get("config") or default))
  _check_sources(line.own)
  flags.set(line)
  is_open = flags.resume is None and flags.config is None
  if flags.resume is not None:
    config = run_config.read(flags.resume, flags.trust)
  else:
    flags.config = path = default if flags.config is None else flags.config
    config = overrides.load(path)
  others = itertools.filterfalse(overrides.is_override, line.others)
  flags.reject([*others, *line.words], argv[0], fields_lib.flatten(config))
  _check_resume(flags)
  if is_open and is_named:
    flags.config = _choose_config(given, make_spec)
    config = overrides.load(flags.config)
  environment = config.environment
  before = environment.name, environment.game
  command = Command(flags, config)
  try:
    changed = overrides.apply(config, given)
  except ValueError as error:
    if not command.notice:
      raise
    raise ValueError(
      f"{error} (the config is {flags.config}, because none was given)"
    ) from error
  _check_game(environment, changed)
  if not environment.name and core.is_recorded(config):
    absent.set_environment(environment, config.dataset.path, changed)
  if flags.mode is not None:
    config.mode = flags.mode
  _check_launch(flags, config.mode)
  _check_mode(config.mode, changed)
  if flags.resume is None:
    _adapt_to_task(flags, config, before, changed)
  return command


def _choose_config(
  given: Sequence[str], make_spec: environment_check.SpecFunction
) -> str:
  """Returns the generic config for the actions of the environment `given`."""
  # Overrides that suit none of these configs are rejected first, since making
  # the environment may take long.
  errors = []
  for path in overrides.GENERIC_CONFIGS.values():
    config = overrides.load(path)
    try:
      overrides.apply(config, given)
      fields_lib.validate(config, overrides.declared_fields(config))
      base.check_environment(config.environment)
      break
    except ValueError as error:
      errors.append(error)
  else:
    raise ValueError(
      f"{errors[0]} (the config is {overrides.GENERIC_CONFIGS[False]}, because "
      "none was given)"
    ) from errors[0]
  actions = make_spec(config.environment).actions
  is_continuous = arrays.component_sizes(actions) is None
  return overrides.GENERIC_CONFIGS[is_continuous]


def _check_sources(own: Sequence[tuple[str, str | None]]) -> None:
  """Checks that a config and a run to resume are named once."""
  for name in ("config", "resume"):
    first, *others = [text for flag, text in own if flag == name] or [None]
    if others:
      raise ValueError(
        f"--{name} is given twice, and {first!r} would have no effect: give "
        "one of them"
      )
    if name == "resume" and first == "":
      raise ValueError(
        "--resume has no value, so there is no run to continue: give "
        "--resume=FOLDER, such as runs/first"
      )


def _check_resume(flags: flags_lib.Flags) -> None:
  """Checks the flags that are for either new or resumed runs."""
  if flags.resume is None:
    if flags["trust"].present:
      raise ValueError(
        "--trust is for --resume, and has no effect on a new run: leave it out"
      )
    return
  for name in _NEW_RUN_FLAGS:
    if flags[name].present:
      advice = (
        "change its fields one by one, --config.FIELD=VALUE"
        if name == "config"
        else "leave it out"
      )
      raise ValueError(
        f"--{name} is for a new run, and --resume={flags.resume} continues a "
        f"run in its folder and with its config: {advice}"
      )


def _check_launch(flags: flags_lib.Flags, mode: str) -> None:
  """Checks the flags that depend on the mode or the launcher."""
  if mode == "single" and flags["launch"].present:
    raise ValueError(
      f"--launch={flags.launch} places nodes, but mode 'single' has no nodes, "
      "so it would have no effect: leave it out, or give --mode=async"
    )
  for name in _RAY_FLAGS:
    if flags[name].present and flags.launch != "ray":
      raise ValueError(
        f"--{name} is for --launch=ray, and with --launch={flags.launch} "
        "would have no effect: leave it out, or give --launch=ray"
      )


def _check_mode(mode: str, changed: Collection[str]) -> None:
  """Checks that fields on the command line have an effect in the mode."""
  for name, modes in _MODES_OF_FIELDS.items():
    if name in changed and mode not in modes:
      raise ValueError(
        f"--{overrides.PREFIX}{name} has no effect in mode {mode!r}: leave it "
        f"out, or give --mode={' or --mode='.join(modes)}"
      )


def _check_game(
  environment: ml_collections.ConfigDict, changed: Collection[str]
) -> None:
  """Checks that a game on the command line is in the environment's name."""
  is_given = "environment.game" in changed and environment.game
  if is_given and "{game}" not in str(environment.name):
    raise ValueError(
      f"--config.environment.game={environment.game} replaces {{game}} in "
      f"config.environment.name, which is {environment.name!r}, so it would "
      "have no effect: give --config.environment.name instead"
    )


def _adapt_to_task(
  flags: flags_lib.Flags,
  config: ml_collections.ConfigDict,
  before: tuple[str, str],
  changed: Collection[str],
) -> None:
  """Sets a new run's name, target return and support by its environment."""
  # A preset's target is one of its own environment. For another environment, it
  # may be out of reach, or met by a policy that has learned nothing. So the run
  # gets the reward threshold with which this environment is registered, or no
  # target. A preset's support of returns, too, is for its environment; without
  # one, atoms fit any returns.
  environment, limits = config.environment, config.limits
  algorithm, _, task = flags.config.partition(":")
  # A generic preset has no target, as its environment is yet to be named.
  is_generic = task == "generic"
  differs = (environment.name, environment.game) != before
  has_target = differs and math.isfinite(limits.target_return)
  if (is_generic or has_target) and "limits.target_return" not in changed:
    threshold = ids.find_reward_threshold(environment)
    limits.target_return = math.inf if threshold is None else threshold
  is_other = environment.name != before[0]
  if is_other and not (environment.reward_clip or _SUPPORT & {*changed}):
    ends = {"lowest_return": -math.inf, "highest_return": math.inf}
    config.network.update({x: ends[x] for x in ends if x in config.network})
  if is_generic or is_other:
    task = environment.name
  elif differs:
    task = environment.game
  if flags.name is None:
    algorithm = pathlib.PurePath(algorithm).stem
    flags.name = run_folder.make_name(algorithm, task.rpartition(":")[2])


def _describe_fields(path: str) -> str:
  """Returns the part of the help about a config's fields."""
  config = overrides.load(path)
  described = overrides.help_text(config, overrides.declared_fields(config))
  return f"Fields of --config={path}:\n\n{described}"
