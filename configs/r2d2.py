"""R2D2. Kapturowski et al. 2019, "Recurrent experience replay in distributed
reinforcement learning".

Ape-X DQN with memory, whose items are sequences: table 2 and section 2.3.
"""

import ml_collections

from slipway.configs import (
  base,
  checks,
  dqn,
  fields,
  groups,
  recipes,
  rules,
)

# The config fields that R2D2 has in addition to shared ones, by dotted name.
_R2D2_FIELDS: fields.Fields = {
  **groups.CORE,
  "network.core_size": fields.Field(
    64,
    "units of the core; Kapturowski et al. 2019 use an LSTM of 512, section "
    "2.3",
    checks.at_least(1, "there would be no recurrent state", most=16_384),
  ),
  "adder.unroll": fields.Field(
    20,
    "steps of a sequence after the burn-in, from which the learner learns; "
    "Kapturowski et al. 2019 use 80, table 2",
    checks.at_least(
      1, "there would be nothing to learn from", most=groups.LONGEST_UNROLL
    ),
  ),
}

# All config fields of R2D2, by dotted name.
FIELDS: fields.Fields = {
  **base.FIELDS,
  **groups.TORSO,
  **groups.NORMALIZED_OBSERVATIONS,
  **groups.Q_LEARNING,
  **groups.N_STEP,
  **groups.SEQUENCES,
  **groups.BURN_IN,
  **groups.EPSILON,
  **groups.REPLAY,
  **groups.PRIORITIES,
  **groups.LEARNER,
  **groups.DATASET,
  **groups.DATASET_RATIO,
  **_R2D2_FIELDS,
}

# The fields that have an effect only with certain values of others.
_REQUIREMENTS: rules.Requirements = {
  **rules.EPSILON_REQUIREMENTS,
  **rules.CORE_REQUIREMENTS,
  ("replay.sampler", "prioritized"): (*groups.PRIORITIES, "replay.eta"),
}

_PAPER = {
  "agent": "r2d2",
  "network.dueling": True,  # section 2.3, with the next two
  "exploration.schedule": "ladder",
  "replay.sampler": "prioritized",
  "topology.workers": 2,
  "adder.n_step": 5,  # section 2.3
  "learner.batch_size": 16,  # sequences; table 2: 64
  # Table 2 has squared errors, as these are up to 1. Since values are rescaled,
  # 100 to 9, few are larger, and the others do not outweigh a batch.
  "learner.huber_delta": 1.0,
  "learner.decay_steps": 0,  # in updates, of which there are fewer
  "replay.samples_per_insert": 4.0,  # per sequence; each step is in two
  "replay.priority_exponent": 0.9,  # section 2.3
  "replay.importance_exponent_start": 0.6,  # section 2.3
  "replay.importance_exponent_end": 0.6,  # the same
  "learner.steps_per_call": 4,
  # In updates, each of which takes 40 environment steps, ten times as many as
  # one of Ape-X DQN (five times on CartPole). With target networks of 4,000
  # steps, and policies that the workers get every 4,000, CartPole is learned
  # later; docs/learning.md.
  "learner.target_update_period": 25,  # 1,000 environment steps
  "variables.publish_period": 4,
}

# As Ape-X DQN, for tasks with small observations.
_SMALL = {"topology.environments_per_worker": 32}
_ATARI = {
  "environment.reward_clip": 0.0,  # section 2.3: rescaled values instead
  "environment.kwargs.stack_num": 1,  # the core keeps the history; paper: 4
  "network.hidden_sizes": (512, 512),  # in the torso, and in the head
  "network.core_size": 512,  # section 2.3
  "adder.discount": 0.997,  # section 2.3
  "adder.unroll": 40,
  "adder.period": 20,
  "adder.burn_in": 20,
  "learner.learning_rate": 1e-4,  # table 2
  "learner.adam_epsilon": 1e-3,  # table 2
  "replay.samples_per_insert": 1.0,  # the paper, section 2.3, has 0.8
}

# Evaluations have Ape-X DQN's periods in environment steps.
_TASKS = {
  "cartpole": {
    **_SMALL,
    "network.dueling": False,  # as Ape-X
    "adder.discount": 0.99,  # the same
    "learner.averaging": 0.0,  # the same
    "learner.decay_steps": 5_000,  # 200,000 environment steps
    "replay.capacity": 50_000,  # Ape-X's 75,000 was not tried
    "evaluation.period_steps": 50,
  },
  "lunarlander": {**_SMALL, "evaluation.period_steps": 250},
  "minatar_breakout": {**_SMALL, "evaluation.period_steps": 1_000},
  # An update takes 320 environment steps.
  "pong": {**_ATARI, "evaluation.period_steps": 125},
  "atari57": {
    **_ATARI,
    "learner.max_gradient_norm": 40.0,  # as Ape-X
    "evaluation.period_steps": 625,
  },
}

RECIPE = recipes.Recipe(_PAPER, _TASKS, family=dqn.RECIPE, fields=FIELDS)
PRESETS, get_config = RECIPE.presets, RECIPE.get_config


def check(config: ml_collections.ConfigDict) -> None:
  """Checks the rules between fields of R2D2's config."""
  rules.check_replay(config)
  rules.check_period(config)
  rules.check_ungrouped(config)
  rules.check_requirements(config, FIELDS, _REQUIREMENTS)
  rules.check_core(config)
