"""Groups: config fields that several algorithm families share.

The defaults are sized for CartPole-v1 on two cores. `rules` checks the rules
between fields.
"""

import math
import re

from slipway.configs import checks, fields

Field = fields.Field

# Most steps over which the graph of a recurrent network can be unrolled.
LONGEST_UNROLL = 1_000

# Fields of a network's torso, the layers from observations to features, and of
# all initial weights.
TORSO: fields.Fields = {
  "network.torso": Field(
    "mlp",
    "layers that turn observations into features: 'mlp', 'minatar_cnn', "
    "'nature_cnn', 'nature_cnn_bfloat16', which is twice as fast on processors "
    "with AVX512_BF16 or AMX, or 'module:name' of the user's own function or "
    "tf.Module",
    checks.one_of(
      ("mlp", "minatar_cnn", "nature_cnn", "nature_cnn_bfloat16"),
      "there would be no network",
      or_user_code=True,
    ),
  ),
  "network.hidden_sizes": Field(
    (64, 64),
    "units of each hidden layer, from the observation on; the last layer "
    "belongs to the head",
    checks.Check(
      lambda x: 0 < len(x) <= 100 and min(x) > 0 and max(x) <= 65_536,
      "1 to 100 sizes in [1, 65536]",
      "the network would have no head, or weights that no memory holds",
      (64, 0),
    ),
  ),
  "network.initializer": Field(
    "truncated_normal",
    "initial weights of linear layers and convolutions: 'truncated_normal' "
    "with deviation 1 / sqrt(fan_in) (Sonnet); 'uniform' within "
    "1 / sqrt(fan_in), which are smaller, also for biases (PyTorch); "
    "'orthogonal', with a gain of 0.01 for the policy's output layer "
    "(Andrychowicz et al. 2021, section 3.2). Other biases start at 0. A "
    "core, noisy layers, categorical critics' outputs and a user's torso have "
    "their own",
    checks.one_of(
      ("truncated_normal", "uniform", "orthogonal"),
      "the weights would have no values",
    ),
  ),
}

# Fields of a recurrent network's memory, besides network.core_size.
CORE: fields.Fields = {
  "network.core": Field(
    "lstm",
    "memory of recurrent networks: 'lstm'; 'gru'; 'attention', a gated "
    "transformer's layer over the last network.core_window steps; or "
    "'module:Name' of the user's own class",
    checks.one_of(
      ("lstm", "gru", "attention"),
      "there would be no memory",
      or_user_code=True,
    ),
  ),
  "network.core_window": Field(
    16,
    "earlier steps that 'attention' sees",
    checks.at_least(1, "there would be no memory", most=512),
  ),
}

# Fields of a memory that a network may have. Critics and policies share theirs.
OPTIONAL_CORE: fields.Fields = {
  **CORE,
  "network.core_size": Field(
    0,
    "units of a core, the memory between a torso and its heads; with separate "
    "torsos each has one; 0: no memory",
    checks.at_least(
      0, "there would be no features", "0: no memory", most=16_384
    ),
  ),
}

# The field of recorded episodes.
DATASET: fields.Fields = {
  "dataset.path": Field(
    "",
    "folder of recorded episodes, or name of one of Minari's local datasets, "
    "from which the run learns without workers, or beside them; '': none",
  ),
}

# The field of batches of recorded and new items.
DATASET_RATIO: fields.Fields = {
  "dataset.ratio": Field(
    0.0,
    "part of each batch that is recorded, where the rest is from the table "
    "that workers fill; Ball et al. 2023, section 4.1: 0.5; 0: a run with "
    "dataset.path has no workers",
    checks.within(0, 1, "a batch has no such part"),
  ),
}

