"""Base: the config fields that all algorithms share."""

import math
import re
import typing

import ml_collections

from slipway.configs import checks, fields, typed_config

Field = fields.Field

# The valid values of the config field "mode", the schedule of a run.
MODES = ("async", "sync", "single")

# The longest valid duration of a config field, in seconds: 31 years. Python's
# timers overflow at 292 years.
_LONGEST_S = 1e9

# Names of the limits that only an evaluation can reach.
EVALUATION_LIMITS = (
  "target_return",
  "target_info",
  "evaluations_without_improvement",
)

# Number of the last evaluations whose mean returns a run keeps.
RETURNS_KEPT = 100


def _is_shared_place(url: str) -> bool:
  # '::' would chain file systems of fsspec.
  # No other process can read memory://.
  place = r"/+[^/].*|file:///+[^/].*|(?!file:|memory:)\w+://[^/].*|"
  return "::" not in url and re.fullmatch(place, url) is not None


def _is_info_target(text: str) -> bool:
  name, _, value = text.rpartition(":")
  try:
    return not text or (bool(name) and math.isfinite(float(value)))
  except ValueError:
    return False


# Declarations, by dotted name, of the config fields that all algorithms share.
FIELDS: fields.Fields = {
  "agent": Field(
    "",
    "algorithm family: a folder of agents/, or 'module:Name' of the user's own "
    "builder",
    checks.Check(bool, "a name", "there would be no learner", ""),
  ),
  "mode": Field(
    "async",
    "schedule of the run: 'async', workers and trainer run at the same time; "
    "'sync', they alternate; 'single', one process does all; set by --mode",
    checks.one_of(MODES, "the run would have no schedule"),
  ),
  "seed": Field(
    1,
    "seed of all random number generators of the run",
    checks.at_least(
      0, "random generators take no negative seed", most=2**31 - 1
    ),
  ),
  "hooks": Field(
    (),
    "callbacks at the run's start, evaluations, snapshots and end: 'wandb', "
    "'mlflow', or 'module:name' of a function or class",
    checks.Check(
      all, "non-empty names", "an empty name refers to no hook", ("",)
    ),
  ),
  # The environment.
  "environment.name": Field(
    "CartPole-v1",
    "gymnasium id or 'module:Class' of the environment; {game} in it is "
    "replaced by environment.game; '': none, for a run on recorded episodes "
    "without evaluations, whose spaces are those of dataset.path",
  ),
  "environment.game": Field(
    "", "name of the game that replaces {game} in environment.name"
  ),
  "environment.action_mask": Field(
    False,
    "whether the environment's reset and step return info['action_mask'], so "
    "that actors choose legal actions only",
  ),
  "environment.kwargs": Field(
    {}, "keyword arguments of the environment's constructor, by name"
  ),
  "environment.wrappers": Field(
    (),
    "environment wrappers as 'module:Name', the innermost first; each is "
    "called with the environment that it wraps",
    checks.Check(
      lambda names: all(0 < x.find(":") < len(x) - 1 for x in names),
      "names of the form 'module:Name'",
      "other names can't be imported",
      ("Name",),
    ),
  ),
  "environment.frame_skip": Field(
    1,
    "frames for which each action is repeated, with summed rewards, inside of "
    "the wrappers; for ALE/* ids, set environment.kwargs.frameskip instead",
    checks.at_least(1, "no action would be taken", most=10_000),
  ),
  "environment.frame_stack": Field(
    0,
    "number of latest observations that are stacked along a new first axis, "
    "outside of the wrappers; 0: no stacking; for ALE/* ids, set environment."
    "kwargs.stack_num instead",
    checks.at_least(
      0, "there would be no observation", "0: no stacking", most=255
    ),
  ),
  "environment.time_limit": Field(
    0,
    "environment steps after which an episode is truncated; 0: the "
    "environment's own limit",
    checks.at_least(
      0, "no episode would begin", "0: the environment's own limit", most=10**8
    ),
  ),
  "environment.reward_scale": Field(
    1.0,
    "factor by which the rewards for learning are multiplied; reported "
    "returns are not scaled",
    checks.above(0, "rewards would be zero or change their sign", most=1e6),
  ),
  "environment.reward_clip": Field(
    0.0,
    "largest absolute reward for learning, to which scaled rewards are "
    "clipped; reported returns are not clipped; 0: no clipping",
    checks.at_least(
      0, "an absolute reward is never negative", "0: no clipping"
    ),
  ),
  "environment.external": Field(
    False,
    "whether processes outside of the run step the environment; environment."
    "name then only defines the spaces, without workers and evaluator",
  ),
  "environment.asynchronous": Field(
    False,
    "whether each environment of a worker steps in its own thread, for "
    "environments that wait for a device or a server",
  ),
  "environment.step_timeout_s": Field(
    0.0,
    "seconds after which an environment's step or reset counts as hanging, so "
    "that its process is restarted; 0: no limit",
    checks.Check(
      lambda x: x == 0 or 0.05 <= x <= _LONGEST_S,
      f"0.05 to {_LONGEST_S:g} (0: no limit)",
      "steps are inspected 20 times a second at most, and no timer runs longer",
      -1.0,
    ),
  ),
  # Processes and machines.
  "topology.workers": Field(
    1,
    "number of worker processes, with --launch=ray per machine; 0: external "
    "processes collect, or a recorded dataset is learned from",
    checks.within(0, 256, "one proxy controls at most 256"),
  ),
  "topology.environments_per_worker": Field(
    8,
    "number of environments that each worker steps as one batch",
    checks.at_least(1, "nothing would be collected", most=65_536),
  ),
  "topology.proxy": Field(
    True,
    "whether the workers of a machine write to the replay through one proxy "
    "process on it",
  ),
  "topology.replay": Field(
    "with_trainer",
    "process that runs the replay server: 'with_trainer' or 'own_process'",
    checks.one_of(
      ("with_trainer", "own_process"), "no process would run the replay server"
    ),
  ),
  "topology.machines": Field(
    0,
    "number of machines that run workers, for --launch=ray; 0: all but the "
    "driver host",
    checks.at_least(
      0,
      "no machine would run workers",
      "0: all but the driver host",
      most=10_000,
    ),
  ),
  "topology.home_workers": Field(
    0,
    "number of worker processes on the driver host, for --launch=ray",
    checks.within(0, 256, "one proxy controls at most 256"),
  ),
  "topology.trainer_machine": Field(
    "home",
    "machine of the trainer, for --launch=ray: 'home', the driver host, or "
    "'own', a separate machine",
    checks.one_of(("home", "own"), "the trainer would have no machine"),
  ),
  "topology.trainer_cpus": Field(
    1.0,
    "CPU cores that Ray reserves for the trainer and the replay server",
    checks.at_least(0, "a reservation is never negative", most=10_000),
  ),
  "topology.trainer_gpus": Field(
    0.0,
    "GPUs that Ray reserves for the trainer",
    checks.at_least(0, "a reservation is never negative", most=10_000),
  ),
  "topology.cpus_per_worker": Field(
    1.0,
    "CPU cores that Ray reserves for each worker",
    checks.at_least(0, "a reservation is never negative", most=10_000),
  ),
  # Variables and evaluation.
  "variables.publish_period": Field(
    20,
    "trainer steps between two publications of the variables to the workers",
    checks.at_least(1, "workers would never get new variables"),
  ),
  "evaluation.episodes": Field(
    20,
    "episodes per evaluation, played in parallel without exploration",
    checks.at_least(1, "an evaluation would have no return", most=65_536),
  ),
  "evaluation.info": Field(
    (),
    "names of numbers in the info of an episode's last step, such as "
    "is_success, whose means over an evaluation's episodes are recorded",
    checks.Check(
      all, "non-empty names", "no info has a number without a name", ("",)
    ),
  ),
  "evaluation.environment.name": Field(
    "",
    "id or 'module:Class' of the environment of evaluations, with the same "
    "spaces; '': environment.name",
  ),
  "evaluation.environment.kwargs": Field(
    {},
    "keyword arguments of the constructor in evaluations, by name; they "
    "replace or extend environment.kwargs",
  ),
  "evaluation.environment.time_limit": Field(
    0,
    "environment steps after which an evaluation's episode is truncated; 0: "
    "environment.time_limit",
    checks.at_least(
      0, "no episode would begin", "0: environment.time_limit", most=10**8
    ),
  ),
  "evaluation.period_s": Field(
    0.5,
    "seconds from the end of an evaluation to the start of the next",
    checks.at_least(0, "a duration is never negative", most=_LONGEST_S),
  ),
  "evaluation.max_share": Field(
    1.0,
    "largest part of the time that evaluations take, in modes 'async' and "
    "'sync': after a long one, the next starts later than evaluation.period_s",
    checks.above(0, "no evaluation would ever start", most=1),
  ),
  "evaluation.period_steps": Field(
    500,
    "trainer steps between two evaluations in mode 'single', in which a run "
    "that ends before its first one evaluates its final policy; 0: none",
    checks.at_least(
      0, "the run would do nothing but evaluate", "0: no evaluations"
    ),
  ),
  "evaluation.video_period": Field(
    0,
    "evaluations from one video of an episode to the next, in the run's folder "
    "videos/, of which the newest 20 are kept; 0: no videos",
    checks.at_least(0, "no evaluation would have a video", "0: no videos"),
  ),
  # Snapshots and faults.
  "snapshot.period_s": Field(
    60.0,
    "seconds between two snapshots of the whole run, from which it can resume",
    checks.above(0, "the trainer would do nothing but save", most=_LONGEST_S),
  ),
  "snapshot.keep": Field(
    2,
    "number of newest snapshots to keep, in addition to the best variables",
    checks.at_least(1, "nothing could be resumed", most=10_000),
  ),
  "snapshot.url": Field(
    "",
    "absolute path of a shared folder, or fsspec URL, to which snapshots are "
    "copied; '': no copies",
    checks.Check(
      _is_shared_place,
      "an absolute path, or a URL that other machines can read ('': no copies)",
      "a resume there would not find the copies",
      "runs/shared",
    ),
  ),
  "watchdog.period_s": Field(
    30.0,
    "seconds without progress after which the log reports each waiting node "
    "and the cause; must exceed the nodes' start-up and a call of the trainer",
    checks.above(
      0, "each pause between two steps would count as a stall", most=_LONGEST_S
    ),
  ),
  "restarts.budget": Field(
    5,
    "restarts of one node within restarts.period_s that the run survives; a "
    "further failure ends the run",
    checks.at_least(
      0, "a count is never negative", "0: no restarts", most=1_000_000
    ),
  ),
  "restarts.period_s": Field(
    300.0,
    "seconds after which a restart no longer counts towards restarts.budget",
    checks.above(0, "no restart would ever count", most=_LONGEST_S),
  ),
  # Recorded episodes.
  "recording.path": Field(
    "",
    "folder to which workers append their complete episodes as Minari "
    "datasets, each on its own machine; '': none",
  ),
  "recording.share": Field(
    1.0,
    "share of the workers that record, the first of them always",
    checks.above(0, "no worker would record", most=1),
  ),
  # Rates and limits.
  "rates.environment_steps_per_s": Field(
    0.0,
    "highest rate of all workers together, in environment steps per second; 0: "
    "no limit",
    checks.at_least(0, "a rate is never negative", "0: no limit", most=1e9),
  ),
  "limits.environment_steps": Field(
    0,
    "environment steps of all workers after which the run ends; 0: no limit",
    checks.at_least(0, "the run would end before it starts", "0: no limit"),
  ),
  "limits.trainer_steps": Field(
    0,
    "trainer steps after which the run ends; 0: no limit",
    checks.at_least(0, "the run would end before it starts", "0: no limit"),
  ),
  "limits.episodes": Field(
    0,
    "training episodes of all workers after which the run ends; 0: no limit",
    checks.at_least(0, "the run would end before it starts", "0: no limit"),
  ),
  "limits.wall_clock_s": Field(
    0.0,
    "seconds since the start of the command after which the run ends; 0: no "
    "limit",
    checks.at_least(
      0, "the run would end before it starts", "0: no limit", most=_LONGEST_S
    ),
  ),
  "limits.target_return": Field(
    math.inf,
    "mean return of an evaluation at which the run ends; inf: no limit",
  ),
  "limits.target_info": Field(
    "",
    "'NAME:VALUE': mean at which the run ends, over an evaluation's episodes, "
    "of a number in the info of their last step, such as success:0.9; '': no "
    "limit",
    checks.Check(
      _is_info_target,
      "'NAME:VALUE' with a finite number ('': no limit)",
      "no mean could reach it",
      "success",
    ),
  ),
  "limits.target_evaluations": Field(
    3,
    "number of consecutive evaluations that must reach target_return or "
    "target_info before the run ends, since a single one may be lucky",
    checks.within(
      1,
      RETURNS_KEPT,
      f"a run ends at an evaluation, and keeps {RETURNS_KEPT} mean returns",
    ),
  ),
  "limits.evaluations_without_improvement": Field(
    0,
    "consecutive evaluations without a new highest mean return after which the "
    "run ends; 0: no limit",
    checks.at_least(0, "the run would end before it starts", "0: no limit"),
  ),
  "limits.combine": Field(
    "any",
    "whether the run ends when 'any' of the limits is reached, or 'all' of "
    "those that are set",
    checks.one_of(("any", "all"), "the run would have no end condition"),
  ),
}


