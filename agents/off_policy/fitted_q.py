"""Fitted Q evaluation: a policy's value, by regressions on recorded steps."""

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf
from acme import specs

from slipway.agents import optimizer, targets
from slipway.agents.losses import output
from slipway.agents.networks import action_masks, tf_network, torsos
from slipway.agents.networks import layers as layers_lib
from slipway.agents.off_policy import recording as recording_lib

_BATCH_SIZE, _LEARNING_RATE = 256, 1e-3
# Updates of a regression, which begins with the weights of the one before.
_UPDATES_PER_ITERATION = 25
_AVERAGED = 0.1  # part of all iterations, the last ones, that is averaged


def fitted_q_loss(
  q_tm1: tf.Tensor,
  r_t: tf.Tensor,
  discount_t: tf.Tensor,
  q_t: tf.Tensor,
  bounds: tuple[float, float],
) -> tf.Tensor:
  """Returns the squared errors of a policy's action values, [B].

    loss = (q_tm1 - y)^2,  y = clip(r_t + discount_t q_t, bounds)

  Le et al. 2019, "Batch policy learning under constraints"
  (https://arxiv.org/abs/1903.08738), algorithm 3, which has no bounds.

  Args:
    q_tm1: [B], the values of the recorded actions, which learn.
    q_t: [B], the values by the previous iteration of the policy's actions at
      the next observation, which get no gradient.
    bounds: lowest and highest value of any policy, so that values which a
      network extrapolates do not diverge.
  """
  output.check_ranks(1, q_tm1=q_tm1, r_t=r_t, discount_t=discount_t, q_t=q_t)
  y = tf.clip_by_value(r_t + discount_t * q_t, *bounds)
  return (q_tm1 - tf.stop_gradient(y)) ** 2


class ActionValue:
  """Declaration of a network of q(o, a), for actions as vectors of A numbers.

  It has a torso of the observation, then a layer that also gets the action.
  """

  needs_random, prefers_numpy = False, False

  def __init__(
    self,
    spec: specs.EnvironmentSpec,
    settings: layers_lib.TorsoSettings,
    action_size: int,
  ):
    self.inputs = (spec.observations, specs.Array((action_size,), np.float32))
    self._settings = settings
    self._mask_splitter = action_masks.MaskSplitter(spec)

  def __call__(
    self,
    layers: layers_lib.Layers,
    observation: layers_lib.Array,
    action: layers_lib.Array,
  ) -> layers_lib.Array:
    """Returns values [B] of observations [B, ...] and actions [B, A]."""
    splitter, settings = self._mask_splitter, self._settings
    x, _ = splitter.split(layers.ops, observation)
    x = torsos.apply_torso(layers, settings, x, splitter.observations)
    x = layers.ops.concat([x, action])
    last = settings._replace(sizes=settings.sizes[-1:] or (64,))
    x = layers_lib.mlp(layers, "joint", x, last)
    return layers.linear("output", x, 1, settings.scheme.values)[:, 0]


def evaluate(
  recording: recording_lib.Recording,
  actions: np.ndarray,
  settings: layers_lib.TorsoSettings,
  discount: float,
  updates: int,
  seed: int,
) -> np.ndarray:
  """Returns the discounted values of the first observations, float64 [E].

  They are those of episodes without a time limit: where a recorded one was
  truncated, the value of its last observation follows.

  Args:
    recording: the episodes, with the rewards of the environment.
    actions: actions of the policy, `Recording.sample_actions`.  # [S, N + E, A]
    discount: gamma, in [0, 1].
    updates: updates of the network, in regressions of 25 each.
    seed: seed of initial weights and batches, at least 0.
  """
  # Values of about 1 suit the optimizer.
  scale = max(np.abs(recording.compute_returns(discount)).mean(), 1e-6)
  rewards = recording.episodes.rewards / np.float32(scale)
  longest = 1.0 / max(1.0 - discount, 1e-6)  # sum of all discounts
  bounds = (
    longest * min(0.0, float(rewards.min())),
    longest * max(0.0, float(rewards.max())),
  )
  declaration = ActionValue(recording.spec, settings, actions.shape[-1])
  online, target = (tf_network.Network(declaration, seed) for _ in range(2))
  with tf.device("CPU:0"):  # the memory of a GPU may be too small
    observations = tf.constant(recording.inputs)
    taken, chosen = tf.constant(recording.actions), tf.constant(actions)
    before, r_t = tf.constant(recording.before), tf.constant(rewards)
    discount_t = np.float32(discount) * ~recording.episodes.terminated
    discount_t = tf.constant(discount_t)

  def compute_loss(steps: tf.Tensor, offset: tf.Tensor) -> tf.Tensor:
    """Returns the losses of steps, with samples of the next actions."""
    row = tf.gather(before, steps)
    sample = tf.math.floormod(offset + steps, len(actions))
    a_t = tf.gather_nd(chosen, tf.stack([sample, row + 1], axis=1))
    return fitted_q_loss(
      online(tf.gather(observations, row), tf.gather(taken, steps)),
      tf.gather(r_t, steps),
      tf.gather(discount_t, steps),
      target(tf.gather(observations, row + 1), a_t),
      bounds,
    )

  update = make_updates(
    compute_loss, online.trainable_variables, len(rewards), seed
  )
  first = tf.gather(observations, recording.first)
  iterations = max(1, updates // _UPDATES_PER_ITERATION)
  averaged = max(1, round(_AVERAGED * iterations))
  values = []
  for i in range(iterations):
    targets.copy(target.trainable_variables, online.trainable_variables)
    update(tf.constant(_UPDATES_PER_ITERATION))
    if i >= iterations - averaged:
      values += [online(first, x[recording.first]) for x in actions]
  return scale * np.mean(values, axis=0, dtype=np.float64)


def make_updates(
  compute_loss: Callable[[tf.Tensor, tf.Tensor], tf.Tensor],
  variables: Sequence[tf.Variable],
  steps: int,
  seed: int,
) -> Callable[[tf.Tensor], None]:
  """Returns a function that makes a number of updates with a loss.

  Args:
    compute_loss: function of the numbers of B recorded steps, int64 [B], and of
      a random number from 0, int64 []; returns the losses [B].
    seed: seed of the batches, at least 0.
  """
  adam = optimizer.Optimizer(variables, optimizer.Settings())
  done = tf.Variable(tf.zeros((), tf.int64), trainable=False)

  def update(i: tf.Tensor) -> tf.Tensor:
    random = tf.random.stateless_uniform(
      [_BATCH_SIZE + 1], tf.stack([seed, done]), 0, 2**31, tf.int64
    )
    batch = tf.math.floormod(random[1:], steps)
    with tf.GradientTape() as tape:
      loss = tf.reduce_mean(compute_loss(batch, random[0]))
    with tf.control_dependencies([adam.minimize(loss, tape, _LEARNING_RATE)]):
      done.assign_add(1)
    return i + 1

  # Traced once: TensorFlow would warn of a function that is traced per policy.
  return tf.function(
    lambda updates: tf.while_loop(
      lambda i: i < updates, update, [tf.constant(0)]
    ),
    autograph=False,
  ).get_concrete_function(tf.TensorSpec((), tf.int32))
