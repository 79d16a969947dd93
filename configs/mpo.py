"""MPO. Abdolmaleki et al. 2018, "Maximum a posteriori policy optimisation".

The policy learns to repeat the better ones of its own samples, while the KL
divergence to its target network is bounded.
"""

from slipway.configs import actor_critic, recipes

# Acme's values where no comment says else, but for these: Acme has the initial
# temperature 10, the learning rate 1e-4, and a largest gradient norm of 40.
_PAPER = {
  "network.critics": 1,
  "network.layer_norm": "first",
  "learner.policy_loss": "constrained",
  "learner.policy_value": "first",
  "learner.threads_per_operation": 0,  # one large product after the other
  "learner.batch_size": 64,  # of 20 actions each; Acme: 256
  "replay.samples_per_insert": 64.0,  # as the batch size
  # Acme: 2.5e-3 and 1e-6, with five steps per transition, which need twice the
  # environment steps on Pendulum.
  "learner.kl_bound": 0.01,
  "learner.std_kl_bound": 1e-4,
  "learner.tau": 1.0,
  "learner.target_update_period": 100,
}

_TASKS = {
  "pendulum": {"learner.learning_rate": 1e-3},
  # An update per four steps.
  "lunarlander": {"replay.samples_per_insert": 16.0},
}

RECIPE = recipes.Recipe(_PAPER, _TASKS, family=actor_critic.RECIPE)
PRESETS, get_config = RECIPE.presets, RECIPE.get_config
