"""DQN. Mnih et al. 2015, "Human-level control through deep RL", table 1.

The Atari presets have the paper's values as far as a CPU allows; `cartpole` and
`lunarlander` are sized for two cores. Algorithms that extend DQN start from
its recipe and change the values that their papers change.
"""

from slipway.configs import recipes, tasks, value

# CartPole's values of algorithms that act with their newest network, not with
# an average: a discount of 0.99, and a step size that falls sooner;
# docs/learning.md.
WITHOUT_AVERAGE: recipes.Values = {
  "adder.discount": 0.99,
  "network.highest_return": 100.0,  # 1 / (1 - 0.99)
  "learner.huber_delta": 100.0,
  "learner.averaging": 0.0,
  "learner.decay_steps": 25_000,  # 200,000 environment steps
}

# Comments give the paper's values.
_ATARI: recipes.Values = {
  **tasks.ATARI,
  "network.lowest_return": -10.0,  # Bellemare, section 5
  "network.highest_return": 10.0,  # the same
  "replay.capacity": 500_000,  # 2 GB as frames; Mnih: 1,000,000
  "replay.min_size": 50_000,  # Mnih, table 1
  "exploration.decay_steps": 250_000,  # 1,000,000 frames; Mnih, table 1
  "exploration.epsilon_end": 0.1,  # Mnih, table 1
  "replay.importance_steps": 2_500_000,
  "learner.batch_size": 32,  # Mnih, table 1
  # RL Baselines3 Zoo's for Adam; Mnih, table 1: 2.5e-4, for RMSProp.
  "learner.learning_rate": 1e-4,
  "learner.target_update_period": 2_500,  # 10,000 steps; Mnih: 40,000
  "learner.steps_per_call": 4,
  "learner.threads": 0,
  "variables.publish_period": 40,
  "evaluation.episodes": 5,
  "evaluation.period_s": 600.0,  # an evaluation takes 10 s of a core
  "evaluation.period_steps": 50_000,
  "snapshot.period_s": 600.0,  # frames take 10 s of a core
}

_TASKS = {
  "cartpole": {  # for which the defaults of the other fields are sized
    **tasks.CARTPOLE,
    # A cart may drift for 300 steps before it leaves the track. With 0.99, each
    # action on the way changes the values by too little; docs/learning.md.
    "adder.discount": 0.995,
    "network.lowest_return": 0.0,
    "network.highest_return": 200.0,  # 1 / (1 - 0.995)
    # Errors clipped at 1, as for Atari's clipped rewards, make values of up to
    # 200 medians, which do not see rare failures; docs/learning.md.
    "learner.huber_delta": 200.0,
    # With such errors, gradients of nearly every batch are larger than 10, and
    # scaled down to it all batches would count the same; docs/learning.md.
    "learner.max_gradient_norm": 1e6,
    # Returns of one to three steps bring a failure back too slowly;
    # docs/learning.md.
    "adder.n_step": 15,
    # Single networks differ a lot in how well they act, and their average is
    # steady, so that the step size can fall slowly. With 12,500 updates one
    # seed had not learned by then; docs/learning.md.
    "learner.averaging": 0.1,
    "learner.decay_steps": 50_000,  # 400,000 environment steps
    # All of a long run, in up to 0.9 GB. With the last 50,000 transitions, some
    # policies fell back long after they had learned; docs/learning.md.
    "replay.capacity": 500_000,
  },
  "lunarlander": {
    **tasks.LUNARLANDER,
    "network.lowest_return": -300.0,
    "network.highest_return": 300.0,
    # These are of RL Baselines3 Zoo (rl_zoo3 2.9.2, dqn.yml).
    "network.hidden_sizes": (256, 256),
    "network.initializer": "uniform",  # PyTorch's, for which they were tuned
    "replay.capacity": 50_000,
    "replay.samples_per_insert": 128.0,  # an update per environment step
    "learner.batch_size": 128,
    "learner.learning_rate": 6.3e-4,
    "learner.target_update_period": 250,
    # These are not.
    # With an epsilon that falls to 0.1, as the Zoo's, some seeds hover until
    # the end; docs/learning.md.
    "exploration.schedule": "ladder",
    "replay.min_size": 1_000,
    "replay.importance_steps": 100_000,
    "learner.decay_steps": 100_000,  # as many environment steps
    "adder.n_step": 3,  # docs/learning.md
    # A batch with a landing has larger gradients than the others. If norms are
    # clipped, it counts no more than they do; docs/learning.md.
    "learner.huber_delta": 100.0,
    "learner.max_gradient_norm": 1e6,
    "evaluation.period_s": 10.0,  # an evaluation takes 2 s of a core
    "evaluation.period_steps": 2_500,
  },
  "generic": {
    **tasks.GENERIC,
    "network.hidden_sizes": (256, 256),
    "replay.capacity": 200_000,
    "replay.min_size": 2_000,
    "replay.samples_per_insert": 32.0,  # an update per four steps
    "learner.batch_size": 128,
    "learner.learning_rate": 3e-4,
    "learner.target_update_period": 250,
    "learner.huber_delta": 10.0,  # the scale of normalized returns
    "adder.n_step": 3,
    "evaluation.period_s": 2.0,
    "evaluation.period_steps": 2_500,
  },
  "minatar_breakout": {
    **tasks.MINATAR,
    # Discounted, in the best agents' games, and below 0, since the values of a
    # distribution start in the middle of the support; docs/learning.md.
    "network.lowest_return": -20.0,
    "network.highest_return": 20.0,
    "replay.capacity": 100_000,  # Young and Tian, section 4
    "replay.min_size": 5_000,  # the same
    "exploration.decay_steps": 100_000,  # the same
    "exploration.epsilon_end": 0.1,  # the same
    "replay.importance_steps": 100_000,
    "learner.batch_size": 32,  # Young and Tian, section 4: one per step
    "learner.learning_rate": 2.5e-4,  # the same, for RMSProp
    "learner.target_update_period": 1_000,  # the same
    "evaluation.period_s": 10.0,
    "evaluation.period_steps": 10_000,
  },
  "pong": {  # a smaller replay and faster decay than for other games
    **_ATARI,
    **tasks.PONG_SOLVED,
    "replay.capacity": 100_000,  # 0.3 GB as frames
    "replay.min_size": 10_000,
    "exploration.decay_steps": 200_000,
    "exploration.epsilon_end": 0.02,
    "replay.importance_steps": 100_000,
    "learner.target_update_period": 500,
    "evaluation.period_s": 180.0,
    "evaluation.period_steps": 10_000,
    "snapshot.period_s": 300.0,
  },
  "atari57": _ATARI,
}

RECIPE = recipes.Recipe({"agent": "dqn"}, _TASKS, fields=value.FIELDS)
PRESETS, get_config = RECIPE.presets, RECIPE.get_config
