"""DQN. Mnih et al. 2015, "Human-level control through deep RL", table 1.

`:pong` holds the paper's numbers where a CPU allows; `:cartpole` and
`:lunarlander` are sized for two cores. Algorithms that extend DQN start from
this file and change what their papers change.
"""

import ml_collections

ATARI = ("pong", "atari57")
PRESETS = ("cartpole", "lunarlander", "minatar_breakout", *ATARI)


def get_config(preset: str = "cartpole") -> ml_collections.ConfigDict:
  """The whole experiment: every field that can be overridden by flag.

  Args:
    preset: one of `PRESETS`.

  Raises:
    ValueError: the preset is unknown.
  """
  c = ml_collections.ConfigDict()
  c.agent = "dqn"  # name in agents/registry.py
  c.mode = "async"  # or "sync", or "single": one process; --mode sets it
  c.seed = 1

  c.environment = ml_collections.ConfigDict()
  c.environment.name = "CartPole-v1"  # any gymnasium id
  c.environment.game = ""  # what stands for {game} in the name
  c.environment.kwargs = ml_collections.ConfigDict()  # its constructor's

  c.network = ml_collections.ConfigDict()
  c.network.torso = "mlp"  # "mlp", "minatar_cnn" or "nature_cnn"
  c.network.hidden_sizes = (64, 64)  # units; the last one is the head's
  c.network.dueling = False  # Wang et al. 2016, equation 9
  # What is learned of a return: "expected", "categorical" (Bellemare et al.
  # 2017), "quantile" (Dabney et al. 2018a) or "implicit_quantile" (2018b).
  c.network.head = "expected"
  c.network.atoms = 51  # of "categorical"; Bellemare, section 5
  # Discounted, of the atoms; Bellemare: -10 and 10, of clipped rewards.
  c.network.lowest_return = 0.0
  c.network.highest_return = 100.0  # 1 / (1 - 0.99)
  c.network.quantiles = 200  # of an update; Dabney 2018a, section 5
  c.network.cosines = 64  # of "implicit_quantile"; Dabney 2018b, section 3.1
  c.network.noisy = False  # Fortunato et al. 2018, factorised, in the head
  c.network.noisy_std = 0.5  # sigma_0; Fortunato, section 3.2

  c.adder = ml_collections.ConfigDict()
  c.adder.n_step = 1  # transitions summed into one return
  c.adder.discount = 0.99  # per environment step; Mnih, table 1
  c.adder.stacked_frames = 0  # in an observation, each stored once; 0: whole

  c.exploration = ml_collections.ConfigDict()
  c.exploration.schedule = "linear"  # "linear" or "ladder"
  c.exploration.epsilon_start = 1.0  # Mnih, table 1
  c.exploration.epsilon_end = 0.05  # Mnih: 0.1; the toys are shorter
  c.exploration.decay_steps = 20_000  # environment steps, all workers'
  c.exploration.ladder_base = 0.4  # epsilon; Horgan et al. 2018, section 4.1
  c.exploration.ladder_exponent = 7.0  # alpha; Horgan, section 4.1

  c.replay = ml_collections.ConfigDict()
  c.replay.sampler = "uniform"  # "uniform" or "prioritized"
  c.replay.capacity = 50_000  # transitions; Mnih: 1,000,000
  c.replay.min_size = 1_000  # transitions before the first update
  c.replay.samples_per_insert = 8.0  # transitions; Mnih: 32 / 4
  c.replay.transitions_per_item = 1  # written, kept and drawn together
  c.replay.shards = 1  # servers, in processes of their own, that share it
  c.replay.tolerance = 0.5  # part of min_size that the ratio may drift
  c.replay.priority_exponent = 0.6  # alpha; Schaul et al. 2016, table 3
  c.replay.importance_exponent_start = 0.4  # beta; Schaul, table 3
  c.replay.importance_exponent_end = 1.0  # beta; Schaul, section 3.4
  c.replay.importance_steps = 20_000  # trainer steps of the annealing

  c.learner = ml_collections.ConfigDict()
  c.learner.batch_size = 64  # transitions; Mnih: 32
  c.learner.double = False  # van Hasselt et al. 2016, equation 4
  c.learner.learning_rate = 2e-3  # Adam; Mnih: RMSProp 2.5e-4
  c.learner.adam_epsilon = 1e-8  # Kingma and Ba 2015, section 2
  c.learner.huber_delta = 1.0  # TD error; Mnih: errors clipped at 1
  c.learner.max_gradient_norm = 10.0  # L2, all variables; Wang, section 4.2
  c.learner.munchausen_scale = 0.0  # alpha; 0: none; Vieillard et al. 2020
  c.learner.munchausen_temperature = 0.03  # tau; Vieillard, section 4
  c.learner.munchausen_lowest = -1.0  # l_0; Vieillard, section 4
  c.learner.target_update_period = 100  # trainer steps; Mnih: 10,000
  c.learner.steps_per_call = 20  # trainer steps inside one tf.function call
  c.learner.threads = 1  # of TensorFlow, for small networks; 0: one a core

  c.variables = ml_collections.ConfigDict()
  c.variables.publish_period = 20  # trainer steps

  c.sync = ml_collections.ConfigDict()
  # Environment steps of all workers between two publications; the trainer
  # takes as many updates as samples_per_insert grants them.
  c.sync.environment_steps = 800

  c.topology = ml_collections.ConfigDict()
  c.topology.workers = 1  # processes; on machines, on each of them
  c.topology.environments_per_worker = 8  # stepped at once
  c.topology.proxy = True  # workers write through their machine's proxy
  c.topology.replay = "with_trainer"  # or "own_process"
  # The rest of it is for --launch=ray.
  c.topology.machines = 0  # with workers; 0: all but the one that starts it
  c.topology.home_workers = 0  # on the machine that starts the run
  c.topology.trainer_machine = "home"  # or "own": not the one that starts it
  c.topology.trainer_cpus = 1.0  # cores, of Ray's; replay's too
  c.topology.trainer_gpus = 0.0  # GPUs, of Ray's
  c.topology.cpus_per_worker = 1.0  # cores, of Ray's

  c.evaluation = ml_collections.ConfigDict()
  c.evaluation.episodes = 20  # greedy episodes an evaluation, all at once
  c.evaluation.period_s = 0.5  # seconds from one's end to the next's start
  c.evaluation.period_steps = 500  # trainer steps; instead, in one process

  c.snapshot = ml_collections.ConfigDict()
  c.snapshot.period_s = 60.0  # seconds between snapshots of the whole run
  c.snapshot.keep = 2  # newest snapshots kept, beside the best one
  # Folder that they are copied to, for other machines: a path that these share,
  # or an URL that fsspec knows; "": none.
  c.snapshot.url = ""

  c.watchdog = ml_collections.ConfigDict()
  # Seconds in which nothing moves until it is said who waits for what: longer
  # than nodes take to start, or a call of the trainer on a slow CPU.
  c.watchdog.period_s = 30.0

  c.rates = ml_collections.ConfigDict()
  c.rates.environment_steps_per_s = 0.0  # all workers'; 0: as fast as they can

  c.restarts = ml_collections.ConfigDict()
  c.restarts.budget = 5  # of one node within a period; then the run fails
  c.restarts.period_s = 300.0  # seconds after which a failure is forgiven

  # Each limit stops the run; 0 (or inf for the return) means no limit.
  c.limits = ml_collections.ConfigDict()
  c.limits.environment_steps = 0  # all workers'
  c.limits.trainer_steps = 0
  c.limits.wall_clock_s = 0.0  # seconds since the command
  c.limits.target_return = 475.0  # mean of one evaluation's episodes

  if preset not in PRESETS:
    raise ValueError(
      f"config preset {preset!r} is unknown, so there are no numbers to "
      f"run with: choose one of {', '.join(PRESETS)}"
    )
  if preset == "lunarlander":
    _lunarlander(c)
  elif preset == "minatar_breakout":
    _minatar(c, "Breakout")
  elif preset in ATARI:
    _atari(c, "Pong")
  if preset == "pong":
    _pong(c)
  return c


