"""Base: the config fields that all algorithms share."""

import math
import typing

from slipway.configs import checks, fields

Field = fields.Field

MODES = ("async", "sync", "single")

# 31 years. Python's timers overflow at 292.
_LONGEST_S = 1e9

FIELDS: fields.Fields = {
  "agent": Field(
    "",
    "the algorithm: a family of agents/, or 'module:Name' of a builder of your "
    "own",
    checks.matching(bool, "a name", "nothing could learn", ""),
  ),
  "mode": Field(
    "async",
    "schedule of the run's nodes: 'async', 'sync' or 'single'; --mode sets it",
    checks.one_of(MODES, "the run would have no schedule"),
  ),
  "seed": Field(
    1,
    "seed of all random numbers of the run",
    checks.at_least(0, "random generators take no negative seed").up_to(
      2**31 - 1, "environments take 31 bits"
    ),
  ),
  "hooks": Field(
    (),
    "hooks, called at start, evaluations, snapshots and the end: 'csv', "
    "'wandb', 'mlflow', or 'module:name' of a function or class",
    checks.matching(all, "names", "nothing could be called", ("",)),
  ),
  # The environment.
  "environment.name": Field(
    "CartPole-v1",
    "gymnasium id or 'module:Class' of the environment; environment.game "
    "replaces {game} in it",
  ),
  "environment.game": Field(
    "", "name of the game that replaces {game} in environment.name"
  ),
  "environment.action_mask": Field(
    False,
    "whether reset and step return info['action_mask'], so that actors choose "
    "legal actions only",
  ),
  "environment.kwargs": Field(
    {}, "keyword arguments of the environment's constructor, by name"
  ),
  "environment.wrappers": Field(
    (),
    "wrappers as 'module:Name', each called with one environment, the "
    "innermost first",
    checks.matching(
      lambda names: all(0 < x.find(":") < len(x) - 1 for x in names),
      "names 'module:Name'",
      "there would be nothing to import",
      ("Name",),
    ),
  ),
  "environment.frame_skip": Field(
    1,
    "steps for which each action is repeated, inside of the wrappers; their "
    "rewards are summed; for ALE/*, set kwargs.frameskip",
    checks.at_least(1, "no action would be taken").up_to(
      10_000, "an environment step could not be interrupted for hours"
    ),
  ),
  "environment.frame_stack": Field(
    0,
    "number of newest observations stacked along a new first axis, outside of "
    "the wrappers; 0: no stacking; for ALE/*, set kwargs.stack_num",
    checks.at_least(0, "there would be no observation", "0: none").up_to(
      255, "no memory holds the observations"
    ),
  ),
  "environment.time_limit": Field(
    0,
    "environment steps after which an episode is truncated; 0: the "
    "environment's own limit",
    checks.at_least(0, "no episode would begin", "0: its own").up_to(
      10**8, "games of ALE count their frames in 32 bits"
    ),
  ),
  "environment.reward_scale": Field(
    1.0,
    "factor of the rewards from which agents learn; reported returns are not "
    "scaled",
    checks.above(0, "rewards would vanish, or become costs").up_to(
      1e6, "rewards would be infinite in float32"
    ),
  ),
  "environment.reward_clip": Field(
    0.0,
    "largest absolute reward from which agents learn: larger ones are clipped "
    "after scaling; reported returns are not clipped; 0: no clipping",
    checks.at_least(0, "no reward has a negative size", "0: none"),
  ),
  "environment.external": Field(
    False,
    "whether external processes step the environment, which then defines "
    "spaces only; there are no workers and no evaluator",
  ),
  "environment.asynchronous": Field(
    False,
    "whether each environment of a worker steps in its own thread, for "
    "environments that wait for a device or a server",
  ),
  "environment.step_timeout_s": Field(
    0.0,
    "seconds that one step or reset may take; after that, the environment "
    "counts as hanging and its process is restarted; 0: no limit",
    checks.at_least(0, "every step would be too long", "0: no limit").up_to(
      _LONGEST_S, "no timer runs longer"
    ),
  ),
  # Processes and machines.
  "topology.workers": Field(
    1,
    "number of worker processes, with --launch=ray per machine; 0: only "
    "external processes collect",
    checks.within(0, 256, "a proxy could not control them"),
  ),
  "topology.environments_per_worker": Field(
    8,
    "number of environments that each worker steps as one batch",
    checks.at_least(1, "nothing would be collected").up_to(
      65_536, "one process could not step more"
    ),
  ),
  "topology.proxy": Field(
    True, "whether workers write to replay through a proxy on their machine"
  ),
  "topology.replay": Field(
    "with_trainer",
    "process that runs the replay server: 'with_trainer' or 'own_process'",
    checks.one_of(
      ("with_trainer", "own_process"), "replay would have no process"
    ),
  ),
  "topology.machines": Field(
    0,
    "number of machines with workers, for --launch=ray; 0: all but the driver "
    "host",
    checks.at_least(0, "there would be no place to collect", "0: all").up_to(
      10_000, "no cluster has more"
    ),
  ),
  "topology.home_workers": Field(
    0,
    "number of worker processes on the driver host, for --launch=ray",
    checks.within(0, 256, "a proxy could not control them"),
  ),
  "topology.trainer_machine": Field(
    "home",
    "machine of the trainer, for --launch=ray: 'home' (driver host) or 'own'",
    checks.one_of(("home", "own"), "the trainer would have no machine"),
  ),
  "topology.trainer_cpus": Field(
    1.0,
    "cores that Ray reserves for the trainer and replay",
    checks.at_least(0, "no machine has less").up_to(
      10_000, "no machine has more"
    ),
  ),
  "topology.trainer_gpus": Field(
    0.0,
    "GPUs that Ray reserves for the trainer",
    checks.at_least(0, "no machine has less").up_to(
      10_000, "no machine has more"
    ),
  ),
  "topology.cpus_per_worker": Field(
    1.0,
    "cores that Ray reserves for each worker",
    checks.at_least(0, "no machine has less").up_to(
      10_000, "no machine has more"
    ),
  ),
  # Variables and evaluation.
  "variables.publish_period": Field(
    20,
    "trainer steps between two publications of variables",
    checks.at_least(1, "workers would never get new variables"),
  ),
  "evaluation.episodes": Field(
    20,
    "episodes per evaluation, played all at once without exploration",
    checks.at_least(1, "there would be no return").up_to(
      65_536, "one process could not step more"
    ),
  ),
  "evaluation.period_s": Field(
    0.5,
    "seconds from the end of an evaluation to the start of the next",
    checks.at_least(0, "time does not run backwards").up_to(
      _LONGEST_S, "no timer runs longer"
    ),
  ),
  "evaluation.period_steps": Field(
    500,
    "trainer steps between two evaluations in mode 'single'",
    checks.at_least(1, "the run would do nothing but evaluate"),
  ),
  # Snapshots and faults.
  "snapshot.period_s": Field(
    60.0,
    "seconds between two snapshots of the whole run",
    checks.above(0, "the trainer would do nothing but save").up_to(
      _LONGEST_S, "no timer runs longer"
    ),
  ),
  "snapshot.keep": Field(
    2,
    "number of newest snapshots to keep, in addition to the best variables",
    checks.at_least(1, "nothing could be resumed").up_to(
      10_000, "no disk holds more"
    ),
  ),
  "snapshot.url": Field(
    "",
    "shared folder, as an absolute path, or fsspec URL to which snapshots are "
    "copied; '': no copies",
    checks.matching(
      lambda x: not x or x.startswith("/") or "://" in x,
      "an absolute path or a URL ('': none)",
      "each machine would have a folder of its own",
      "runs/shared",
    ),
  ),
  "watchdog.period_s": Field(
    30.0,
    "seconds without progress before the log reports which node waits for "
    "what; must exceed the nodes' start-up time and a call of the trainer",
    checks.above(
      0, "each pause between two steps would count as a stall"
    ).up_to(_LONGEST_S, "no timer runs longer"),
  ),
  "restarts.budget": Field(
    5,
    "restarts that each node may have within restarts.period_s before the run "
    "fails",
    checks.at_least(0, "no restart could be counted", "0: none").up_to(
      1_000_000, "each failure is kept in memory"
    ),
  ),
  "restarts.period_s": Field(
    300.0,
    "seconds after which a restart no longer counts towards restarts.budget",
    checks.above(0, "no restart would ever count").up_to(
      _LONGEST_S, "no timer runs longer"
    ),
  ),
  # Rates and limits.
  "rates.environment_steps_per_s": Field(
    0.0,
    "largest rate of all workers together, in environment steps per second; 0: "
    "no limit",
    checks.at_least(0, "workers could not keep to it", "0: no limit").up_to(
      1e9, "no machine is as fast"
    ),
  ),
  "limits.environment_steps": Field(
    0,
    "environment steps of all workers after which the run ends; 0: no limit",
    checks.at_least(0, "the run would end before it starts", "0: none"),
  ),
  "limits.trainer_steps": Field(
    0,
    "trainer steps after which the run ends; 0: no limit",
    checks.at_least(0, "the run would end before it starts", "0: none"),
  ),
  "limits.episodes": Field(
    0,
    "training episodes of all workers after which the run ends; 0: no limit",
    checks.at_least(0, "the run would end before it starts", "0: none"),
  ),
  "limits.wall_clock_s": Field(
    0.0,
    "seconds since the start of the command after which the run ends; 0: no "
    "limit",
    checks.at_least(0, "the run would end before it starts", "0: none").up_to(
      _LONGEST_S, "no timer runs longer"
    ),
  ),
  "limits.target_return": Field(
    math.inf,
    "mean return of one evaluation at which the run ends; inf: no limit",
  ),
  "limits.evaluations_without_improvement": Field(
    0,
    "consecutive evaluations without a new highest mean return after which the "
    "run ends; 0: no limit",
    checks.at_least(0, "the run would end before it starts", "0: none"),
  ),
  "limits.combine": Field(
    "any",
    "whether the run ends when 'any' of the limits is reached, or 'all' of "
    "those that are set",
    checks.one_of(("any", "all"), "it would be unclear when the run ends"),
  ),
}

_COLLECTING = FIELDS["topology.workers"]._replace(
  check=checks.within(
    1, 256, "nothing would be collected, or by more than a proxy can control"
  )
)


def check(name: str, value: typing.Any) -> None:
  """Checks the value of one of `FIELDS`.

  Raises:
    ValueError: one line with the field, the value and the consequence.
  """
  fields.check(name, value, FIELDS[name])


def check_workers(count: int) -> None:
  """Checks the number of workers of a run that collects.

  Raises:
    ValueError: one line with the field, the value and the consequence.
  """
  fields.check("topology.workers", count, _COLLECTING)
