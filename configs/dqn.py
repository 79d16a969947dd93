"""DQN. Mnih et al. 2015, "Human-level control through deep RL", table 1.

The Atari presets have the paper's values as far as a CPU allows; `cartpole` and
`lunarlander` are sized for two cores. Algorithms that extend DQN start from
this config and change the values that their papers change.
"""

import functools

import ml_collections

from slipway.configs import fields, presets, tasks, value

# The names of the presets with Atari games, which extensions of DQN change.
ATARI = ("pong", "atari57")


def get_config(preset: str = "cartpole") -> ml_collections.ConfigDict:
  """Returns the config of DQN, with all fields of the DQN family.

  Args:
    preset: one of `PRESETS`.

  Raises:
    ValueError: the preset is unknown.
  """
  c = fields.make_config(value.FIELDS)
  c.agent = "dqn"
  presets.apply(c, PRESETS, preset)
  return c


def _cartpole(c: ml_collections.ConfigDict) -> None:
  """Sets CartPole-v1; the defaults of the other fields are sized for it."""
  tasks.cartpole(c)
  # A cart may drift for 300 steps before it leaves the track. With 0.99, each
  # action on the way changes the values by too little; docs/learning.md.
  c.adder.discount = 0.995
  c.network.highest_return = 200.0  # 1 / (1 - 0.995)
  # Errors clipped at 1, as for Atari's clipped rewards, make values of up to
  # 200 medians, which do not see rare failures; docs/learning.md.
  c.learner.huber_delta = 200.0
  # With such errors, gradients of nearly every batch are larger than 10, and
  # scaled down to it all batches would count the same; docs/learning.md.
  c.learner.max_gradient_norm = 1e6
  # Returns of one to three steps bring a failure back too slowly;
  # docs/learning.md.
  c.adder.n_step = 15
  # Single networks differ a lot in how well they act, and their average is
  # steady, so that the step size can fall slowly. With 12,500 updates one seed
  # had not learned by then; docs/learning.md.
  c.learner.averaging = 0.1
  c.learner.decay_steps = 50_000  # 400,000 environment steps
  # All of a long run, in up to 0.9 GB. With the last 50,000 transitions, some
  # policies fell back long after they had learned; docs/learning.md.
  c.replay.capacity = 500_000


def forgo_averaging(c: ml_collections.ConfigDict) -> None:
  """Sets CartPole's values of algorithms that act with their newest network.

  They have a discount of 0.99, and a step size that falls sooner;
  docs/learning.md.
  """
  c.adder.discount = 0.99
  c.network.highest_return = 100.0  # 1 / (1 - 0.99)
  c.learner.huber_delta = 100.0
  c.learner.averaging = 0.0
  c.learner.decay_steps = 25_000  # 200,000 environment steps


def _lunarlander(c: ml_collections.ConfigDict) -> None:
  """Sets LunarLander-v3 and DQN's hyperparameters for it."""
  tasks.lunarlander(c)
  c.network.lowest_return = -300.0
  c.network.highest_return = 300.0
  # These are of RL Baselines3 Zoo (rl_zoo3 2.9.2, dqn.yml).
  c.network.hidden_sizes = (256, 256)
  c.network.initializer = "uniform"  # PyTorch's, for which they were tuned
  c.replay.capacity = 50_000
  c.replay.samples_per_insert = 128.0  # an update per environment step
  c.learner.batch_size = 128
  c.learner.learning_rate = 6.3e-4
  c.learner.target_update_period = 250
  # These are not.
  # With an epsilon that falls to 0.1, as the Zoo's, some seeds hover until the
  # end; docs/learning.md.
  c.exploration.schedule = "ladder"
  c.replay.min_size = 1_000
  c.replay.importance_steps = 100_000
  c.learner.decay_steps = 100_000  # as many environment steps
  c.adder.n_step = 3  # docs/learning.md
  # A batch with a landing has larger gradients than the others. If norms are
  # clipped, it counts no more than they do; docs/learning.md.
  c.learner.huber_delta = 100.0
  c.learner.max_gradient_norm = 1e6
  c.evaluation.period_s = 10.0  # an evaluation takes 2 s of a core
  c.evaluation.period_steps = 2_500


def _minatar(c: ml_collections.ConfigDict, game: str) -> None:
  """Sets a MinAtar game, such as 'Breakout', with its paper's DQN values."""
  tasks.minatar(c, game)
  # Discounted, in the best agents' games, and below 0, since the values of a
  # distribution start in the middle of the support; docs/learning.md.
  c.network.lowest_return, c.network.highest_return = -20.0, 20.0
  c.replay.capacity = 100_000  # Young and Tian, section 4
  c.replay.min_size = 5_000  # the same
  c.exploration.decay_steps = 100_000  # the same
  c.exploration.epsilon_end = 0.1  # the same
  c.replay.importance_steps = 100_000
  c.learner.batch_size = 32  # Young and Tian, section 4: one per step
  c.learner.learning_rate = 2.5e-4  # the same, for RMSProp
  c.learner.target_update_period = 1_000  # the same
  c.evaluation.period_s = 10.0
  c.evaluation.period_steps = 10_000


def _atari(c: ml_collections.ConfigDict, game: str) -> None:
  """Sets an Atari game, such as 'Pong'; comments give the paper's values."""
  tasks.atari(c, game)
  c.network.lowest_return = -10.0  # Bellemare, section 5
  c.network.highest_return = 10.0  # the same
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
  c.snapshot.period_s = 600.0  # frames take 10 s of a core


def _pong(c: ml_collections.ConfigDict) -> None:
  """Sets Pong, with a smaller replay and faster decay than for other games."""
  _atari(c, "Pong")
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


# The presets of DQN and of algorithms that extend it, by name.
PRESETS: presets.Presets = {
  "cartpole": _cartpole,
  "lunarlander": _lunarlander,
  "minatar_breakout": functools.partial(_minatar, game="Breakout"),
  "pong": _pong,
  "atari57": functools.partial(_atari, game="Pong"),
}