# Fields of the learner: its batches, and the updates of its optimizer.
LEARNER: fields.Fields = {
  "learner.batch_size": Field(
    64,
    "transitions (or sequences, or rollouts) per batch; Mnih et al. 2015 use "
    "32",
    checks.at_least(1, "there would be no batch", most=2**20),
  ),
  "learner.optimizer": Field(
    "adam",
    "'adam'; 'adamw', Adam with learner.weight_decay; 'rmsprop', whose mean "
    "square decays by 0.99; 'sgd'; or 'module:Name' of the user's own class",
    checks.one_of(
      ("adam", "adamw", "rmsprop", "sgd"),
      "nothing would be learned",
      or_user_code=True,
    ),
  ),
  "learner.learning_rate": Field(
    2e-3,
    "the optimizer's step size; Mnih et al. 2015 use RMSProp with 2.5e-4",
    checks.above(0, "nothing would be learned", most=1e3),
  ),
  "learner.warmup_steps": Field(
    0,
    "trainer steps in which all learning rates grow to their values; 0: none",
    checks.at_least(0, "a number of steps is never negative", "0: none"),
  ),
  "learner.decay_steps": Field(
    0,
    "trainer steps over which learning rates, and learner.clip where there is "
    "one, would decay to 0, by learner.schedule; they stay at 5 % of their "
    "values, which 'linear' reaches after 95 % of these steps; 0: no decay",
    checks.at_least(0, "a number of steps is never negative", "0: no decay"),
  ),
  "learner.schedule": Field(
    "linear",
    "shape of the decay over learner.decay_steps: 'linear' or 'cosine'",
    checks.one_of(("linear", "cosine"), "rates would have no values"),
  ),
  "learner.weight_decay": Field(
    0.0,
    "part of the weights (not of biases) that 'adamw' subtracts in a step, "
    "times the learning rate",
    checks.at_least(0, "weights would grow", "0: none", most=1e3),
  ),
  "learner.adam_epsilon": Field(
    1e-8,
    "term of the optimizer's denominator: Kingma and Ba 2015, section 2; in "
    "'rmsprop' it is under the root",
    checks.above(0, "updates could divide by zero", most=1e3),
  ),
  "learner.max_gradient_norm": Field(
    10.0,
    "largest L2 norm of the gradients of all variables together, to which "
    "larger ones are scaled down; Wang et al. 2016, section 4.2",
    checks.above(0, "every gradient would be zero"),
  ),
  "learner.steps_per_call": Field(
    20,
    "trainer steps per call of the compiled tf.function",
    checks.at_least(1, "the trainer would make no steps", most=10_000),
  ),
  "learner.init_from": Field(
    "",
    "folder of a run, from whose newest snapshot a new run takes the weights "
    "of all networks and the statistics of observations, but neither optimizer "
    "nor replay, as for another reward or a harder task; '': new weights",
  ),
  "learner.device": Field(
    "auto",
    "processor of the updates: 'auto', the first GPU if there is one; 'cpu'; "
    "or 'gpu:N', the GPU with index N, from 0, of those that the command sees",
    checks.Check(
      lambda device: re.fullmatch(r"auto|cpu|gpu:\d{1,2}", device) is not None,
      "'auto', 'cpu' or 'gpu:N'",
      "the trainer would have no processor",
      "cuda",
    ),
  ),
  "learner.threads": Field(
    1,
    "TensorFlow threads of the trainer, 1 for small networks; 0: one per core",
    checks.at_least(
      0, "the trainer could not compute", "0: one per core", most=1_024
    ),
  ),
  "learner.threads_per_operation": Field(
    0,
    "TensorFlow threads of the trainer that share one matrix product or "
    "convolution; with 1, threads compute different ones, which is faster "
    "where several small networks are independent; 0: learner.threads",
    checks.at_least(
      0, "the trainer could not compute", "0: learner.threads", most=1_024
    ),
  ),
}

