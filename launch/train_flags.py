"""The flags of `slipway train`: a new run's, or a run's that goes on."""

import pathlib
import typing
from collections.abc import Collection, Mapping, Sequence

import ml_collections
from absl import flags
from ml_collections import config_flags

from slipway.configs import base
from slipway.configs import fields as fields_lib
from slipway.launch import run_config
from slipway.launch.options import flags as flags_lib
from slipway.launch.options import overrides
from slipway.launch.runs import run_folder

# Where the nodes run: the module of launch/ that sees to it.
LAUNCHES = {
  "local_mp": "local",
  "local_mt": "local_threads",
  "ray": "on_machines",
}
_OF_RAY = ("ray_address", "wait_for_machines", "insecure")
# What a run that is resumed has already.
_OF_A_NEW_RUN = ("config", "name", "run_dir", "overwrite")


def define(
  argv: Sequence[str], config: ml_collections.ConfigDict
) -> flags.FlagValues:
  """Defines the flags of `slipway train`; returns them, unparsed.

  Args:
    argv: what will be parsed; its overrides of the config become flags.
    config: of a new run, or of the run that is resumed; not changed.
  """
  values = flags.FlagValues()
  config_flags.DEFINE_config_dict(
    "config",
    config,
    "The experiment, ALGORITHM:PRESET, such as apex_dqn:cartpole, or the path "
    "of a file, mine/a2c.py:cartpole. Each of its fields is a flag, too: "
    "--config.replay.capacity=50_000.",
    flag_values=values,
    sys_argv=list(argv),
  )
  flags.DEFINE_enum(
    "mode",
    None,
    base.MODES,
    "Who works when: async, workers and trainer at once, as fast as the rates "
    "allow; sync, in turns, a round of environment steps and then the updates "
    "that it grants; single, one after the other in one process without "
    "servers, equal to the bit for a seed. By default what the config says.",
    flag_values=values,
  )
  flags.DEFINE_string(
    "resume",
    None,
    "Folder of a run, runs/<name>, that goes on from its newest snapshot, in "
    "that folder and with its config; --config.FIELD=VALUE changes what the "
    "saved state can follow. In place of --config, --name, --run_dir and "
    "--overwrite.",
    flag_values=values,
  )
  flags.DEFINE_string(
    "name",
    None,
    "Name of the run's folder below --run_dir. By default the config's name "
    "and the time.",
    flag_values=values,
  )
  flags.DEFINE_string(
    "run_dir",
    "runs",
    "Folder that holds the folders of all runs; made if it is missing.",
    flag_values=values,
  )
  flags.DEFINE_bool(
    "overwrite",
    False,
    "Replace the run of this name if there is one. Without it, an existing "
    "run is left alone and the new one refused.",
    flag_values=values,
  )
  flags.DEFINE_enum(
    "launch",
    "local_mp",
    list(LAUNCHES),
    "Where the nodes run: local_mp, each in a process of its own; local_mt, "
    "as threads of one process, for a debugger; ray, on the machines of a Ray "
    "cluster. Not with --mode=single.",
    flag_values=values,
  )
  flags.DEFINE_string(
    "ray_address",
    None,
    "HOST:PORT of the Ray cluster for --launch=ray, of which this machine is "
    "one. By default what the environment's RAY_ADDRESS says.",
    flag_values=values,
  )
  flags.DEFINE_bool(
    "wait_for_machines",
    False,
    "With --launch=ray: wait until the cluster has the machines that the "
    "config's topology needs, instead of refusing.",
    flag_values=values,
  )
  flags.DEFINE_bool(
    "insecure",
    False,
    "With --launch=ray: let machines talk without certificates, and use a Ray "
    "cluster without tokens. Anybody who reaches them can then read and write "
    "the run, and run programs: on a private network only.",
    flag_values=values,
  )
  flags.DEFINE_bool("help", False, "Show this help.", flag_values=values)
  return values