def _lunarlander(c: ml_collections.ConfigDict) -> None:
  c.environment.name = "LunarLander-v3"
  c.network.hidden_sizes = (128, 128)
  c.network.lowest_return = -300.0
  c.network.highest_return = 300.0
  c.replay.capacity = 100_000
  c.replay.min_size = 5_000
  c.exploration.decay_steps = 100_000
  c.replay.importance_steps = 100_000
  c.learner.learning_rate = 5e-4
  c.learner.target_update_period = 500
  c.evaluation.period_s = 5.0
  c.evaluation.period_steps = 2_500
  c.limits.target_return = 200.0  # gymnasium: "solved"


def _minatar(c: ml_collections.ConfigDict, game: str) -> None:
  c.environment.name = "environments.minatar:MinAtar/{game}-v1"
  c.environment.game = game
  c.network.torso = "minatar_cnn"
  c.network.hidden_sizes = (128,)  # Young and Tian 2019, section 4
  c.network.highest_return = 50.0  # of the best agents' games, discounted
  c.replay.capacity = 100_000  # Young and Tian, section 4
  c.replay.min_size = 5_000  # the same
  c.exploration.decay_steps = 100_000  # the same
  c.exploration.epsilon_end = 0.1  # the same
  c.replay.importance_steps = 100_000
  c.learner.batch_size = 32  # Young and Tian, section 4: one each step
  c.learner.learning_rate = 2.5e-4  # the same, of RMSProp
  c.learner.target_update_period = 1_000  # the same
  c.evaluation.period_s = 10.0
  c.evaluation.period_steps = 10_000
  c.limits.environment_steps = 1_000_000  # Young and Tian: 5,000,000
  c.limits.target_return = float("inf")


