"""R2D2. Kapturowski et al. 2019, "Recurrent experience replay in distributed
reinforcement learning".

Ape-X DQN with an LSTM, whose items are sequences: table 2 and section 2.3.
"""

import ml_collections

from configs import apex_dqn, dqn


def get_config(preset: str = "cartpole") -> ml_collections.ConfigDict:
  """Ape-X DQN of sequences, with stored states and a burn-in."""
  c = apex_dqn.get_config(preset)
  c.agent = "r2d2"
  c.network.lstm_size = 64  # units; section 2.3: 512
  c.adder.n_step = 5  # section 2.3
  c.adder.burn_in = 10  # steps that only bring the state up; table 2: 40
  c.adder.unroll = 20  # steps learned from; table 2: 80
  c.adder.period = 10  # steps between two sequences; table 2: 40
  c.replay.transitions_per_item = 1  # an item is a sequence, and so is
  c.learner.batch_size = 16  # each of a batch; table 2: 64
  c.replay.samples_per_insert = 4.0  # sequences: each step is in two
  c.replay.eta = 0.9  # of the largest error in a priority; section 2.3
  c.replay.priority_exponent = 0.9  # section 2.3
  c.replay.importance_exponent_start = 0.6  # section 2.3
  c.replay.importance_exponent_end = 0.6  # the same
  c.learner.steps_per_call = 4
  if preset in dqn.ATARI:
    _atari(c)
  return c


def _atari(c: ml_collections.ConfigDict) -> None:
  c.environment.kwargs.stack_num = 1  # the LSTM remembers; the paper: 4
  c.adder.stacked_frames = 0
  c.network.hidden_sizes = (512, 512)  # of the torso, and of the head
  c.network.lstm_size = 512  # section 2.3
  c.adder.discount = 0.997  # section 2.3
  c.adder.unroll, c.adder.period = 40, 20
  c.adder.burn_in = 20
  c.learner.adam_epsilon = 1e-3  # table 2
  c.replay.samples_per_insert = 1.0  # section 2.3: 0.8
