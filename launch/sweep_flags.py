"""Sweep flags: defines the flags of `slipway sweep`."""

from absl import flags


def define() -> flags.FlagValues:
  """Returns the flags of `slipway sweep`, before parsing."""
  values = flags.FlagValues()
  flags.DEFINE_multi_string(
    "vary",
    [],
    "Field of the config and its values, FIELD=VALUE,VALUE; given several "
    "times, all combinations are trained. FIELD,FIELD=VALUE,VALUE;VALUE,VALUE "
    "varies fields together. FIELD=LOW..HIGH is a range, whose logarithm is "
    "uniform with FIELD=log:LOW..HIGH. The field 'config' varies the config "
    "itself: config=dqn:cartpole,rainbow:cartpole.",
    flag_values=values,
  )
  flags.DEFINE_enum(
    "search",
    "grid",
    ["grid", "random", "optuna"],
    "Choice of the settings: grid, all combinations; random, different "
    "samples; optuna, by the scores of earlier settings (needs the package "
    "optuna).",
    flag_values=values,
  )
  flags.DEFINE_integer(
    "settings",
    20,
    "Number of settings; only with --search=random or optuna.",
    lower_bound=1,
    upper_bound=100_000,
    flag_values=values,
  )
  flags.DEFINE_integer(
    "search_seed",
    0,
    "Seed of the search.",
    lower_bound=0,
    upper_bound=2**31 - 1,
    flag_values=values,
  )
  flags.DEFINE_integer(
    "seeds",
    1,
    "Number of runs of each setting; their seeds are FIRST_SEED, "
    "FIRST_SEED + 1, ...",
    lower_bound=1,
    upper_bound=100_000,
    flag_values=values,
  )
  flags.DEFINE_integer(
    "first_seed",
    1,
    "Seed of the first run of each setting. After a search with seeds 1 to 5, "
    "--first_seed=6 tests what it found on new ones.",
    lower_bound=0,
    upper_bound=1_000_000_000,
    flag_values=values,
  )
  flags.DEFINE_integer(
    "at_once",
    None,
    "Number of runs that are trained at the same time. Default: what the "
    "cores allow, with a core per run in mode 'single', and otherwise one per "
    "worker and one for the trainer.",
    lower_bound=1,
    upper_bound=10_000,
    flag_values=values,
  )
  flags.DEFINE_string(
    "ray_address",
    None,
    "Address of a Ray cluster, as HOST:PORT, on whose machines the runs are "
    "trained, each whole on one machine; with --launch=ray, each on all "
    "machines. This machine must belong to the cluster. Without this flag, all "
    "runs are trained on this machine. With --resume, the default is the "
    "sweep's address, and an empty one stands for this machine.",
    flag_values=values,
  )
  flags.DEFINE_bool(
    "insecure",
    False,
    "With --ray_address or --launch=ray: accept a Ray cluster without TLS, "
    "whose machines then communicate in plaintext, too. Anyone on their "
    "network can read and change the runs, and run programs: for private "
    "networks only.",
    flag_values=values,
  )
  flags.DEFINE_string(
    "name",
    None,
    "Name of the sweep's folder inside --run_dir. Default: 'sweep' and the "
    "time.",
    flag_values=values,
  )
  flags.DEFINE_string(
    "run_dir",
    "runs",
    "Folder that contains the folders of all runs and sweeps.",
    flag_values=values,
  )
  flags.DEFINE_bool(
    "overwrite",
    False,
    "Replace the sweep of this name, with all its runs, if there is one.",
    flag_values=values,
  )
  flags.DEFINE_string(
    "resume",
    None,
    "Folder of a sweep, runs/<name>, whose unfinished runs are resumed or "
    "trained again. A larger --seeds or --settings adds runs. --at_once, "
    "--ray_address and --insecure are those of the sweep unless they are given "
    "again.",
    flag_values=values,
  )
  flags.DEFINE_bool("help", False, "Show this help.", flag_values=values)
  return values
