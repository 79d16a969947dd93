"""MuZero. Danihelka et al. 2022, "Policy improvement by planning with Gumbel".

Gumbel MuZero: a search in a learned model of the environment. What no comment
names is of Schrittwieser et al. 2020 (MuZero), appendices F and G, for Atari.
"""

import ml_collections

from slipway.configs import (
  base,
  checks,
  fields,
  groups,
  recipes,
  rules,
  tasks,
)

Field = fields.Field

# The config fields that only MuZero has, by dotted name.
_MUZERO_FIELDS: fields.Fields = {
  "network.latent_size": Field(
    64,
    "numbers of a latent state, in which the model predicts",
    checks.at_least(1, "there would be no state", most=16_384),
  ),
  "network.support": Field(
    30,
    "largest h(x) of the distributions of values and rewards x, whose atoms "
    "are the integers up to it; 30 stands for 900; Schrittwieser et al. 2020, "
    "appendix F: 300, for 67,000",
    checks.within(1, 1_000, "values could not be represented"),
  ),
  "adder.unroll": Field(
    5,
    "K, the steps over which the model is unrolled; Schrittwieser et al. 2020, "
    "appendix G",
    checks.at_least(
      1, "the model would not be learned", most=groups.LONGEST_UNROLL
    ),
  ),
  "adder.period": groups.SEQUENCES["adder.period"],
  "search.simulations": Field(
    16,
    "n, the simulations of a search, each of which calls the model once; "
    "Danihelka et al. 2022, section 6: 50 on Atari, but also 2",
    checks.at_least(1, "there would be no search", most=10_000),
  ),
  "search.considered_actions": Field(
    16,
    "m, the largest number of actions that the root of a search considers; "
    "Danihelka et al. 2022, section 6",
    checks.at_least(1, "no action could be chosen", most=10_000),
  ),
  "search.sampled_actions": Field(
    20,
    "A, the continuous actions that the policy samples in each state, among "
    "which a search chooses; Hubert et al. 2021, section 5.1",
    checks.at_least(2, "a search would have no choice", most=1_000),
  ),
  "search.random_share": Field(
    0.0,
    "share of steps in which workers take any action, or any sampled one, in "
    "place of the search's, without which values of actions that sure "
    "policies never take are wrong; the paper has none",
    checks.within(0, 1, "a share would be impossible", "0: none"),
  ),
  "search.value_scale": Field(
    0.1,
    "c_scale, the weight of Q-values, which the search scales to [0, 1], "
    "relative to the prior's logits; Danihelka et al. 2022, section 6, on "
    "Atari",
    checks.above(0, "the search would only follow the prior", most=1e3),
  ),
  "learner.value_weight": Field(
    0.25,
    "weight of the values' loss, where those of rewards and policies are 1; "
    "Schrittwieser et al. 2021, on Atari",
    checks.above(0, "no values would be learned", most=1e6),
  ),
  "learner.end_weight": Field(
    1.0,
    "weight of the loss of the probabilities that steps are terminal, as of "
    "the values' loss; with a low one rare ends are learned last",
    checks.above(0, "no end would be foreseen", most=1e6),
  ),
  "learner.consistency_weight": Field(
    2.0,
    "weight of the loss by which the model's states resemble those of the "
    "observations that followed; Ye et al. 2021, appendix A.1; 0: no such loss",
    checks.at_least(0, "states would become different", "0: none", most=1e6),
  ),
}

# All config fields of MuZero, by dotted name.
FIELDS: fields.Fields = {
  **base.FIELDS,
  **groups.TORSO,
  **groups.NORMALIZED_OBSERVATIONS,
  **groups.N_STEP,
  **groups.STACKED_FRAMES,
  **groups.REPLAY,
  **groups.PRIORITIES,
  **groups.LEARNER,
  **_MUZERO_FIELDS,
}

# The fields that have an effect only with certain values of others.
_REQUIREMENTS: rules.Requirements = {
  ("replay.sampler", "prioritized"): tuple(groups.PRIORITIES),
}

_PAPER = {
  "agent": "muzero",
  "adder.n_step": 10,  # appendix G
  "adder.discount": 0.997,  # appendix G
  "adder.period": 1,  # a sequence per step, as in the paper
  "learner.batch_size": 128,  # sequences; appendix G: 1,024
}

