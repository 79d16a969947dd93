"""Groups: fields that several families of algorithms share, with their rules.

The defaults are sized for CartPole-v1 on two cores.
"""

import ml_collections

from slipway.configs import checks, fields

Field = fields.Field

TORSO: fields.Fields = {
  "network.torso": Field(
    "mlp",
    "what reads observations: 'mlp', 'minatar_cnn', 'nature_cnn', or your own "
    "function as 'module:name'",
    checks.part(
      ("mlp", "minatar_cnn", "nature_cnn"), "there would be no network"
    ),
  ),
  "network.hidden_sizes": Field(
    (64, 64),
    "units of the hidden layers; the last one belongs to the head",
    checks.matching(
      lambda x: 0 < len(x) <= 100 and min(x) > 0 and max(x) <= 65_536,
      "1 to 100 sizes in [1, 65536]",
      "the network would have no head, or weights that no memory holds",
      (64, 0),
    ),
  ),
}

LEARNER: fields.Fields = {
  "learner.batch_size": Field(
    64,
    "transitions, or sequences, per update; Mnih et al. 2015 use 32",
    checks.at_least(1, "there would be no batch").up_to(
      2**20, "no memory holds the batch"
    ),
  ),
  "learner.learning_rate": Field(
    2e-3,
    "Adam's step size; Mnih et al. 2015 use RMSProp with 2.5e-4",
    checks.above(0, "nothing would be learned").up_to(
      1e3, "the first update would ruin the variables"
    ),
  ),
  "learner.adam_epsilon": Field(
    1e-8,
    "Adam's epsilon; Kingma and Ba 2015, section 2",
    checks.above(0, "updates could divide by zero").up_to(
      1e3, "updates would vanish"
    ),
  ),
  "learner.max_gradient_norm": Field(
    10.0,
    "L2 norm over all variables at which gradients are clipped; Wang et al. "
    "2016, section 4.2",
    checks.above(0, "every gradient would be zero"),
  ),
  "learner.steps_per_call": Field(
    20,
    "trainer steps inside one call of a tf.function",
    checks.at_least(1, "the trainer would never step").up_to(
      10_000, "a call could not be interrupted for hours"
    ),
  ),
  "learner.threads": Field(
    1,
    "the trainer's TensorFlow threads, 1 for small networks; 0: one per core",
    checks.at_least(
      0, "the trainer could not compute", "0: one per core"
    ).up_to(1_024, "no machine has more cores"),
  ),
}

REPLAY: fields.Fields = {
  "replay.sampler": Field(
    "uniform",
    "how items are sampled: 'uniform' or 'prioritized'",
    checks.one_of(("uniform", "prioritized"), "the table could not sample"),
  ),
  "replay.capacity": Field(
    50_000,
    "transitions in the table; Mnih et al. 2015 use 1,000,000",
    checks.at_least(1, "the table could hold nothing"),
  ),
  "replay.min_size": Field(
    1_000,
    "transitions in the table before the first update",
    checks.at_least(1, "an empty table can't be sampled"),
  ),
  "replay.samples_per_insert": Field(
    8.0,
    "samples per inserted transition or sequence that the rate limiter allows; "
    "Mnih et al. 2015 use 32 / 4; 0: no limit",
    checks.at_least(0, "the limiter would block for ever", "0: no limit").up_to(
      1e9, "the limiter counts in doubles"
    ),
  ),
  "replay.tolerance": Field(
    0.5,
    "share of min_size by which the ratio may drift",
    checks.above(0, "the limiter would block for ever").up_to(
      1e9, "the limiter counts in doubles"
    ),
  ),
  "replay.transitions_per_item": Field(
    1,
    "transitions that are written, kept and sampled together",
    checks.at_least(1, "nothing would be written").up_to(
      10_000, "a batch could not consist of such items"
    ),
  ),
  "replay.shards": Field(
    1,
    "replay servers that share the transitions, each in its own process",
    checks.within(
      1, 16, "there would be no replay, or more than a proxy can relay to"
    ),
  ),
  "sync.environment_steps": Field(
    800,
    "environment steps of all workers between two publications in mode 'sync'; "
    "the trainer then makes the updates that samples_per_insert grants",
    checks.at_least(1, "a round would have no steps"),
  ),
}

