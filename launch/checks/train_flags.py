"""Train flags: defines and parses the flags of `slipway train`."""

import math
import pathlib
import typing
from collections.abc import Collection, Mapping, Sequence

import ml_collections
from absl import flags
from ml_collections import config_flags

from slipway.configs import base
from slipway.configs import fields as fields_lib
from slipway.environments import ids
from slipway.launch.checks import flags as flags_lib
from slipway.launch.checks import overrides, run_config
from slipway.launch.runs import run_folder

# Module of launch/ with the launcher, by value of --launch.
LAUNCHES = {
  "local_mp": "launchers.local",
  "local_mt": "launchers.threads",
  "ray": "machines.launcher",
}
# Names of the flags that have an effect only with --launch=ray.
_RAY_FLAGS = ("ray_address", "wait_for_machines", "insecure")
# Spellings of the flag that is read before the others are defined.
_TRUST = ("--trust", "-trust", "--trust=true", "--trust=True")
# Names of the flags for new runs, which can't be combined with --resume.
_NEW_RUN_FLAGS = ("config", "name", "run_dir", "overwrite")


def define(
  argv: Sequence[str], config: ml_collections.ConfigDict
) -> flags.FlagValues:
  """Returns the flags of `slipway train`, before parsing.

  Args:
    argv: the program's name and its arguments; each --config.FIELD among them
      is defined as a flag, too.
    config: config of the new or resumed run, with the fields' default values;
      it is not changed.
  """
  values = flags.FlagValues()
  config_flags.DEFINE_config_dict(
    "config",
    config,
    "Config of the run: ALGORITHM:PRESET, such as apex_dqn:cartpole, or the "
    "path of a file and its preset, such as mine/a2c.py:cartpole. Each field "
    "of the config is a flag, too, such as --config.replay.capacity=50_000. "
    f"Default: {overrides.DEFAULT_CONFIG}.",
    flag_values=values,
    sys_argv=list(argv),
  )
  values["config"].default_as_str = ""  # would be all fields, as YAML
  flags.DEFINE_enum(
    "mode",
    None,
    base.MODES,
    "Schedule of the run: async, workers and trainer run at the same time, as "
    "fast as the rates allow; sync, they alternate in rounds of environment "
    "steps and updates; single, they alternate in one process without servers, "
    "bit-for-bit reproducible with a fixed seed. Default: the config's mode.",
    flag_values=values,
  )
  flags.DEFINE_string(
    "resume",
    None,
    "Folder of a run, runs/<name>, which is resumed from its newest snapshot, "
    "in the same folder and with the same config. --config.FIELD=VALUE changes "
    "fields on which the saved state does not depend. Can't be combined with "
    "--config, --name, --run_dir and --overwrite.",
    flag_values=values,
  )
  flags.DEFINE_string(
    "name",
    None,
    "Name of the run's folder inside --run_dir. Default: the config's name and "
    "the time.",
    flag_values=values,
  )
  flags.DEFINE_string(
    "run_dir",
    "runs",
    "Folder that contains the folders of all runs; created if it is missing.",
    flag_values=values,
  )
  flags.DEFINE_bool(
    "overwrite",
    False,
    "Replace the run of this name if there is one. Without this flag, the "
    "existing run is kept and the new run is rejected.",
    flag_values=values,
  )
  flags_lib.define_trust(values)
  flags.DEFINE_enum(
    "launch",
    "local_mp",
    list(LAUNCHES),
    "Placement of the nodes: local_mp, one process per node; local_mt, threads "
    "of one process, for a debugger; ray, processes on the machines of a Ray "
    "cluster. Can't be combined with --mode=single.",
    flag_values=values,
  )
  flags.DEFINE_string(
    "ray_address",
    None,
    "Address of the Ray cluster for --launch=ray, as HOST:PORT; this machine "
    "must belong to the cluster. Default: the environment variable "
    "RAY_ADDRESS.",
    flag_values=values,
  )
  flags.DEFINE_bool(
    "wait_for_machines",
    False,
    "With --launch=ray: wait until the cluster has all machines that the "
    "config's topology needs. Without this flag, the run is rejected.",
    flag_values=values,
  )
  flags.DEFINE_bool(
    "insecure",
    False,
    "With --launch=ray: accept a Ray cluster without TLS, whose machines then "
    "communicate in plaintext, too. Anyone on their network can read and "
    "change the run, and run programs: for private networks only.",
    flag_values=values,
  )
  flags.DEFINE_bool("help", False, "Show this help.", flag_values=values)
  return values


