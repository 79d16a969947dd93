"""Plan: what a sweep trains, and the checked configs of its settings."""

import functools
import math
import os
import sys
import typing
from collections.abc import Sequence

import ml_collections
import msgspec
import psutil
from absl import flags as absl_flags

from slipway.configs import fields
from slipway.launch.checks import environment_check, run_check, train_flags
from slipway.launch.checks import flags as flags_lib
from slipway.launch.checks import overrides as overrides_lib
from slipway.launch.control import limits
from slipway.launch.processes import descendants
from slipway.launch.sweeps import scoring, space

# Flags of `slipway train` that place a run's nodes; all others make its config.
_PLACING = ("launch", "wait_for_machines")


class Plan(msgspec.Struct, dict=True):  # dict: caches `axes`
  """What a sweep trains.

  Attributes:
    overrides: values of flags of `slipway train` for all runs, as text by name,
      such as 'config' and 'config.limits.environment_steps'.
    working_folder: folder to which relative paths refer.
    module_folders: folders of user modules that the settings' configs name.
    vary: the axes of the space, as values of --vary.
    search: name of the search.
    search_seed: seed of the search.
    max_settings: number of settings of a search that is no grid.
    prune: whether settings are stopped early whose runs fall behind.
    seeds: the seeds with which each setting is trained.
    target: mean return of setting 0's target, infinite without one.
    target_evaluations: number of evaluations in a row that meet the target.
    ray_address: 'host:port' of the Ray cluster that trains the runs, or None.
    insecure: whether a cluster without a token or without TLS is accepted.
    at_once: number of runs that are trained at the same time, or None for what
      the cores allow.
  """

  overrides: dict[str, str]
  working_folder: str
  vary: list[str]
  search: typing.Literal["grid", "random", "tpe"]
  search_seed: int
  max_settings: int
  prune: bool
  seeds: typing.Annotated[list[int], msgspec.Meta(min_length=1)]
  ray_address: str | None
  insecure: bool
  at_once: int | None
  target: float = math.inf
  target_evaluations: int = 1
  module_folders: list[str] = []

  @property
  def is_on_all_machines(self) -> bool:
    """Whether each run uses all machines of a cluster (--launch=ray)."""
    return self.overrides.get("launch") == "ray"

  @functools.cached_property
  def axes(self) -> list[space.Axis]:
    """The axes of the space."""
    return space.parse(self.vary)

  def list_placing_flags(self) -> list[str]:
    """Returns the flags of `slipway train` that place the nodes of each run."""
    flags = {x: self.overrides[x] for x in _PLACING if x in self.overrides}
    if self.is_on_all_machines and self.ray_address:
      flags["ray_address"] = self.ray_address
    if self.is_on_all_machines and self.insecure:
      flags["insecure"] = "true"
    return [f"--{name}={value}" for name, value in flags.items()]

  def list_first_settings(self) -> list[space.Params]:
    """Returns the settings that do not depend on scores.

    Raises:
      ValueError: the search can't use the axes.
    """
    if self.search == "grid":
      return space.make_grid(self.axes)
    number = 1 if self.search == "tpe" else self.max_settings
    return space.sample_different(self.axes, number, self.search_seed)

  def make_config(
    self, index: int, params: space.Params, with_environment: bool
  ) -> ml_collections.ConfigDict:
    """Returns the checked config of a setting's runs, but for the seed.

    Args:
      index: index of the setting, of which 0 sets the plan's target.
      params: the setting.
      with_environment: whether to try the user's code, too, which may hang.

    Raises:
      ValueError: the setting can't be trained; the message names it.
      user_code.UserCodeError: the environment or the algorithm has failed.
    """
    setting = space.to_setting(self.axes, params)
    values = dict(self.overrides)
    values |= {space.to_flag_name(x): value for x, value in setting.items()}
    words = [f"--{name}={value}" for name, value in values.items()]
    try:
      flags = train_flags.parse(["slipway train", *words], "")
      config = flags.config
      if with_environment:
        run_check.check(flags, _make_spec)
      else:
        fields.validate(config, overrides_lib.declared_fields(config))
      self._set_limits(index, config.limits)
    except ValueError as error:
      text = f"setting {index} ({space.describe(setting)}): " if setting else ""
      raise ValueError(f"{text}{error}") from error
    return config

  def _set_limits(self, index: int, own: ml_collections.ConfigDict) -> None:
    """Removes a config's own target, and checks that its runs will end."""
    if index == 0:
      self.target = own.target_return
      self.target_evaluations = own.target_evaluations
    if "config.limits.target_return" not in self.overrides:
      own.target_return = math.inf
    if not limits.find_configured(own):
      raise ValueError(
        "the config has no limit, so the runs would never end: give "
        "--config.limits.environment_steps=NUMBER"
      )
    if self.prune and not scoring.list_progress_limits(own):
      raise ValueError(
        "--prune compares runs at tenths of a limit of steps or time, and the "
        "config has none, so it would have no effect: give "
        "--config.limits.environment_steps=NUMBER, or leave --prune out"
      )


