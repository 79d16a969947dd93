"""Sweep plan: plans of sweeps, and the configs of their settings."""

import contextlib
import functools
import math
import os
import sys
from collections.abc import Sequence

import ml_collections
import psutil
from absl import flags as absl_flags

from slipway.environments import factory, ids, user_code
from slipway.launch import environment_check, train_flags, training
from slipway.launch.orchestration import limits
from slipway.launch.processes import descendants
from slipway.launch.sweeps import search, space, sweep_folder

# Flag without which runs would end as soon as they meet the config's target.
_NO_TARGET = "--config.limits.target_return=inf"


def make(
  flags: absl_flags.FlagValues, train_flags_given: Sequence[str]
) -> sweep_folder.Plan:
  """Returns the plan of a new sweep, after a check of its settings.

  Args:
    flags: the flags of `slipway sweep`.
    train_flags_given: the flags for `slipway train`.

  Raises:
    ValueError: a setting can't be trained.
  """
  given = {x.lstrip("-").partition("=")[0] for x in train_flags_given}
  if "config.seed" in given:
    raise ValueError(
      "--config.seed would give all runs the same seed: give --seeds=NUMBER "
      "or --first_seed=NUMBER"
    )
  no_target = [] if "config.limits.target_return" in given else [_NO_TARGET]
  if flags.search == "grid":
    for name in ("settings", "search_seed"):
      if flags[name].present:
        raise _make_grid_error(f"--{name}={flags[name].value}")
  plan = sweep_folder.Plan(
    flags=[*train_flags_given, *no_target],
    working_folder=os.getcwd(),
    vary=list(flags.vary),
    search=flags.search,
    search_seed=flags.search_seed,
    max_settings=flags.settings,
    seeds=_list_seeds(flags.first_seed, flags.seeds),
    ray_address=flags.ray_address or None,
    insecure=flags.insecure,
    at_once=flags.at_once,
  )
  searcher = make_search(plan)
  while (setting := searcher.ask(len(plan.settings))) is not None:
    plan.settings.append(setting)
    if plan.search == "optuna":
      break  # the next ones depend on scores
  # Once runs are active, an environment that hangs must not end this process.
  make_spec = functools.partial(
    environment_check.make_spec,
    command="sweep",
    clean_up=functools.partial(
      descendants.kill_children, psutil.Process().children()
    ),
  )
  for index in range(len(plan.settings)):
    check_setting(plan, index, make_spec)
  _check_insecure(plan)
  first = [*train_flags_given, *space.to_flags(plan.settings[0])]
  limits_config = train_flags.parse(["sweep", *first], "").config.limits
  plan.target_evaluations = limits_config.target_evaluations
  if math.isfinite(limits_config.target_return):
    plan.target_return = limits_config.target_return
  return plan


def extend(
  flags: absl_flags.FlagValues, plan: sweep_folder.Plan
) -> sweep_folder.Plan:
  """Changes the plan of a sweep that is resumed by the flags that are given.

  They add seeds and settings, and replace the machines that train the runs.
  Also enters the folder to which relative paths refer, if it still exists.

  Args:
    flags: the flags of `slipway sweep`.
    plan: the plan so far, which is changed and returned.

  Raises:
    ValueError: a flag would have no effect.
  """
  if flags["seeds"].present:
    _check_count("seeds", flags.seeds, len(plan.seeds))
    plan.seeds = _list_seeds(plan.seeds[0], flags.seeds)
  if flags["settings"].present:
    if plan.search == "grid":
      raise _make_grid_error(f"--settings={flags.settings}")
    _check_count("settings", flags.settings, len(plan.settings))
    plan.max_settings = flags.settings
  address = flags.ray_address or None
  if flags["ray_address"].present and address != plan.ray_address:
    plan.ray_address = address
    plan.insecure = False  # it was given for another cluster
  if flags["insecure"].present:
    plan.insecure = flags.insecure
  if flags["at_once"].present:
    plan.at_once = flags.at_once
  if os.path.isdir(plan.working_folder):
    os.chdir(plan.working_folder)
    sys.path.insert(0, plan.working_folder)
  _check_insecure(plan)
  return plan


def _make_grid_error(flag: str) -> ValueError:
  """Returns the error of a flag that a grid ignores."""
  return ValueError(
    f"{flag} would have no effect, since --search=grid trains all "
    "combinations: leave it out, or begin a sweep with --search=random or "
    "optuna"
  )


def _check_count(name: str, value: int, known: int) -> None:
  """Checks that a flag of a resume takes nothing away.

  Args:
    name: name of the flag.
    value: the flag's value.
    known: number of seeds or settings that the sweep has.

  Raises:
    ValueError: the value is smaller.
  """
  if value < known:
    raise ValueError(
      f"--{name}={value} would have no effect, since a resume keeps the "
      f"{known} {name} that the sweep has: give a larger number, or leave it "
      "out"
    )