def parse(argv: Sequence[str], usage: str) -> flags.FlagValues:
  """Parses the command line of `slipway train`.

  Args:
    argv: the program's name and its arguments.
    usage: sentence that begins the help.

  Returns:
    The flags, of which `config` is the config of the new or resumed run with
    all overrides.

  Raises:
    ValueError: a flag or its value is invalid; the message suggests another.
    SystemExit: help was requested and printed.
  """
  line = overrides.split(argv)
  path = line.sources.get("config", overrides.DEFAULT_CONFIG)
  if flags_lib.requests_help(argv):
    config = overrides.load(path)
    return flags_lib.parse(
      define(argv[:1], config),
      argv,
      usage,
      epilogue=_describe_fields(path, config),
    )
  resume, argv = line.sources.get("resume"), line.argv
  if resume == "":
    raise ValueError(
      "--resume has no value, so there is no run to continue: give "
      "--resume=FOLDER, such as runs/first"
    )
  if resume is None:
    config = overrides.load(path)
  else:
    config = run_config.read(resume, any(x in _TRUST for x in argv))
    argv = [argv[0], f"--resume={resume}", *argv[1:]]
  fields = fields_lib.flatten(config)
  overrides.check_names(argv, fields)
  argv = overrides.quote_names(argv, fields)
  values = flags_lib.parse(define(argv, config), argv, usage, fields)
  if resume is not None:
    given = {name for name in _NEW_RUN_FLAGS if values[name].present}
    _check_resume_flags(resume, given | line.sources.keys())
  elif values["trust"].present:
    raise ValueError(
      "--trust is for --resume, and has no effect on a new run: leave it out"
    )
  overrides.check_items(values.config, fields)
  if not line.keeps_kwargs:
    values.config.environment.kwargs = ml_collections.ConfigDict()
  overrides.set_kwargs(values.config, line.kwargs)
  _check_game(values)
  if resume is None:
    _set_target(values, fields)
  _set_mode(values)
  if resume is None and values.name is None:
    values.name = _default_name(path, values.config, fields)
  return values


def _default_name(
  path: str,
  config: ml_collections.ConfigDict,
  before: Mapping[str, typing.Any],
) -> str:
  """Returns the default name of a run.

  It consists of the algorithm, the preset and the time. If the environment is
  overridden, its name takes the place of the preset.
  """
  name, _, task = path.partition(":")
  environment = config.environment
  if environment.name != before["environment.name"]:
    task = environment.name.rpartition(":")[2]
  elif environment.game != before["environment.game"]:
    task = environment.game
  return run_folder.make_name(pathlib.PurePath(name).stem, task)


def _set_target(
  values: flags.FlagValues, before: Mapping[str, typing.Any]
) -> None:
  """Replaces the config's target return if the environment is overridden.

  A preset's target is one of its own environment. For another environment, it
  may be out of reach, or met by a policy that has learned nothing. So the run
  gets the reward threshold with which this environment is registered, or no
  target, unless the user gives one.
  """
  config, flag = values.config, "config.limits.target_return"
  names = ("environment.name", "environment.game")
  is_same = all(fields_lib.get(config, x) == before[x] for x in names)
  if is_same or (flag in values and values[flag].present):
    return
  if math.isfinite(config.limits.target_return):
    threshold = ids.find_reward_threshold(config.environment)
    config.limits.target_return = math.inf if threshold is None else threshold


def _describe_fields(path: str, config: ml_collections.ConfigDict) -> str:
  """Returns the part of the help about a config's fields."""
  described = overrides.help_text(config, overrides.declared_fields(config))
  return f"Fields of --config={path}:\n\n{described}"


def _check_resume_flags(path: str, given: Collection[str]) -> None:
  """Checks that no flag for new runs is given with --resume."""
  for name in _NEW_RUN_FLAGS:
    if name in given:
      advice = (
        "change its fields one by one, --config.FIELD=VALUE"
        if name == "config"
        else "leave it out"
      )
      raise ValueError(
        f"--{name} is for a new run, and --resume={path} continues a run in "
        f"its folder and with its config: {advice}"
      )


def _check_game(values: flags.FlagValues) -> None:
  """Checks that a game on the command line is in the environment's name."""
  environment, flag = values.config.environment, "config.environment.game"
  is_given = flag in values and values[flag].present and environment.game
  if is_given and "{game}" not in str(environment.name):
    raise ValueError(
      f"--{flag}={environment.game} replaces {{game}} in "
      f"config.environment.name, which is {environment.name!r}, so it would "
      "have no effect: give --config.environment.name instead"
    )


def _set_mode(values: flags.FlagValues) -> None:
  """Sets the config's mode from --mode, and checks flags that depend on it."""
  if values.mode is not None:
    values.config.mode = values.mode
  if values.config.mode == "single" and values["launch"].present:
    raise ValueError(
      f"--launch={values.launch} places nodes, but mode 'single' has no nodes, "
      "so it would have no effect: leave it out, or give --mode=async"
    )
  for name in _RAY_FLAGS:
    if values[name].present and values.launch != "ray":
      raise ValueError(
        f"--{name} is for --launch=ray, and with --launch={values.launch} "
        "would have no effect: leave it out, or give --launch=ray"
      )