# Fields of the replay table, from which batches are sampled.
REPLAY: fields.Fields = {
  "replay.sampler": Field(
    "uniform",
    "distribution by which items are sampled: 'uniform', or 'prioritized' by "
    "TD errors",
    checks.one_of(("uniform", "prioritized"), "the table could not sample"),
  ),
  "replay.capacity": Field(
    50_000,
    "largest number of transitions in the table; a full table removes the "
    "oldest; Mnih et al. 2015 use 1,000,000",
    checks.at_least(1, "the table could hold no transition"),
  ),
  "replay.min_size": Field(
    1_000,
    "transitions that the table needs before the first update",
    checks.at_least(1, "an empty table can't be sampled"),
  ),
  "replay.samples_per_insert": Field(
    8.0,
    "average number of times that each transition or sequence is sampled, "
    "relabelled copies included, which a rate limiter enforces; Mnih et al. "
    "2015 use 32 / 4; 0: no limit",
    checks.at_least(
      0, "the limiter would block for ever", "0: no limit", most=1e9
    ),
  ),
  "replay.tolerance": Field(
    0.5,
    "largest deviation of the number of samples from samples_per_insert x "
    "inserts, as a fraction of samples_per_insert x min_size; beyond it, the "
    "side that is ahead waits",
    checks.above(0, "the limiter would block for ever", most=1e3),
  ),
  "replay.transitions_per_item": Field(
    1,
    "transitions per item of the table: they are stored and sampled together",
    checks.at_least(1, "items would be empty", most=10_000),
  ),
  "replay.shards": Field(
    1,
    "number of replay servers, each in its own process with a share of the "
    "items",
    checks.within(
      1, 16, "without a server there is no replay; a proxy writes to up to 16"
    ),
  ),
  "sync.environment_steps": Field(
    800,
    "environment steps of all workers per round of mode 'sync', after which "
    "the trainer makes the updates that replay.samples_per_insert allows",
    checks.at_least(1, "a round would have no steps"),
  ),
}

# Fields of hindsight experience replay.
HINDSIGHT: fields.Fields = {
  "replay.hindsight": Field(
    "none",
    "goals of additional copies of each transition, for environments with "
    "goals: 'none'; 'future', achieved after it in its episode; or 'final', "
    "achieved at the episode's end; Andrychowicz et al. 2017, section 4.5",
    checks.one_of(("none", "future", "final"), "there would be no goals"),
  ),
  "replay.hindsight_goals": Field(
    4,
    "k, copies of each transition with 'future', each with a goal of its own; "
    "Andrychowicz et al. 2017, appendix A: 4",
    checks.at_least(1, "there would be no copies", most=100),
  ),
}

# Fields of prioritized sampling, and of the importance weights that correct it.
PRIORITIES: fields.Fields = {
  "replay.priority_exponent": Field(
    0.6,
    "alpha: items are sampled in proportion to |TD error| ** alpha; Schaul et "
    "al. 2016, table 3",
    checks.at_least(0, "large errors would be sampled least", most=10),
  ),
  "replay.importance_exponent_start": Field(
    0.4,
    "initial beta, the exponent of importance weights; Schaul et al. 2016, "
    "table 3",
    checks.within(0, 1, "the weights would not correct the sampling bias"),
  ),
  "replay.importance_exponent_end": Field(
    1.0,
    "final beta, the exponent of importance weights; Schaul et al. 2016, "
    "section 3.4",
    checks.within(0, 1, "the weights would not correct the sampling bias"),
  ),
  "replay.importance_steps": Field(
    20_000,
    "trainer steps over which beta moves linearly from its initial to its "
    "final value",
    checks.at_least(1, "beta would have no schedule"),
  ),
}

# Fields of epsilon-greedy exploration.
EPSILON: fields.Fields = {
  "exploration.schedule": Field(
    "linear",
    "schedule of epsilon: 'linear' decay, or 'ladder', a constant per "
    "environment as in Ape-X",
    checks.one_of(("linear", "ladder"), "workers would have no epsilon"),
  ),
  "exploration.epsilon_start": Field(
    1.0,
    "probability of a random action at the start of 'linear'; Mnih et al. "
    "2015, table 1",
    checks.within(0, 1, "epsilon is a probability"),
  ),
  "exploration.epsilon_end": Field(
    0.05,
    "probability of a random action after the decay of 'linear'; Mnih et al. "
    "2015 use 0.1, on longer games",
    checks.within(0, 1, "epsilon is a probability"),
  ),
  "exploration.decay_steps": Field(
    20_000,
    "environment steps of all workers over which epsilon decays, for 'linear'",
    checks.at_least(1, "epsilon would never decay"),
  ),
  "exploration.evaluation_epsilon": Field(
    0.0,
    "probability of a random action in evaluations and of loaded policies; "
    "Mnih et al. 2015, methods: 0.05, as a greedy policy may wait for ever",
    checks.within(0, 1, "epsilon is a probability"),
  ),
  "exploration.ladder_base": Field(
    0.4,
    "base of 'ladder', by which environment i of N has the epsilon base ** (1 "
    "+ alpha i / (N - 1)); Horgan et al. 2018, section 4.1",
    checks.Check(
      lambda x: 0 < x < 1,
      "in (0, 1)",
      "all environments would have the same epsilon, or none",
      1.0,
    ),
  ),
  "exploration.ladder_exponent": Field(
    7.0,
    "alpha of 'ladder', by which environment i of N has the epsilon base ** (1 "
    "+ alpha i / (N - 1)); Horgan et al. 2018, section 4.1",
    checks.at_least(0, "epsilons would exceed 1", most=100),
  ),
}