def make(flags: absl_flags.FlagValues, others: Sequence[str]) -> Plan:
  """Returns the plan of a new sweep.

  Args:
    flags: the flags of `slipway sweep`.
    others: further arguments, which are flags of `slipway train`.

  Raises:
    ValueError: flags exclude one another, or --vary is invalid.
  """
  plan = Plan(
    overrides=_to_overrides(others),
    working_folder=os.getcwd(),
    vary=flags.vary,
    search=flags.search,
    search_seed=flags.search_seed,
    max_settings=flags.settings,
    prune=flags.prune,
    seeds=[*range(flags.first_seed, flags.first_seed + flags.seeds)],
    ray_address=flags.ray_address or None,
    insecure=flags.insecure,
    at_once=flags.at_once,
  )
  varied = [space.to_flag_name(x) for axis in plan.axes for x in axis.fields]
  if "config.seed" in (*plan.overrides, *varied):
    raise ValueError(
      "config.seed is that of --first_seed and those after it, so another one "
      "would have no effect: give --seeds=NUMBER or --first_seed=NUMBER"
    )
  if plan.search != "grid" and not plan.vary:
    raise ValueError(
      f"--search={plan.search} has nothing to choose from: give --vary, such "
      "as --vary=learner.learning_rate=log:1e-5..1e-2"
    )
  for name in varied:
    if name in plan.overrides:
      raise ValueError(
        f"--{name} is given, and --vary replaces it in each run, so it would "
        "have no effect: leave one of them out"
      )
  _check(flags, plan)
  return plan


def extend(flags: absl_flags.FlagValues, plan: Plan, settings: int) -> None:
  """Changes the plan of a sweep that is resumed by the flags that are given.

  They add seeds and settings, and replace the machines that train the runs.
  Also enters the folder to which relative paths refer, if it still exists.

  Args:
    flags: the flags of `slipway sweep`.
    plan: the plan so far, which is changed.
    settings: number of settings so far.

  Raises:
    ValueError: a flag would have no effect.
  """
  given: dict[str, typing.Any] = {
    name: flags[name].value for name in flags if flags[name].present
  }
  for name, known in (("seeds", len(plan.seeds)), ("settings", settings)):
    if given.get(name, known) < known:
      raise ValueError(
        f"--{name}={given[name]} would have no effect, since a resume keeps "
        f"the {known} {name} that the sweep has: give a larger number, or "
        "leave it out"
      )
  seeds = given.get("seeds", len(plan.seeds))
  plan.seeds = [*range(plan.seeds[0], plan.seeds[0] + seeds)]
  plan.max_settings = given.get("settings", plan.max_settings)
  plan.at_once = given.get("at_once", plan.at_once)
  address = given.get("ray_address", plan.ray_address) or None
  # --insecure was given for the cluster of before.
  is_same = address == plan.ray_address
  plan.insecure = given.get("insecure", plan.insecure and is_same)
  plan.ray_address = address
  _check(flags, plan)
  if os.path.isdir(plan.working_folder):
    os.chdir(plan.working_folder)
  sys.path[:0] = plan.module_folders


def _check(flags: absl_flags.FlagValues, plan: Plan) -> None:
  """Raises ValueError if a flag has no effect with this plan."""
  for name in ("settings", "search_seed"):
    if plan.search == "grid" and flags[name].present:
      raise ValueError(
        f"--{name}={flags[name].value} would have no effect, since "
        "--search=grid trains all combinations: leave it out, or begin a sweep "
        "with --search=random or tpe"
      )
  if plan.insecure and not plan.ray_address and not plan.is_on_all_machines:
    raise ValueError(
      "--insecure is for a Ray cluster, and would have no effect on this "
      "machine: leave it out, or give --ray_address=HOST:PORT"
    )


def _to_overrides(arguments: Sequence[str]) -> dict[str, str]:
  """Returns flags as values by name; a value may be an argument of its own."""
  found: dict[str, str] = {}
  name = ""
  for argument in arguments:
    if not argument.startswith("-") or flags_lib.is_number(argument):
      found[name] = argument
      continue
    flag, given, value = argument.partition("=")
    name = flag.lstrip("-")
    if not given and name.startswith(("noconfig.", "nowait_")):
      name, value = name.removeprefix("no"), "false"
    found[name] = value if given else value or "true"
  return found


def _make_spec(config: ml_collections.ConfigDict):
  """Returns the spec of an environment; one that hangs ends this process."""
  children = psutil.Process().children()
  clean_up = functools.partial(descendants.kill_children, children)
  return environment_check.make_spec(config, "sweep", clean_up)
