"""NoisyNet-DQN. Fortunato et al. 2018, "Noisy networks for exploration"."""

from slipway.configs import dqn, recipes

_PAPER = {
  "network.noisy": True,
  "exploration.schedule": "linear",
  "exploration.epsilon_start": 0.0,  # section 3.1: "no longer used"
  "exploration.epsilon_end": 0.0,
}

_TASKS = {
  "cartpole": {
    **dqn.WITHOUT_AVERAGE,  # with an average, one of two seeds did not learn
    # Without epsilon, nearly all episodes come from one policy, whose cart
    # drifts off the track after 140 steps. A larger replay is filled with
    # those, and with a target network per 100 updates most seeds stayed there;
    # docs/learning.md.
    "replay.capacity": 20_000,
    "learner.target_update_period": 800,
    "learner.decay_steps": 12_500,  # 100,000 environment steps
    # With DQN's 15 steps it stayed at 130, and without a limit of gradients,
    # which its noise makes vary more, at 280; docs/learning.md.
    "adder.n_step": 8,
    "learner.max_gradient_norm": 10.0,
  },
  # With DQN's 100,000, updates become small before it has learned to land: 128
  # at the end of one run, and with these 216 and 268.
  "lunarlander": {"learner.decay_steps": 200_000},  # as many environment steps
}

RECIPE = recipes.Recipe(_PAPER, _TASKS, family=dqn.RECIPE)
PRESETS, get_config = RECIPE.presets, RECIPE.get_config
