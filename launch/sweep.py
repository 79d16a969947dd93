"""The command `slipway sweep`, which trains several settings and seeds."""

import contextlib
import os
import sys
import typing
from collections.abc import Sequence

import ml_collections
from absl import flags as absl_flags

from slipway.environments import user_code
from slipway.launch import sweep_flags, sweep_plan, sweep_runs
from slipway.launch.options import flags as flags_lib
from slipway.launch.runs import run_folder, user_modules
from slipway.launch.sweeps import processes, space, sweep_folder

if typing.TYPE_CHECKING:
  from slipway.launch.sweeps import slots as slots_lib

# Sentences that begin the help.
_USAGE = """\
Trains a config with several seeds and settings, and compares the results.

  slipway sweep --config=ppo:cartpole --seeds=5 --name=rates \\
    --vary=learner.learning_rate=1e-4,3e-4,1e-3 \\
    --config.limits.environment_steps=100_000
  slipway sweep --config=sac:pendulum --search=random --settings=20 --seeds=2 \\
    --vary=learner.learning_rate=log:1e-4..1e-2 --vary=learner.tau=1e-3..1e-1 \\
    --config.limits.environment_steps=20_000
  slipway sweep --seeds=10 --vary=config=dqn:cartpole,rainbow:cartpole \\
    --config.limits.environment_steps=50_000
  slipway sweep --resume=runs/rates

Each run is an ordinary run in the sweep's folder. Runs do not end at a target
return, unless --config.limits.target_return is given, so that all get the same
number of steps. All flags of `slipway train` that place and set a run can be
given, too: they apply to all runs."""


@user_code.exit_as_error()
def main(argv: Sequence[str]) -> int:
  """Trains the runs of a sweep.

  Args:
    argv: the program's name and its arguments.

  Returns:
    Exit status: 0 if all runs have ended at a limit; 1 if some have not or have
    failed; 2 if the sweep was rejected before anything was started.
  """
  with contextlib.ExitStack() as resources:
    try:
      flags, train_flags_given = flags_lib.parse_known(
        sweep_flags.define(), argv, _USAGE
      )
      train_flags_given = _join_values(train_flags_given)
      if flags.resume is None:
        plan = sweep_plan.make(flags, train_flags_given)
        # Before the folder, which may replace an older sweep.
        slots = _connect(plan, resources)
        name = flags.name
        if name is None:
          default = run_folder.make_name("sweep", "")
          reserved = run_folder.reserved(flags.run_dir, default)
          name = resources.enter_context(reserved).name
        folder = sweep_folder.SweepFolder.create(
          flags.run_dir, name, flags.overwrite
        )
        resources.enter_context(folder.locked())
      else:
        _check_resume_flags(flags, train_flags_given)
        folder = sweep_folder.SweepFolder.open(flags.resume)
        resources.enter_context(folder.locked())
        plan = sweep_plan.extend(flags, folder.read_plan())
        slots = _connect(plan, resources)
      sweep = _make_sweep(folder, plan, slots)
      folder.write_plan(plan)  # once the search has accepted it
    except KeyboardInterrupt:
      print("sweep: interrupted; nothing was started", file=sys.stderr)
      return 1
    except (ValueError, OSError, user_code.UserCodeError) as error:
      print(f"sweep: {error}", file=sys.stderr)
      return 2
    try:
      return sweep.train()
    except (ValueError, OSError, user_code.UserCodeError) as error:
      print(f"sweep: {error}", file=sys.stderr)
      return 1


def _check_resume_flags(
  flags: absl_flags.FlagValues, train_flags_given: Sequence[str]
) -> None:
  """Raises ValueError if --resume is given with a flag for new sweeps.

  Args:
    flags: the flags of `slipway sweep`.
    train_flags_given: the flags for `slipway train`, of which there must be
      none.
  """
  fixed = (
    *("name", "run_dir", "overwrite", "first_seed"),
    *("vary", "search", "search_seed"),
  )
  given = [f"--{name}" for name in fixed if flags[name].present]
  given += train_flags_given
  if given:
    raise ValueError(
      f"{given[0]} is for a new sweep, and --resume={flags.resume} continues "
      "a sweep as it was planned: leave it out, or begin a new sweep"
    )


