"""Plan: what a sweep trains, and the checked configs of its settings."""

import functools
import math
import os
from collections.abc import Sequence

import ml_collections
import msgspec
import psutil

from slipway.configs import base, fields
from slipway.launch.checks import environment_check, run_check, train_flags
from slipway.launch.checks import flags as flags_lib
from slipway.launch.checks import overrides as overrides_lib
from slipway.launch.control import limits
from slipway.launch.processes import descendants
from slipway.launch.sweeps import scoring, space, sweep_flags

# Flags of `slipway train` that place a run's nodes; all others make its config.
_PLACING = ("launch", "wait_for_machines")


class Plan(msgspec.Struct, dict=True):  # dict: caches properties
  """What a sweep trains.

  Attributes:
    arguments: those of `slipway sweep`, also flags of `slipway train` for all
      runs. A resume adds others, which replace earlier ones.
    working_folder: folder to which relative paths refer.
    module_folders: folders of user modules that the settings' configs name.
    target: mean return of setting 0's target, infinite without one.
    target_evaluations: number of evaluations in a row that meet the target.
  """

  arguments: list[str]
  working_folder: str
  module_folders: list[str] = []
  target: float = math.inf
  target_evaluations: int = 1

  @functools.cached_property
  def flags(self) -> flags_lib.Flags:
    """Values of the flags of `slipway sweep`."""
    flags = sweep_flags.define()
    flags.parse_known(["slipway sweep", *self.arguments], "")
    return flags

  @functools.cached_property
  def _train_arguments(self) -> list[str]:
    """The flags of `slipway train` for all runs."""
    return sweep_flags.define().split(["", *self.arguments]).others

  @functools.cached_property
  def _train_line(self) -> flags_lib.CommandLine:
    return train_flags.define().split(["", *self._train_arguments])

  @functools.cached_property
  def make_spec(self) -> environment_check.SpecFunction:
    """Function that makes environments; one that hangs ends this process."""
    children = psutil.Process().children()
    clean_up = functools.partial(descendants.kill_children, children)
    return environment_check.remember(
      functools.partial(
        environment_check.make_spec, command="sweep", clean_up=clean_up
      )
    )

  @property
  def seeds(self) -> Sequence[int]:
    """The seeds with which each setting is trained."""
    first = self.flags.first_seed
    return range(first, first + self.flags.seeds)

  @functools.cached_property
  def axes(self) -> list[space.Axis]:
    """The axes of the space."""
    return space.parse(self.flags.vary)

  @property
  def is_on_all_machines(self) -> bool:
    """Whether each run uses all machines of a cluster (--launch=ray)."""
    return dict(self._train_line.own).get("launch") == "ray"

  def list_placing_flags(self) -> list[str]:
    """Returns the flags of `slipway train` that place the nodes of each run."""
    flags = {x: y for x, y in self._train_line.own if x in _PLACING}
    if self.is_on_all_machines and self.flags.ray_address:
      flags["ray_address"] = self.flags.ray_address
    if self.is_on_all_machines and self.flags.insecure:
      flags["insecure"] = "true"
    return [f"--{name}={value}" for name, value in flags.items()]

  def extended(self, given: flags_lib.CommandLine, settings: int) -> "Plan":
    """Returns the plan of a sweep that is resumed.

    The given flags add seeds and settings, to the number of settings so far,
    and replace the machines that train the runs.

    Raises:
      ValueError: a flag would have no effect.
    """
    words = [f"--{name}={x}" for name, x in given.own if name != "resume"]
    address = dict(given.own).get("ray_address", self.flags.ray_address)
    if (address or None) != (self.flags.ray_address or None):
      # --insecure was given for the cluster of before.
      words.insert(0, "--noinsecure")
    new = msgspec.structs.replace(self, arguments=[*self.arguments, *words])
    for name, known in (("seeds", len(self.seeds)), ("settings", settings)):
      if name in dict(given.own) and getattr(new.flags, name) < known:
        raise ValueError(
          f"--{name}={getattr(new.flags, name)} would have no effect, since a "
          f"resume keeps the {known} {name} that the sweep has: give a larger "
          "number, or leave it out"
        )
    new.check()
    return new

  def check(self) -> None:
    """Raises ValueError if flags exclude one another, or have no effect."""
    flags, line = self.flags, self._train_line
    varied = [field for axis in self.axes for field in axis.fields]
    given = {name for name, _ in line.own}
    given |= {*map(overrides_lib.get_field, line.others)}
    if "seed" in (*given, *varied):
      raise ValueError(
        "config.seed is that of --first_seed and those after it, so another "
        "one would have no effect: give --seeds=NUMBER or --first_seed=NUMBER"
      )
    if "prometheus_port" in given:
      raise ValueError(
        "--prometheus_port is that of one run, and would have no effect in a "
        "sweep: leave it out; each run has its numbers for TensorBoard"
      )
    if "dry_run" in given:
      raise ValueError(
        "--dry_run is for `slipway train`, whose runs a sweep would not start: "
        "leave it out"
      )
    if flags.search != "grid" and not flags.vary:
      raise ValueError(
        f"--search={flags.search} has nothing to choose from: give --vary, "
        "such as --vary=learner.learning_rate=log:1e-5..1e-2"
      )
    for name in varied:
      if name in given:
        raise ValueError(
          f"--{space.to_flag_name(name)} is given, and --vary replaces it in "
          "each run, so it would have no effect: leave one of them out"
        )
    for name in ("settings", "search_seed"):
      if flags.search == "grid" and flags[name].present:
        raise ValueError(
          f"--{name}={flags[name].value} would have no effect, since "
          "--search=grid trains all combinations: leave it out, or begin a "
          "sweep with --search=random or tpe"
        )
    if flags.insecure and not flags.ray_address and not self.is_on_all_machines:
      raise ValueError(
        "--insecure is for a Ray cluster, and would have no effect on this "
        "machine: leave it out, or give --ray_address=HOST:PORT"
      )

  def list_first_settings(self) -> list[space.Params]:
    """Returns the settings that do not depend on scores.

    Raises:
      ValueError: the search can't use the axes.
    """
    search = self.flags.search
    if search == "grid":
      return space.make_grid(self.axes)
    number = 1 if search == "tpe" else self.flags.settings
    return space.sample_different(self.axes, number, self.flags.search_seed)

  def make_config(
    self, index: int, params: space.Params, with_environment: bool
  ) -> ml_collections.ConfigDict:
    """Returns the checked config of a setting's runs, but for the seed.

    Args:
      index: index of the setting, of which 0 sets the plan's target.
      with_environment: whether to try the user's code, too, which may hang.

    Raises:
      ValueError: the setting can't be trained; the message names it.
      user_code.UserCodeError: the environment or the algorithm has failed.
    """
    setting = space.to_setting(self.axes, params)
    varied = [f"--{space.to_flag_name(x)}={y}" for x, y in setting.items()]
    argv = ["slipway train", *varied, *self._train_arguments]
    try:
      flags, config = train_flags.parse(argv, "", self.make_spec)
      if with_environment:
        run_check.check(config, flags.launch, self.make_spec)
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
    given = {*map(overrides_lib.get_field, self._train_line.others)}
    for name in ("target_return", "target_info"):
      if f"limits.{name}" not in given:
        own[name] = base.FIELDS[f"limits.{name}"].default
    if not limits.find_configured(own):
      raise ValueError(
        "the config has no limit, so the runs would never end: give "
        "--config.limits.environment_steps=NUMBER"
      )
    if self.flags.prune and not scoring.list_progress_limits(own):
      raise ValueError(
        "--prune compares runs at tenths of a limit of steps or time, and the "
        "config has none, so it would have no effect: give "
        "--config.limits.environment_steps=NUMBER, or leave --prune out"
      )


def make(line: flags_lib.CommandLine) -> Plan:
  """Returns the plan of a new sweep, whose command line has no words.

  Raises:
    ValueError: flags exclude one another, or --vary is invalid.
  """
  own = [f"--{name}={value}" for name, value in line.own]
  plan = Plan([*line.others, *own], os.getcwd())
  plan.check()
  return plan
