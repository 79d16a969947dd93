"""The command `slipway sweep`, which trains several settings and seeds."""

import contextlib
import os
import pathlib
import sys
from collections.abc import Callable, Mapping, Sequence

import ml_collections

from slipway.environments import user_code
from slipway.launch.runs import recorded_spaces, run_folder, user_modules
from slipway.launch.sweeps import plan as plan_lib
from slipway.launch.sweeps import runs, schedule, study, sweep_flags

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
# Flags that can be given with --resume.
_RESUME_FLAGS = (
  *("resume", "seeds", "settings", "at_once", "ray_address", "insecure"),
)


@user_code.exit_as_error()
def main(argv: Sequence[str]) -> int:
  """Trains the runs of a sweep.

  Returns:
    Exit status: 0 if all runs have ended at a limit; 1 if some have not or have
    failed; 2 if the sweep was rejected before anything was started.
  """
  status = 2
  with contextlib.ExitStack() as resources:
    try:
      prepared = _prepare(argv, resources)
      status = 1
      return prepared.train()
    except (ValueError, OSError, user_code.UserCodeError) as error:
      print(f"sweep: {error}", file=sys.stderr)
      return status


def _prepare(
  argv: Sequence[str], resources: contextlib.ExitStack
) -> schedule.Schedule:
  """Makes a new sweep, or opens one to resume it, after all checks."""
  flags = sweep_flags.define()
  line = flags.parse_known(argv, _USAGE)
  sweep, known, configs = None, 0, {}
  if flags.resume is None:
    plan = plan_lib.make(line)
  else:
    kept = [f"--{name}" for name in _RESUME_FLAGS]
    given = [f"--{name}" for name, _ in line.own]
    if wrong := [*(x for x in given if x not in kept), *line.others]:
      raise ValueError(
        f"{wrong[0]} is for a new sweep, and --resume={flags.resume} continues "
        "a sweep as it was planned: leave it out, or begin a new sweep"
      )
    sweep = study.Study.open(flags.resume, resources)
    known, configs = len(sweep.trials), sweep.read_configs()
    sweep.plan = plan = sweep.plan.extended(line, known)
    if os.path.isdir(plan.working_folder):
      os.chdir(plan.working_folder)
    sys.path[:0] = plan.module_folders
    _check_spaces(sweep, configs)
  params = plan.list_first_settings()[known:]
  added = [
    plan.make_config(index, x, with_environment=True)
    for index, x in enumerate(params, known)
  ]
  whole = [*configs.values(), *added]
  modules = {path for x in whole for path in user_modules.find_files(x)}
  plan.module_folders = sorted({str(path.parent) for path in modules})
  count_slots, start = _place(plan, whole, sorted(modules), resources)
  if sweep is None:  # last, since it may replace an older sweep
    name = flags.name
    if name is None:
      made = run_folder.make_name("sweep", "")
      reserved = run_folder.reserved(flags.run_dir, made)
      name = resources.enter_context(reserved).name
    path = pathlib.Path(flags.run_dir, name)
    sweep = study.Study.create(path, flags.overwrite, plan, resources)
  sweep.write_plan()
  for setting in zip(params, added, strict=True):
    sweep.add(*setting)
  return schedule.Schedule(sweep, count_slots, start)


def _check_spaces(
  sweep: study.Study, configs: Mapping[int, ml_collections.ConfigDict]
) -> None:
  """Checks that the environments' spaces are those of the sweep's runs."""
  for index, config in configs.items():
    environment = config.environment
    for run in sweep.list_runs(index):
      if run.folder.spaces.exists():
        spec = sweep.plan.make_spec(environment)
        recorded_spaces.check(run.folder, environment.name, spec)


def _place(
  plan: plan_lib.Plan,
  configs: Sequence[ml_collections.ConfigDict],
  modules: Sequence[pathlib.Path],
  resources: contextlib.ExitStack,
) -> tuple[Callable[[], int], Callable[[runs.SweepRun], runs.Process]]:
  """Returns functions that tell how many runs fit at once, and start a run."""
  flags, placing = plan.flags, plan.list_placing_flags()
  # In mode 'single' a run keeps one core busy; otherwise one per worker and one
  # for the trainer.
  cpus = max(
    1 if config.mode == "single" else 1 + max(1, config.topology.workers)
    for config in configs
  )
  if not flags.ray_address or plan.is_on_all_machines:
    fit = len(os.sched_getaffinity(0)) // cpus
    # A run on all machines of a cluster leaves no room for another one.
    at_once = flags.at_once or (1 if plan.is_on_all_machines else max(1, fit))
    return lambda: at_once, lambda run: runs.TrainProcess(run, placing).start()
  from slipway.launch.machines import admission

  address = admission.authenticate(flags.ray_address, flags.insecure)
  from slipway.launch.machines import cluster as cluster_lib  # loads Ray

  cluster = cluster_lib.Cluster(address, modules)
  resources.callback(cluster.close)

  def count_slots() -> int:
    return sum(int(x.cpus) // cpus for x in cluster.machines())

  if not count_slots():
    most = max((x.cpus for x in cluster.machines()), default=0)
    raise ValueError(
      f"a run of this sweep needs {cpus} CPUs, and no machine of the cluster "
      f"at {cluster.address} has more than {most:g}, so none could be "
      "trained: use --mode=single or fewer topology.workers, or add a machine"
    )
  return (
    lambda: flags.at_once or count_slots(),
    lambda run: runs.RemoteProcess(run, placing, cpus),
  )
