"""Behaviour: the probabilities by which recorded actions were chosen."""

import numpy as np
import tensorflow as tf

from slipway.agents.losses import offline
from slipway.agents.networks import layers as layers_lib
from slipway.agents.networks import policy_network, tf_network
from slipway.agents.off_policy import fitted_q
from slipway.agents.off_policy import recording as recording_lib

# One of so many episodes is held out, and evaluated after so many updates.
_HELD_OUT, _UPDATES = 10, 100


def estimate_log_probs(
  recording: recording_lib.Recording,
  settings: layers_lib.TorsoSettings,
  updates: int,
  seed: int,
) -> np.ndarray:
  """Returns log mu(a given o) of recorded discrete actions, float64 [N].

  A network clones the recorded policy mu, which may be a mixture of several. It
  keeps the weights by which the actions of every tenth episode, from which it
  does not learn, are the most probable.

  Hanna et al. 2019, "Importance sampling policy evaluation with an estimated
  behavior policy" (https://arxiv.org/abs/1806.01347).

  Args:
    recording: episodes with one discrete action per step.
    updates: updates of the network, at least 100.
    seed: seed of initial weights and batches, at least 0.
  """
  network = tf_network.Network(
    policy_network.PolicyNetwork(recording.spec, settings, "categorical"), seed
  )
  with tf.device("CPU:0"):  # the memory of a GPU may be too small
    observations = tf.constant(recording.inputs)
    before = tf.constant(recording.before)
    taken = tf.constant(recording.episodes.actions)

  def compute_loss(steps: tf.Tensor) -> tf.Tensor:
    logits = network(tf.gather(observations, tf.gather(before, steps)))
    return offline.cloning_loss(logits, tf.gather(taken, steps))

  steps = np.arange(len(recording.before))
  episode = recording.before - steps  # the number of each step's episode
  is_held_out = episode % _HELD_OUT == _HELD_OUT - 1
  learned = tf.constant(steps[~is_held_out])
  update = fitted_q.make_updates(
    lambda i, _: compute_loss(tf.gather(learned, i)),
    *(network.trainable_variables, len(learned), seed),
  )
  lowest, best = np.inf, network.get_variables()
  for _ in range(0, updates, _UPDATES):
    update(tf.constant(_UPDATES))
    # Fewer than ten episodes are too few to hold one out.
    loss = np.sum(compute_loss(tf.constant(steps[is_held_out])))
    if loss < lowest or not is_held_out.any():
      lowest, best = loss, network.get_variables()
  network.load(best)
  return -compute_loss(tf.constant(steps)).numpy().astype(np.float64)