_TASKS = {
  "cartpole": {
    **tasks.CARTPOLE,
    "adder.discount": 0.995,  # with 0.99 an action changes returns less
    # Policies of older searches are worse, so few are kept: with all 15,000
    # steps, fewer seeds learn (docs/algorithms/muzero.md).
    "replay.capacity": 4_000,
    "replay.min_size": 500,
    "replay.samples_per_insert": 96.0,  # three updates per four steps
    "search.simulations": 10,
    # Policies that are sure of every action visit few states, so the values of
    # other actions are far too low.
    "search.random_share": 0.3,
    "search.value_scale": 0.05,
    "learner.value_weight": 1.0,
    "learner.end_weight": 10.0,
    "learner.learning_rate": 1e-3,
    "learner.decay_steps": 9_000,  # 12,000 environment steps
    "evaluation.period_steps": 750,  # 1,000 environment steps
  },
  "lunarlander": {
    **tasks.LUNARLANDER,
    "network.hidden_sizes": (128, 128),
    "network.latent_size": 128,
    "replay.capacity": 100_000,
    "replay.min_size": 2_000,
    "replay.samples_per_insert": 32.0,  # an update per four steps
    "search.simulations": 25,  # LightZero: 50
    "learner.learning_rate": 1e-3,
    "learner.decay_steps": 75_000,  # 300,000 environment steps
    "evaluation.period_s": 10.0,
    "evaluation.period_steps": 2_500,
  },
  "pendulum": {
    **tasks.PENDULUM,
    "network.hidden_sizes": (128, 128),
    "network.latent_size": 128,  # LightZero
    "network.support": 50,  # returns of up to 2,250
    "adder.discount": 0.97,
    "adder.n_step": 5,
    "replay.min_size": 1_000,
    "replay.samples_per_insert": 64.0,  # an update per two steps
    "search.simulations": 25,  # LightZero: 50
    "learner.learning_rate": 1e-3,
  },
  "minatar_breakout": {
    **tasks.MINATAR,
    # Values of up to 200 instead of 20 are between more of the atoms.
    "environment.reward_scale": 10.0,
    "topology.environments_per_worker": 16,  # of one search
    "network.hidden_sizes": (256,),
    "network.latent_size": 128,
    "adder.discount": 0.99,  # as DQN
    "replay.capacity": 20_000,  # policies of older searches are worse
    "replay.min_size": 5_000,  # Young and Tian, section 4
    "replay.samples_per_insert": 16.0,  # an update per four steps
    "learner.batch_size": 64,
    "learner.value_weight": 1.0,
    "learner.end_weight": 50.0,  # a step in 100 ends an episode
    "learner.learning_rate": 5e-4,
    "evaluation.period_s": 10.0,
    "evaluation.period_steps": 2_500,
  },
  "pong": {
    **tasks.ATARI,
    **tasks.PONG_SOLVED,
    "network.latent_size": 256,
    # Ye et al. 2021, appendix A: 5 steps of returns and of the model. Where
    # sequences begin 5 steps apart, a step takes 30 kB as frames.
    "adder.n_step": 5,
    "adder.period": 5,
    "replay.capacity": 100_000,  # 3 GB; the same
    "replay.min_size": 2_000,  # the same
    "replay.samples_per_insert": 10.0,  # an update per 16 steps
    "learner.batch_size": 32,  # Ye et al. 2021: 256
    "learner.learning_rate": 2.5e-4,
    "learner.steps_per_call": 4,
    "learner.threads": 0,
    "evaluation.episodes": 5,
    "evaluation.period_s": 600.0,
    "evaluation.period_steps": 1_000,
    "snapshot.period_s": 600.0,
  },
  "generic": {
    # Rewards are not normalized: h of the atoms takes those of any size.
    **{k: v for k, v in tasks.GENERIC.items() if k in FIELDS},
    "network.hidden_sizes": (128, 128),
    "network.latent_size": 128,
    "network.support": 100,  # returns of up to 8,500
    "replay.capacity": 200_000,
    "replay.min_size": 2_000,
    "replay.samples_per_insert": 32.0,  # an update per four steps
    "learner.learning_rate": 3e-4,
    "evaluation.period_s": 2.0,
    "evaluation.period_steps": 2_500,
  },
}

RECIPE = recipes.Recipe(_PAPER, _TASKS, fields=FIELDS)
PRESETS, get_config = RECIPE.presets, RECIPE.get_config


def check(config: ml_collections.ConfigDict) -> None:
  """Checks the rules between fields of MuZero's config."""
  rules.check_replay(config)
  rules.check_period(config)
  rules.check_ungrouped(config)
  rules.check_stacked_frames(config)
  rules.check_requirements(config, FIELDS, _REQUIREMENTS)