def _check_insecure(plan: sweep_folder.Plan) -> None:
  """Checks that --insecure is given only for a cluster.

  Raises:
    ValueError: this machine trains the runs.
  """
  if plan.insecure and not plan.ray_address and not uses_ray(plan):
    raise ValueError(
      "--insecure is for a Ray cluster, and would have no effect on this "
      "machine: leave it out, or give --ray_address=HOST:PORT"
    )


def _list_seeds(first: int, count: int) -> list[int]:
  """Returns `count` seeds from `first` on."""
  return list(range(first, first + count))


def make_search(plan: sweep_folder.Plan) -> search.Search:
  """Returns the search of a plan, with the settings that it has chosen before.

  Raises:
    ValueError: --vary is invalid, or the search can't use it.
  """
  axes = [space.parse(text) for text in plan.vary]
  space.check(axes)
  given = {x.lstrip("-").partition("=")[0] for x in plan.flags}
  for axis in axes:
    is_choice = isinstance(axis, space.Choices)
    for name in axis.fields if is_choice else (axis.field,):
      if f"config.{name}" in given:
        raise ValueError(
          f"--config.{name} is given, and --vary replaces it in each run, so "
          "it would have no effect: leave one of them out"
        )
  return search.make(
    plan.search, axes, plan.max_settings, plan.search_seed, plan.settings
  )


def check_setting(
  plan: sweep_folder.Plan,
  index: int,
  make_spec: environment_check.SpecFunction = factory.make_spec,
) -> None:
  """Checks that a setting can be trained.

  Args:
    plan: the plan.
    index: index of the setting.
    make_spec: as for `training.check`.

  Raises:
    ValueError: it can't; the message names the setting.
  """
  setting = plan.settings[index]
  try:
    flags = parse(plan, index)
    training.check(flags, make_spec)
    if not limits.find_configured(flags.config.limits):
      raise ValueError(
        "the config has no limit, so the runs would never end: give "
        "--config.limits.environment_steps=NUMBER"
      )
  except ValueError as error:
    if not setting:
      raise
    raise ValueError(
      f"setting {index} ({space.describe(setting)}): {error}"
    ) from error


def place_uploads(
  folder: sweep_folder.SweepFolder, plan: sweep_folder.Plan, index: int
) -> space.Setting:
  """Returns a setting whose runs upload snapshots below the sweep's name.

  The runs of all sweeps have the same names, such as 0-1, so at the same URL
  they would replace one another's snapshots.

  Args:
    folder: the sweep's folder.
    plan: the sweep's plan.
    index: index of the setting.

  Raises:
    ValueError: a flag of the setting is invalid.
  """
  setting, url = plan.settings[index], parse(plan, index).config.snapshot.url
  if not url:
    return setting
  return {**setting, "snapshot.url": f"{url.rstrip('/')}/{folder.path.name}"}


def parse(plan: sweep_folder.Plan, index: int) -> absl_flags.FlagValues:
  """Returns the flags of `slipway train` for a setting of the plan.

  Raises:
    ValueError: a flag is invalid.
  """
  return parse_setting(plan, plan.settings[index])


def parse_setting(
  plan: sweep_folder.Plan, setting: space.Setting
) -> absl_flags.FlagValues:
  """Returns the flags of `slipway train` for any setting; see `parse`."""
  arguments = [*plan.flags, *space.to_flags(setting)]
  return train_flags.parse(["slipway train", *arguments], "")


def uses_ray(plan: sweep_folder.Plan) -> bool:
  """Returns whether each run uses all machines of a cluster (--launch=ray).

  Raises:
    ValueError: the flags of setting 0, which had to be valid, no longer are.
  """
  return parse(plan, 0).launch == "ray"


def list_flags(plan: sweep_folder.Plan) -> list[str]:
  """Returns the flags of `slipway train` for all runs of a plan.

  Raises:
    ValueError: as in `uses_ray`.
  """
  flags = list(plan.flags)
  if uses_ray(plan):
    # The last one counts: sweeps of older versions have one among the flags.
    if plan.ray_address:
      flags.append(f"--ray_address={plan.ray_address}")
    if plan.insecure:
      flags.append("--insecure")
  return flags


def list_configs(
  plan: sweep_folder.Plan,
) -> list[ml_collections.ConfigDict]:
  """Returns the configs of all settings whose flags are valid.

  Raises:
    ValueError: the flags of setting 0, which had to be valid, no longer are.
  """
  configs = [parse(plan, 0).config]
  for index in range(1, len(plan.settings)):
    with contextlib.suppress(ValueError, user_code.UserCodeError):
      configs.append(parse(plan, index).config)
  return configs


def find_environment(plan: sweep_folder.Plan, index: int) -> str:
  """Returns gymnasium's id of a setting's environment.

  Returns '' for a setting whose flags are invalid, which is never trained.
  """
  try:
    config = parse(plan, index).config
    return ids.get_name_and_kwargs(config.environment)[0]
  except (ValueError, user_code.UserCodeError):
    return ""