PRIORITIES: fields.Fields = {
  "replay.priority_exponent": Field(
    0.6,
    "alpha, the exponent of priorities; Schaul et al. 2016, table 3",
    checks.at_least(0, "large errors would be sampled least").up_to(
      10, "powers of errors would be infinite"
    ),
  ),
  "replay.importance_exponent_start": Field(
    0.4,
    "beta, the exponent of importance weights, at first; Schaul, table 3",
    checks.within(0, 1, "the weights would overcorrect"),
  ),
  "replay.importance_exponent_end": Field(
    1.0,
    "beta at the end; Schaul et al. 2016, section 3.4",
    checks.within(0, 1, "the weights would overcorrect"),
  ),
  "replay.importance_steps": Field(
    20_000,
    "trainer steps over which beta is annealed",
    checks.at_least(1, "beta could not be annealed"),
  ),
}

EPSILON: fields.Fields = {
  "exploration.schedule": Field(
    "linear",
    "epsilons of the environments: 'linear' decay, or a 'ladder' of constants",
    checks.one_of(("linear", "ladder"), "workers would have no epsilon"),
  ),
  "exploration.epsilon_start": Field(
    1.0,
    "probability of a random action at first; Mnih et al. 2015, table 1",
    checks.within(0, 1, "it is a probability"),
  ),
  "exploration.epsilon_end": Field(
    0.05,
    "probability of a random action after the decay; Mnih et al. 2015 use 0.1 "
    "on longer games",
    checks.within(0, 1, "it is a probability"),
  ),
  "exploration.decay_steps": Field(
    20_000,
    "environment steps of all workers over which epsilon decays",
    checks.at_least(1, "epsilon would never decay"),
  ),
  "exploration.ladder_base": Field(
    0.4,
    "epsilon, the first of the ladder; Horgan et al. 2018, section 4.1",
    checks.matching(
      lambda x: 0 < x < 1, "in (0, 1)", "it is a probability", 1.0
    ),
  ),
  "exploration.ladder_exponent": Field(
    7.0,
    "alpha, the exponent of the ladder; Horgan et al. 2018, section 4.1",
    checks.at_least(0, "epsilons would exceed 1").up_to(
      100, "most epsilons would be zero"
    ),
  ),
}

N_STEP: fields.Fields = {
  "adder.n_step": Field(
    1,
    "environment steps that are summed into one return",
    checks.at_least(1, "there would be no transition").up_to(
      10_000, "no worker could hold the unfinished transitions"
    ),
  ),
  "adder.discount": Field(
    0.99,
    "gamma per environment step; Mnih et al. 2015, table 1",
    checks.within(0, 1, "returns would diverge"),
  ),
}

STACKED_FRAMES: fields.Fields = {
  "adder.stacked_frames": Field(
    0,
    "frames in an observation, each of which is stored once; 0: observations "
    "are stored whole",
    checks.at_least(
      0, "there would be no frames", "0: observations are stored whole"
    ).up_to(255, "the offset of a frame is a byte"),
  ),
}

Q_LEARNING: fields.Fields = {
  "network.dueling": Field(
    False, "whether value and advantages have streams; Wang 2016, equation 9"
  ),
  "learner.huber_delta": Field(
    1.0,
    "TD error from which the loss is linear; Mnih et al. 2015 clip errors at 1",
    checks.above(0, "the loss would be zero"),
  ),
  "learner.target_update_period": Field(
    100,
    "trainer steps between two copies to the target network; Mnih et al. 2015 "
    "use 10,000",
    checks.at_least(1, "the target network would never change"),
  ),
}

QUEUE: fields.Fields = {
  "variables.max_age": Field(
    4,
    "versions by which the variables that collected a batch may be older than "
    "those that learn from it, in mode 'async'; the queue is as long as that "
    "allows, and workers wait when it is full",
    checks.at_least(2, "nothing could be written").up_to(
      10_000, "no memory holds the rollouts"
    ),
  ),
  "replay.shards": REPLAY["replay.shards"],
}