def _atari(c: ml_collections.ConfigDict, game: str) -> None:
  c.environment.name = "ALE/{game}-v5"
  c.environment.game = game
  # Machado et al. 2018 advise sticky actions; the DQN papers had none.
  c.environment.kwargs.repeat_action_probability = 0.0
  c.environment.kwargs.frameskip = 4  # frames an action; Mnih, table 1
  c.environment.kwargs.reward_clipping = True  # to [-1, 1]; Mnih, methods
  c.environment.kwargs.noop_max = 30  # no-ops at a start; Mnih, table 1
  # 5 minutes of play; Mnih, methods: a greedy policy may stall for ever.
  c.environment.kwargs.max_num_frames_per_episode = 18_000
  c.network.torso = "nature_cnn"
  c.network.hidden_sizes = (512,)  # Mnih, methods
  c.network.lowest_return = -10.0  # Bellemare, section 5
  c.network.highest_return = 10.0  # the same
  c.adder.stacked_frames = 4  # of ale_py's observations; Mnih, methods
  c.replay.capacity = 500_000  # 2 GB as frames; Mnih: 1,000,000
  c.replay.min_size = 50_000  # Mnih, table 1
  c.exploration.decay_steps = 250_000  # 1,000,000 frames; Mnih, table 1
  c.exploration.epsilon_end = 0.1  # Mnih, table 1
  c.replay.importance_steps = 2_500_000
  c.learner.batch_size = 32  # Mnih, table 1
  c.learner.learning_rate = 1e-4
  c.learner.target_update_period = 2_500  # 10,000 steps; Mnih: 40,000
  c.learner.steps_per_call = 4
  c.learner.threads = 0
  c.variables.publish_period = 40
  c.evaluation.episodes = 5
  c.evaluation.period_s = 600.0  # an evaluation takes 10 s of a core
  c.evaluation.period_steps = 50_000
  c.snapshot.period_s = 600.0  # seconds; frames take 10 s of a core
  c.limits.environment_steps = 10_000_000  # Mnih: 50,000,000
  c.limits.target_return = float("inf")


def _pong(c: ml_collections.ConfigDict) -> None:
  """The easiest game, learned with fewer of all."""
  c.replay.capacity = 100_000  # 0.3 GB as frames
  c.replay.min_size = 10_000
  c.exploration.decay_steps = 200_000
  c.exploration.epsilon_end = 0.02
  c.replay.importance_steps = 100_000
  c.learner.target_update_period = 500
  c.evaluation.period_s = 180.0
  c.evaluation.period_steps = 10_000
  c.snapshot.period_s = 300.0
  c.limits.environment_steps = 0
  c.limits.target_return = 18.0  # of at most 21
