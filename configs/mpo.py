"""MPO. Abdolmaleki et al. 2018, "Maximum a posteriori policy optimisation".

The policy learns to repeat the better ones of its own samples, while the KL
divergence to its target network is bounded.
"""

import ml_collections

from slipway.configs import actor_critic, presets


def get_config(preset: str = "pendulum") -> ml_collections.ConfigDict:
  """Returns the config of MPO.

  Values are Acme's where no comment says else, but for these: Acme has the
  initial temperature 10, the learning rate 1e-4, and a largest gradient norm of
  40.

  Args:
    preset: one of `PRESETS`.

  Raises:
    ValueError: the preset is unknown.
  """
  c = actor_critic.make_config()
  c.network.critics = 1
  c.network.layer_norm = "first"
  c.learner.policy_loss = "constrained"
  c.learner.policy_value = "first"
  c.learner.threads_per_operation = 0  # one large product after the other
  c.learner.batch_size = 64  # of 20 actions each; Acme: 256
  # Acme: 2.5e-3 and 1e-6, with five steps per transition, which need twice the
  # environment steps on Pendulum.
  c.learner.kl_bound = 0.01
  c.learner.std_kl_bound = 1e-4
  c.learner.tau = 1.0
  c.learner.target_update_period = 100
  presets.apply(c, PRESETS, preset)
  return c


# The presets of MPO, by name.
PRESETS: presets.Presets = actor_critic.make_presets(3e-4, {"pendulum": 1e-3})
