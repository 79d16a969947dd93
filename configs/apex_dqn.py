"""Ape-X DQN. Horgan et al. 2018, "Distributed prioritized experience replay".

Prioritized double dueling n-step DQN with several workers. Each environment
has its own constant epsilon, and workers compute the initial priorities.
"""

from slipway.configs import dqn, recipes

_PAPER = {
  "learner.double": True,  # section 3.1
  "replay.sampler": "prioritized",
  "network.dueling": True,  # section 4.1
  "adder.n_step": 3,  # section 4.1
  "exploration.schedule": "ladder",  # section 4.1
  "topology.workers": 2,  # Horgan: 360, on as many cores
}

# Tasks with small observations.
_SMALL = {
  "topology.environments_per_worker": 32,  # a step costs half as with 8
  # One publication costs several trainer steps; proxies poll 20 times per s.
  "variables.publish_period": 100,
  # 4 transitions per item cost a third of 4 items; with 8, some seeds did not
  # learn. Horgan's actors send 50 together, which are sampled separately.
  "replay.transitions_per_item": 4,
}

_TASKS = {
  # Workers compute the first priorities, of rewards as they are.
  "generic": {"normalization.rewards": False},
  "cartpole": {
    **_SMALL,
    **dqn.WITHOUT_AVERAGE,  # keeps its returns; docs/learning.md
    # With DQN's 500,000, half of the seeds did not learn; with 50,000, more of
    # them fell back; docs/learning.md.
    "replay.capacity": 75_000,
    # Unlike the paper, whose streams help least with two actions: with two of
    # them, 5 of 10 seeds held 475 in 84 to 95 % of the evaluations, with one 6
    # of 6 in 95 to 100 %. All measured pages have one; docs/learning.md.
    "network.dueling": False,
    "adder.n_step": 15,  # as DQN; docs/learning.md
  },
  "lunarlander": {
    **_SMALL,
    # An update for 4 environment steps, so DQN's periods and decays, which are
    # in updates, last four times as many of them.
    "replay.samples_per_insert": 32.0,
  },
  "minatar_breakout": _SMALL,
  "atari57": {  # `pong` has DQN's step size: a short run on one game
    # Horgan: batches of 512, on a GPU. With as many samples per step, these
    # would make 1/16 of the updates of DQN's 32.
    "learner.learning_rate": 6.25e-5,  # appendix C: 2.5e-4 / 4, for RMSProp
    "learner.max_gradient_norm": 40.0,  # the same
  },
}

RECIPE = recipes.Recipe(_PAPER, _TASKS, family=dqn.RECIPE)
PRESETS, get_config = RECIPE.presets, RECIPE.get_config