def parse(argv: Sequence[str], usage: str) -> flags.FlagValues:
  """Parses a command line of `slipway train`.

  Args:
    argv: the program's name and its arguments.
    usage: one sentence for the help.

  Raises:
    ValueError: one line with the flag, its value and what is near it.
    SystemExit: help was asked for and printed.
  """
  line = overrides.split(argv)
  path = line.sources.get("config", overrides.DEFAULT_CONFIG)
  if flags_lib.asks_for_help(argv):
    config = _load(path)
    return flags_lib.parse(
      define(argv[:1], config), argv, usage, epilogue=_fields(path, config)
    )
  resume, argv = line.sources.get("resume"), line.argv
  if resume is None:
    config = _load(path)
  else:
    config = run_config.read(resume)
    argv = [argv[0], f"--resume={resume}", *argv[1:]]
  fields = fields_lib.flatten(config)
  overrides.check_names(argv, fields)
  argv = overrides.quote_names(argv, fields)
  values = flags_lib.parse(define(argv, config), argv, usage, fields)
  if resume is not None:
    given = {name for name in _OF_A_NEW_RUN if values[name].present}
    _check_resumes(resume, given | line.sources.keys())
  overrides.check_items(values.config, fields)
  overrides.set_kwargs(values.config, line.kwargs)
  _set_mode(values)
  if resume is None and values.name is None:
    values.name = _default_name(path, values.config, fields)
  return values


def _default_name(
  path: str,
  config: ml_collections.ConfigDict,
  before: Mapping[str, typing.Any],
) -> str:
  """Returns a run's name: algorithm, preset or environment, and time.

  Args:
    path: value of --config.
    config: with the overrides.
    before: fields of the config without them.
  """
  name, _, task = path.partition(":")
  environment = config.environment
  if environment.name != before["environment.name"]:
    task = environment.name.rpartition(":")[2]
  elif environment.game != before["environment.game"]:
    task = environment.game
  return run_folder.make_name(pathlib.PurePath(name).stem, task)


def _load(path: str) -> ml_collections.ConfigDict:
  """Returns the config of --config=`path`, which has the fields that it must.

  Its values are checked after the overrides: some have no default that could be
  used.

  Raises:
    ValueError: one line that names the file.
  """
  config = overrides.load(path)
  try:
    fields_lib.check_names(config, overrides.declared(config))
  except ValueError as error:
    raise ValueError(f"--config={path}: {error}") from error
  return config


def _fields(path: str, config: ml_collections.ConfigDict) -> str:
  """Returns the help of the fields of the config of --config=`path`."""
  described = overrides.help_text(config, overrides.declared(config))
  return f"Fields of --config={path}:\n\n{described}"


def _check_resumes(path: str, given: Collection[str]) -> None:
  """Raises ValueError, one line, for a flag that belongs to a new run."""
  for name in _OF_A_NEW_RUN:
    if name in given:
      advice = (
        "change its fields one by one, --config.FIELD=VALUE"
        if name == "config"
        else "leave it out"
      )
      raise ValueError(
        f"--{name} is for a new run, and --resume={path} goes on with one, in "
        f"its folder and with its config: {advice}"
      )


def _set_mode(values: flags.FlagValues) -> None:
  """Gives the config the mode of its flag, and compares it with --launch.

  Raises:
    ValueError: one line: there is nothing that could be launched.
  """
  if values.mode is not None:
    values.config.mode = values.mode
  if values.config.mode == "single" and values["launch"].present:
    raise ValueError(
      f"--launch={values.launch} says where nodes run, and mode 'single' has "
      "none, so it would do nothing: leave it out, or give --mode=async"
    )
  for name in _OF_RAY:
    if values[name].present and values.launch != "ray":
      raise ValueError(
        f"--{name} is for --launch=ray, and with --launch={values.launch} "
        "would do nothing: leave it out, or give --launch=ray"
      )