# Fields of n-step transitions.
N_STEP: fields.Fields = {
  "adder.n_step": Field(
    1,
    "n, the environment steps per transition, whose rewards are summed",
    checks.at_least(1, "there would be no transition", most=10_000),
  ),
  "adder.discount": Field(
    0.99,
    "gamma, the discount per environment step; Mnih et al. 2015, table 1",
    checks.within(0, 1, "returns would diverge"),
  ),
}

# Fields of sequences of a replay table.
SEQUENCES: fields.Fields = {
  "adder.period": Field(
    10,
    "steps from the start of one sequence to the start of the next; "
    "Kapturowski et al. 2019 use 40, table 2",
    checks.at_least(
      1, "the same sequence would be written again and again", most=1_000
    ),
  ),
  "replay.eta": Field(
    0.9,
    "eta of a sequence's priority, eta max |TD error| + (1 - eta) mean |TD "
    "error|; Kapturowski et al. 2019, section 2.3",
    checks.within(0, 1, "priorities could be negative"),
  ),
}

# The field of the warm-up of a core whose sequences are replayed.
BURN_IN: fields.Fields = {
  "adder.burn_in": Field(
    10,
    "steps at the start of a sequence that only update the core's state, "
    "without a loss; Kapturowski et al. 2019 use 40, table 2",
    checks.at_least(
      0, "sequences would end before they begin", most=LONGEST_UNROLL
    ),
  ),
}

# Fields of the storage of observations that are stacks of frames.
STACKED_FRAMES: fields.Fields = {
  "adder.stacked_frames": Field(
    0,
    "number of frames that an observation stacks, so that each frame is stored "
    "only once; 0: observations are stored whole",
    checks.at_least(
      0,
      "there would be no frames",
      "0: observations are stored whole",
      most=255,
    ),
  ),
}

# The field of image augmentation.
AUGMENTATION: fields.Fields = {
  "learner.random_shift": Field(
    0,
    "largest random shift, in pixels, of the images of a batch, which keeps "
    "networks from overfitting to few images; Kostrikov et al. 2021 use 4 of "
    "84 x 84 pixels; 0: none",
    checks.at_least(0, "a shift has a size", "0: none", most=32),
  ),
}

# Fields of Q-learning: its network, loss and target network.
Q_LEARNING: fields.Fields = {
  "network.dueling": Field(
    False,
    "whether the head has separate streams for state value and advantages; "
    "Wang et al. 2016, equation 9",
  ),
  "learner.huber_delta": Field(
    1.0,
    "absolute TD error from which the Huber loss is linear; Mnih et al. 2015 "
    "clip errors at 1",
    checks.above(0, "the loss would be zero"),
  ),
  "learner.target_update_period": Field(
    100,
    "trainer steps between two copies of the online network to the target "
    "network; Mnih et al. 2015 use 10,000",
    checks.at_least(1, "the target network would never change"),
  ),
  "learner.averaging": Field(
    0.0,
    "weight of the newest network in the moving average of networks that "
    "workers and evaluator get, which is updated with the target network; "
    "Izmailov et al. 2018; 0: they get the newest network itself",
    checks.within(0, 1, "the average would diverge", "0: no average"),
  ),
}

# Fields of the queue of rollouts, each of which is sampled once.
QUEUE: fields.Fields = {
  "variables.max_age": Field(
    4,
    "age of the variables that collected a batch when it is learned from, in "
    "published versions, at which workers wait in mode 'async': the queue is "
    "full then; a worker that is slower than others, or gets variables late, "
    "can exceed it",
    checks.at_least(2, "the queue could hold no batch", most=10_000),
  ),
  "replay.shards": REPLAY["replay.shards"],
}