def check(name: str, value: typing.Any) -> None:
  """Checks the type and the range of a value for one of `FIELDS`."""
  fields.check(name, value, FIELDS[name])


def check_environment(config: ml_collections.ConfigDict) -> None:
  """Checks the rules between fields of section `environment`.

  The rules apply to all algorithms. They are checked before an environment is
  made and stepped, since it may raise an error for an action that its mask
  forbids.
  """
  if config.action_mask and config.frame_skip > 1:
    raise ValueError(
      f"config.environment.frame_skip={config.frame_skip} repeats each action, "
      "but the masks of config.environment.action_mask=True may forbid it "
      "after one frame, so illegal actions would be taken: use "
      "--config.environment.frame_skip=1"
    )


def get_evaluation_environment(
  config: ml_collections.ConfigDict,
) -> ml_collections.ConfigDict:
  """Returns section `environment` of a config, as it is in evaluations."""
  tree = config.environment.to_dict()
  changes = config.evaluation.environment.to_dict()
  tree["kwargs"] |= changes.pop("kwargs")
  tree |= {name: value for name, value in changes.items() if value}
  return typed_config.TypedConfig(tree)


def has_evaluation_environment(config: ml_collections.ConfigDict) -> bool:
  """Returns whether a config has another environment in evaluations."""
  return any(config.evaluation.environment.to_dict().values())


