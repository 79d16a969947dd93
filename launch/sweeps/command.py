"""The command `slipway sweep`, which trains several settings and seeds."""

import contextlib
import functools
import os
import pathlib
import sys
from collections.abc import Callable, Sequence

import ml_collections
from absl import flags as absl_flags

from slipway.environments import user_code
from slipway.launch.checks import flags as flags_lib
from slipway.launch.runs import run_folder, user_modules
from slipway.launch.sweeps import plan as plan_lib
from slipway.launch.sweeps import runs, schedule, study

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

  Args:
    argv: the program's name and its arguments.

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
  flags, others = flags_lib.parse_known(define_flags(), argv, _USAGE)
  sweep, known, configs = None, 0, []
  if flags.resume is None:
    plan = plan_lib.make(flags, others)
  else:
    given = [f"--{name}" for name in flags if flags[name].present]
    kept = [f"--{name}" for name in _RESUME_FLAGS]
    if wrong := [*(x for x in given if x not in kept), *others]:
      raise ValueError(
        f"{wrong[0]} is for a new sweep, and --resume={flags.resume} continues "
        "a sweep as it was planned: leave it out, or begin a new sweep"
      )
    sweep = study.Study.open(flags.resume, resources)
    plan, known, configs = sweep.plan, len(sweep.trials), sweep.read_configs()
    plan_lib.extend(flags, plan, known)
  params = plan.list_first_settings()[known:]
  added = [
    plan.make_config(index, x, with_environment=True)
    for index, x in enumerate(params, known)
  ]
  configs += added
  modules = {path for x in configs for path in user_modules.find_files(x)}
  plan.module_folders = sorted({str(path.parent) for path in modules})
  count_slots, start = _place(plan, configs, sorted(modules), resources)
  if sweep is None:  # last, since it may replace an older sweep
    name = flags.name or run_folder.make_name("sweep", "")
    path = pathlib.Path(flags.run_dir, name)
    sweep = study.Study.create(path, flags.overwrite, plan, resources)
  sweep.write_plan()
  for setting in zip(params, added, strict=True):
    sweep.add(*setting)
  return schedule.Schedule(sweep, count_slots, start)


def _place(
  plan: plan_lib.Plan,
  configs: Sequence[ml_collections.ConfigDict],
  modules: Sequence[pathlib.Path],
  resources: contextlib.ExitStack,
) -> tuple[Callable[[], int], Callable[[runs.SweepRun], runs.Process]]:
  """Decides where the runs are trained, and connects to a cluster.

  Returns:
    A function that returns how many runs fit at once, and one that starts a
    run.

  Raises:
    ValueError: the cluster can't be used, or has no machine for a run.
  """
  flags = plan.list_placing_flags()
  # In mode 'single' a run keeps one core busy; otherwise one per worker and one
  # for the trainer.
  cpus = max(
    1 if config.mode == "single" else 1 + max(1, config.topology.workers)
    for config in configs
  )
  if not plan.ray_address or plan.is_on_all_machines:
    fit = len(os.sched_getaffinity(0)) // cpus
    # A run on all machines of a cluster leaves no room for another one.
    at_once = plan.at_once or (1 if plan.is_on_all_machines else max(1, fit))
    return lambda: at_once, lambda run: runs.TrainProcess(run, flags).start()
  from slipway.launch.machines import admission

  address = admission.authenticate(plan.ray_address, plan.insecure)
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
    lambda: plan.at_once or count_slots(),
    lambda run: runs.RemoteProcess(run, flags, cpus),
  )


def define_flags() -> absl_flags.FlagValues:
  """Returns the flags of `slipway sweep`, before parsing."""
  values = absl_flags.FlagValues()
  add_bool, add_string, add_texts, add_enum = (
    functools.partial(define, flag_values=values)
    for define in (
      *(absl_flags.DEFINE_bool, absl_flags.DEFINE_string),
      *(absl_flags.DEFINE_multi_string, absl_flags.DEFINE_enum),
    )
  )

  def add_integer(name: str, default: int | None, low: int, high: int, text):
    absl_flags.DEFINE_integer(name, default, text, low, high, values)

  add_texts(
    "vary",
    [],
    "Field of the config and its values, FIELD=VALUE,VALUE; given several "
    "times, all combinations are trained. FIELD,FIELD=VALUE,VALUE;VALUE,VALUE "
    "varies fields together. FIELD=LOW..HIGH is a range, whose logarithm is "
    "uniform with FIELD=log:LOW..HIGH. The field 'config' varies the config "
    "itself: config=dqn:cartpole,rainbow:cartpole.",
  )
  add_enum(
    *("search", "grid", ["grid", "random", "tpe"]),
    "Choice of the settings: grid, all combinations; random, different "
    "samples; tpe, by the scores of earlier settings.",
  )
  add_integer(
    *("settings", 20, 1, 100_000),
    "Number of settings; only with --search=random or tpe.",
  )
  add_integer("search_seed", 0, 0, 2**31 - 1, "Seed of the search.")
  add_bool(
    *("prune", False),
    "Stop settings early whose runs are below the median of the settings that "
    "have ended (at least 5) at the same tenth of their limit of steps or "
    "time.",
  )
  add_integer(
    *("seeds", 1, 1, 100_000),
    "Number of runs of each setting; their seeds are FIRST_SEED, "
    "FIRST_SEED + 1, ...",
  )
  add_integer(
    *("first_seed", 1, 0, 1_000_000_000),
    "Seed of the first run of each setting. After a search with seeds 1 to 5, "
    "--first_seed=6 tests what it found on new ones.",
  )
  add_integer(
    *("at_once", None, 1, 10_000),
    "Number of runs that are trained at the same time. Default: what the "
    "cores allow, with a core per run in mode 'single', and otherwise one per "
    "worker and one for the trainer.",
  )
  add_string(
    *("ray_address", None),
    "Address of a Ray cluster, as HOST:PORT, on whose machines the runs are "
    "trained, each whole on one machine; with --launch=ray, each on all "
    "machines. This machine must belong to the cluster. Without this flag, all "
    "runs are trained on this machine. With --resume, the default is the "
    "sweep's address, and an empty one stands for this machine.",
  )
  add_bool(
    *("insecure", False),
    "With --ray_address or --launch=ray: use a Ray cluster without tokens or "
    "TLS, and let the machines of a run communicate without certificates. "
    "Anyone who can reach them can then read and change the runs, and run "
    "programs: for private networks only.",
  )
  add_string(
    *("name", None),
    "Name of the sweep's folder inside --run_dir. Default: 'sweep' and the "
    "time.",
  )
  add_string(
    *("run_dir", "runs"), "Folder that contains the folders of runs and sweeps."
  )
  add_bool(
    *("overwrite", False),
    "Replace the sweep of this name, with all its runs, if there is one.",
  )
  add_string(
    *("resume", None),
    "Folder of a sweep, runs/<name>, whose unfinished runs are resumed or "
    "trained again. A larger --seeds or --settings adds runs. --at_once, "
    "--ray_address and --insecure are those of the sweep unless they are given "
    "again.",
  )
  add_bool("help", False, "Show this help.")
  return values
