"""Sweep flags: the flags of `slipway sweep`."""

from slipway.launch.checks import flags as flags_lib


def define() -> flags_lib.Flags:
  """Returns the flags of `slipway sweep`, before parsing."""
  flags = flags_lib.Flags()
  flags.add_texts(
    "vary",
    "Field of the config and its values, FIELD=VALUE,VALUE; given several "
    "times, all combinations are trained. FIELD,FIELD=VALUE,VALUE;VALUE,VALUE "
    "varies fields together. FIELD=LOW..HIGH is a range, whose logarithm is "
    "uniform with FIELD=log:LOW..HIGH. The field 'config' varies the config "
    "itself: config=dqn:cartpole,rainbow:cartpole.",
  )
  flags.add_choice(
    "search",
    "grid",
    ["grid", "random", "tpe"],
    "Choice of the settings: grid, all combinations; random, different "
    "samples; tpe, by the scores of earlier settings.",
  )
  flags.add_integer(
    "settings",
    20,
    "Number of settings; only with --search=random or tpe.",
    1,
    100_000,
  )
  flags.add_integer("search_seed", 0, "Seed of the search.", 0, 2**31 - 1)
  flags.add_bool(
    "prune",
    False,
    "Stop settings early whose runs are below the median of the settings that "
    "have ended (at least 5) at the same tenth of their limit of steps or "
    "time.",
  )
  flags.add_integer(
    "seeds",
    1,
    "Number of runs of each setting; their seeds are FIRST_SEED, "
    "FIRST_SEED + 1, ...",
    1,
    100_000,
  )
  flags.add_integer(
    "first_seed",
    1,
    "Seed of the first run of each setting. After a search with seeds 1 to 5, "
    "--first_seed=6 tests what it found on new ones.",
    0,
    1_000_000_000,
  )
  flags.add_integer(
    "at_once",
    None,
    "Number of runs that are trained at the same time. Default: what the "
    "cores allow, with a core per run in mode 'single', and otherwise one per "
    "worker and one for the trainer.",
    1,
    10_000,
  )
  flags.add_text(
    "ray_address",
    None,
    "Address of a Ray cluster, as HOST:PORT, on whose machines the runs are "
    "trained, each whole on one machine; with --launch=ray, each on all "
    "machines. This machine must belong to the cluster. Without this flag, all "
    "runs are trained on this machine. With --resume, the default is the "
    "sweep's address, and an empty one stands for this machine.",
  )
  flags.add_bool(
    "insecure",
    False,
    "With --ray_address or --launch=ray: use a Ray cluster without tokens or "
    "TLS, and let the machines of a run communicate without certificates. "
    "Anyone who can reach them can then read and change the runs, and run "
    "programs: for private networks only.",
  )
  flags.add_text(
    "name",
    None,
    "Name of the sweep's folder inside --run_dir. Default: 'sweep' and the "
    "time.",
  )
  flags.add_text(
    "run_dir", "runs", "Folder that contains the folders of runs and sweeps."
  )
  flags.add_bool(
    "overwrite",
    False,
    "Replace the sweep of this name, with all its runs, if there is one.",
  )
  flags.add_text(
    "resume",
    None,
    "Folder of a sweep, runs/<name>, whose unfinished runs are resumed or "
    "trained again. A larger --seeds or --settings adds runs. --at_once, "
    "--ray_address and --insecure are those of the sweep unless they are given "
    "again.",
  )
  return flags