# Fields of a policy's network.
POLICY: fields.Fields = {
  **TORSO,
  "network.activation": Field(
    "relu",
    "activation function of the linear layers: 'relu' or 'tanh'",
    checks.one_of(("relu", "tanh"), "the layers could not be computed"),
  ),
}

# Fields of the atoms of a distribution of returns.
ATOMS: fields.Fields = {
  "network.atoms": Field(
    51,
    "number of atoms of a 'categorical' head with a support; Bellemare et al. "
    "2017, section 5",
    checks.at_least(2, "there would be no distribution", most=10_000),
  ),
  "network.lowest_return": Field(
    -math.inf,
    "discounted return at the first atom of a 'categorical' head, in units of "
    "the normalized rewards with normalization.rewards; Bellemare et al. 2017 "
    "use -10. -inf, with a highest_return of inf: no support, but 255 atoms at "
    "returns of any size, up to 4.9e8; Hafner et al. 2023, critic learning",
  ),
  "network.highest_return": Field(
    math.inf,
    "discounted return at the last atom of a 'categorical' head, in units of "
    "the normalized rewards with normalization.rewards; Bellemare et al. 2017 "
    "use 10. inf: see lowest_return",
  ),
}

# Values of `evaluation.policy`.
POLICIES = ("greedy", "sampled")
# The field of how policies that are distributions act in evaluations.
EVALUATION_POLICY: fields.Fields = {
  "evaluation.policy": Field(
    "greedy",
    "actions of evaluations and of loaded policies: 'greedy', the most "
    "probable ones; 'sampled' from the policy, as in training, where several "
    "states look alike and only a random policy gets through",
    checks.one_of(POLICIES, "the evaluator would have no actions"),
  ),
}

# Fields of the normalization of observations.
NORMALIZED_OBSERVATIONS: fields.Fields = {
  "normalization.observations": Field(
    False,
    "whether vector observations are normalized to mean 0 and standard "
    "deviation 1 over all batches so far, and clipped to [-10, 10]; Engstrom "
    "et al. 2020, section 2",
  ),
}

# Fields of the normalization of rewards.
NORMALIZED_REWARDS: fields.Fields = {
  "normalization.rewards": Field(
    False,
    "whether the learner divides rewards by the standard deviation of the "
    "running discounted return and clips them to [-10, 10]; Engstrom et al. "
    "2020, section 2; reported returns are not normalized",
  ),
}

# Fields of exploration bonuses, which the learner adds to rewards.
BONUS: fields.Fields = {
  "bonus.kind": Field(
    "none",
    "bonus that the learner adds to the rewards of new steps: 'none'; 'rnd', "
    "for observations that a network has not learned (Burda et al. 2019); "
    "'icm', for steps that a model of the environment did not predict (Pathak "
    "et al. 2017)",
    checks.one_of(("none", "rnd", "icm"), "there would be no bonus"),
  ),
  "bonus.weight": Field(
    1.0,
    "factor of the bonus, whose returns have about this deviation, in units of "
    "the rewards; Burda et al. 2019, section 3.4, use 1, and 2 for rewards",
    checks.above(0, "there would be no bonus", most=1e6),
  ),
  "bonus.features": Field(
    64,
    "outputs of the bonus's networks of observations; Burda et al. 2019 use "
    "512 on Atari, Pathak et al. 2017 288",
    checks.at_least(1, "there would be nothing to predict", most=65_536),
  ),
  "bonus.learning_rate": Field(
    1e-4,
    "Adam's step size for the bonus's networks: with a larger one, all steps "
    "are soon old; Burda et al. 2019, table 1",
    checks.above(0, "all steps would stay new", most=1e3),
  ),
  "bonus.batch_size": Field(
    256,
    "steps of a learner's batch per gradient step of the bonus's networks, or "
    "more, if the batch is no multiple",
    checks.at_least(1, "there would be nothing to learn from"),
  ),
  "bonus.forward_weight": Field(
    0.2,
    "beta of 'icm', the weight of the forward model's loss, where the inverse "
    "model's is 1 - beta; Pathak et al. 2017, section 3",
    checks.Check(
      lambda x: 0 < x < 1,
      "in (0, 1)",
      "one of the models would not learn",
      1.0,
    ),
  ),
}
