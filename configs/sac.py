"""SAC. Haarnoja et al. 2018, "Soft actor-critic algorithms and applications".

The learner adapts the temperature to a target entropy. The targets of the
critics use the lower value of two target networks. For discrete actions:
Christodoulou 2019, "Soft actor-critic for discrete action settings"
(https://arxiv.org/abs/1910.07207).
"""

import ml_collections

from slipway.configs import actor_critic, presets, tasks


def get_config(preset: str = "pendulum") -> ml_collections.ConfigDict:
  """Returns the config of SAC: the paper's table 1, and the preset's values.

  Args:
    preset: one of `PRESETS`.

  Raises:
    ValueError: the preset is unknown.
  """
  c = actor_critic.make_config()
  presets.apply(c, PRESETS, preset)
  return c


def _cartpole(c: ml_collections.ConfigDict) -> None:
  """Sets CartPole-v1, with discrete actions: Christodoulou 2019."""
  tasks.cartpole(c)
  actor_critic.set_small_replay(c)
  c.network.hidden_sizes = (64, 64)
  c.learner.learning_rate = 1e-3


def _minatar(c: ml_collections.ConfigDict) -> None:
  """Sets MinAtar's Breakout, whose actions are discrete, too."""
  tasks.minatar(c, "Breakout")
  c.topology.environments_per_worker = 4
  c.replay.capacity = 100_000  # Young and Tian, section 4
  c.replay.min_size = 5_000  # the same
  c.learner.batch_size = 64
  # An update for four environment steps: Christodoulou 2019, appendix A.
  c.replay.samples_per_insert = 16.0
  c.sync.environment_steps = 100
  c.evaluation.period_s = 10.0
  c.evaluation.period_steps = 2_500


def _mujoco(c: ml_collections.ConfigDict) -> None:
  """Sets SAC's values for the tasks of MuJoCo."""
  # From 1, the temperature needs 15,000 updates to fall to 0.01, which fits
  # rewards of about 1 per step; until then, policies learn to be random.
  c.learner.temperature = 0.02
  actor_critic.start_early(c)


_CONTINUOUS: presets.Presets = actor_critic.make_presets(
  3e-4,
  # RL Baselines3 Zoo
  {"pendulum": 1e-3, "lunarlander": 7.3e-4, "bipedalwalker": 7.3e-4},
  _mujoco,
)


def _pendulum(c: ml_collections.ConfigDict) -> None:
  """Sets Pendulum-v1."""
  # Half of the paper's: about as many updates until -200, which take less time;
  # docs/learning.md. Set first, because the preset's rates depend on it.
  c.learner.batch_size = 128
  _CONTINUOUS["pendulum"](c)


def _lunarlander(c: ml_collections.ConfigDict) -> None:
  """Sets LunarLander-v3 with continuous actions."""
  _CONTINUOUS["lunarlander"](c)
  c.learner.tau = 0.01  # RL Baselines3 Zoo


# The presets of SAC, by name.
PRESETS: presets.Presets = {
  **_CONTINUOUS,
  "pendulum": _pendulum,
  "lunarlander": _lunarlander,
  "cartpole": _cartpole,
  "minatar_breakout": _minatar,
}