def _connect(
  plan: sweep_folder.Plan, resources: contextlib.ExitStack
) -> "slots_lib.Slots | None":
  """Connects to the Ray cluster on whose machines the runs are trained.

  Args:
    plan: the sweep's plan.
    resources: gets the connection.

  Returns:
    The cluster's slots, or None if this machine starts the runs.

  Raises:
    ValueError: the cluster can't be used.
  """
  if not plan.ray_address or sweep_plan.uses_ray(plan):
    return None
  from slipway.launch.machines import admission

  address = admission.authenticate(plan.ray_address, plan.insecure)
  from slipway.launch.machines import cluster  # loads Ray
  from slipway.launch.sweeps import slots as slots_lib

  configs = sweep_plan.list_configs(plan)
  modules = {path for x in configs for path in user_modules.find_files(x)}
  slots = slots_lib.Slots(
    cluster.Cluster(address, sorted(modules)), _count_cores(configs)
  )
  resources.callback(slots.close)
  return slots


def _make_sweep(
  folder: sweep_folder.SweepFolder,
  plan: sweep_folder.Plan,
  slots: "slots_lib.Slots | None",
) -> sweep_runs.Sweep:
  """Makes the sweep, which trains on this machine or on a cluster.

  Args:
    folder: the sweep's folder.
    plan: the sweep's plan.
    slots: the cluster's slots, or None if this machine starts the runs.
  """

  def place(
    run: sweep_folder.SweepRun,
  ) -> tuple[space.Setting, ml_collections.ConfigDict]:
    """Returns the setting of a run with its own uploads, and its config."""
    setting = sweep_plan.place_uploads(folder, plan, run.setting)
    return setting, sweep_plan.parse_setting(plan, setting).config

  if slots is not None:
    return sweep_runs.Sweep(
      folder,
      plan,
      lambda: plan.at_once or slots.count(),
      lambda run: slots.start(run, place(run)[1]),
    )
  # A run on all machines of a cluster leaves no room for another one.
  fit = 1
  if not sweep_plan.uses_ray(plan):
    cores = _count_cores(sweep_plan.list_configs(plan))
    fit = max(1, len(os.sched_getaffinity(0)) // cores)
  at_once = plan.at_once or fit
  flags = sweep_plan.list_flags(plan)

  def start(run: sweep_folder.SweepRun) -> processes.TrainProcess:
    setting, config = place(run)
    resumes = run.has_snapshot(config, run.log.exists())
    return processes.TrainProcess(run, flags, setting, resumes)

  return sweep_runs.Sweep(folder, plan, lambda: at_once, start)


def _join_values(train_flags_given: Sequence[str]) -> list[str]:
  """Returns flags with their values, as --NAME=VALUE.

  Args:
    train_flags_given: flags, whose values may be arguments of their own.
  """
  joined: list[str] = []
  for argument in train_flags_given:
    is_flag = argument.startswith("-") and not flags_lib.is_number(argument)
    if joined and not is_flag:
      joined[-1] += f"={argument}"
    else:
      joined.append(argument)
  return joined


def _count_cores(configs: Sequence[ml_collections.ConfigDict]) -> int:
  """Returns how many cores a run of any setting keeps busy, at most.

  In mode 'single' it is one; otherwise one per worker and one for the trainer.

  Args:
    configs: configs of the settings.
  """
  return max(
    1 if config.mode == "single" else 1 + max(1, config.topology.workers)
    for config in configs
  )


if __name__ == "__main__":
  sys.exit(main(sys.argv))