POLICY: fields.Fields = {
  **TORSO,
  "network.activation": Field(
    "relu",
    "of the linear layers: 'relu' or 'tanh'",
    checks.one_of(("relu", "tanh"), "the layers could not be computed"),
  ),
  "network.orthogonal": Field(
    False,
    "whether weights start orthogonal, those of the policy's output small",
  ),
}


NORMALIZED_OBSERVATIONS: fields.Fields = {
  "normalization.observations": Field(
    False,
    "whether networks get observations with mean 0 and deviation 1, by the "
    "batches that were learned from, clipped at 10; Engstrom et al. 2020, "
    "section 2; for vectors",
  ),
}

NORMALIZED_REWARDS: fields.Fields = {
  "normalization.rewards": Field(
    False,
    "whether the learner divides rewards by the deviation of the running "
    "discounted return, and clips them at 10; Engstrom et al. 2020, section 2; "
    "reported returns are the environment's own",
  ),
}


def check_replay(config: ml_collections.ConfigDict) -> None:
  """Checks the rules between the fields of `REPLAY` and the others.

  Those between its sizes are checked by `slipway.replay.tables.table_spec`.

  Args:
    config: the whole config, with `REPLAY` and `LEARNER`.

  Raises:
    ValueError: one line with the fields, their values and the consequence.
  """
  _check_collection(config)
  if config.mode == "sync" and not config.replay.samples_per_insert:
    raise ValueError(
      "config.replay.samples_per_insert=0.0 is no ratio, so in mode 'sync' "
      "the number of updates per round would be unknown: give one"
    )
  _check_shards(config)


def check_stacked_frames(config: ml_collections.ConfigDict) -> None:
  """Checks the rules between the field of `STACKED_FRAMES` and the others.

  Args:
    config: the whole config.

  Raises:
    ValueError: one line with the fields, their values and the consequence.
  """
  if config.environment.action_mask and config.adder.stacked_frames:
    raise ValueError(
      f"config.adder.stacked_frames={config.adder.stacked_frames} stores "
      "frames without the action masks that config.environment.action_mask="
      "True adds to observations: use --config.adder.stacked_frames=0"
    )


def check_queue(config: ml_collections.ConfigDict) -> None:
  """Checks the rules between the fields of `QUEUE` and the others.

  Args:
    config: the whole config, with `QUEUE` and `LEARNER`.

  Raises:
    ValueError: one line with the fields, their values and the consequence.
  """
  _check_collection(config)
  _check_shards(config)


def _check_collection(config: ml_collections.ConfigDict) -> None:
  workers, mode = config.topology.workers, config.mode
  if workers and config.environment.external:
    raise ValueError(
      f"config.topology.workers={workers} with config.environment.external="
      "True, an environment without steps: workers could not collect; use 0, "
      "so that external processes do"
    )
  if workers:
    return
  if mode != "async":
    raise ValueError(
      f"config.topology.workers=0 with config.mode={mode!r}, which counts what "
      "workers collect: the run would wait for ever; use 1 or more, or mode "
      "'async', in which external processes can collect"
    )
  if not config.topology.proxy:
    raise ValueError(
      "config.topology.workers=0 with config.topology.proxy=False: external "
      "processes write through a proxy, so nothing would be collected; use "
      "True, or 1 or more workers"
    )


def _check_shards(config: ml_collections.ConfigDict) -> None:
  shards, topology = config.replay.shards, config.topology
  if shards == 1:
    return
  if config.mode == "single":
    raise ValueError(
      f"config.replay.shards={shards} is not for mode 'single', whose one "
      "process has one table: use 1, or another mode"
    )
  if topology.replay != "own_process":
    raise ValueError(
      f"config.replay.shards={shards} needs processes of their own, but with "
      f"config.topology.replay={topology.replay!r} the trainer hosts the one "
      "table: use 'own_process', or 1 shard"
    )