def parse_info_target(text: str) -> tuple[str, float]:
  """Returns the name and the value in `limits.target_info`.

  Without a limit, they are '' and infinity.
  """
  name, _, value = text.rpartition(":")
  return name, float(value or math.inf)


def list_info_names(config: ml_collections.ConfigDict) -> list[str]:
  """Returns the names of the numbers of infos that evaluations read."""
  target, _ = parse_info_target(config.limits.target_info)
  return list(dict.fromkeys([*config.evaluation.info, *filter(None, [target])]))


def show_missing_environment(config: ml_collections.ConfigDict) -> str:
  """Returns the field by which a run steps no environment itself.

  A run without a name gets that of an environment with recorded spaces.
  """
  dataset = config.get("dataset", {})
  if dataset.get("path") and not dataset.get("ratio", 0.0):
    return "config.environment.name=''"
  return "config.environment.external=True"


def check_evaluations(config: ml_collections.ConfigDict) -> None:
  """Checks that a run has the evaluations for which fields are set."""
  limits, period = config.limits, config.evaluation.period_steps
  missing = show_missing_environment(config)
  if config.environment.external and limits.target_info:
    raise ValueError(
      f"config.limits.target_info={limits.target_info!r} is reached by "
      f"evaluations only, of which a run with {missing} has none, so the run "
      "would not end by it: leave it out"
    )
  if config.environment.external and has_evaluation_environment(config):
    raise ValueError(
      f"config.evaluation.environment={config.evaluation.environment.to_dict()}"
      f" is for evaluations, of which a run with {missing} has none, so it "
      "would have no effect: leave it out"
    )
  videos = config.evaluation.video_period
  is_off = config.mode == "single" and not period
  if videos and (is_off or config.environment.external):
    why = (
      missing
      if config.environment.external
      else "config.evaluation.period_steps=0 in mode 'single'"
    )
    raise ValueError(
      f"config.evaluation.video_period={videos} is for evaluations, of which a "
      f"run with {why} has none, so it would have no effect: leave it out"
    )
  if config.environment.external and config.get("dataset", {}).get("path"):
    why = "of which a run without an environment has none"
    how = "name an environment, and environment.external=False"
  elif is_off:
    why = "which config.evaluation.period_steps=0 switches off in mode 'single'"
    how = "set evaluation.period_steps above 0"
  else:
    return
  for name in EVALUATION_LIMITS:
    none = FIELDS[f"limits.{name}"].default
    if limits[name] != none:
      raise ValueError(
        f"config.limits.{name}={limits[name]!r} is reached by evaluations "
        f"only, {why}, so the run would not end by it: set it to {none!r}, or "
        f"{how}"
      )


def check_workers(count: int) -> None:
  """Checks that a run with worker processes may change their number to `count`.

  Args:
    count: number of workers; valid are 1 to 256.
  """
  if not 1 <= count <= 256:
    raise ValueError(
      f"config.topology.workers={count} must be in [1, 256]: without workers "
      "nothing is collected; a proxy controls up to 256"
    )
