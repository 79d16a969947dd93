"""MuZero's targets and loss, for a model that is unrolled over K steps.

Schrittwieser et al. 2020, "Mastering Atari, Go, chess and shogi by planning
with a learned model" (https://arxiv.org/abs/1911.08265), equation 1 and
appendices F and G.
"""

import typing

import tensorflow as tf

from slipway.agents.losses import n_step, output, rescaling


class Targets(typing.NamedTuple):
  """Targets of K + 1 successive states, the first of them observed.

  Attributes:
    reward: [B, K], rewards of the steps.
    value: [B, K + 1], n-step returns from each state.
    is_step: [B, K + 1], 1 for states of the first state's episode, in which an
      action was taken, else 0.
    is_end: [B, K], 1 for the terminal steps of this episode, else 0.
  """

  reward: tf.Tensor
  value: tf.Tensor
  is_step: tf.Tensor
  is_end: tf.Tensor


def compute_targets(
  reward: tf.Tensor,
  discount: tf.Tensor,
  ended: tf.Tensor,
  first: tf.Tensor,
  values: tf.Tensor,
  unroll: int,
) -> Targets:
  """Returns the targets of sequences of T = K + n steps.

    z_t = sum_{i<n} gamma^i R_{t+i+1} + gamma^n v_{t+n}

  Schrittwieser et al. 2020, section 3. A return is shorter where the episode
  ends: after a terminal step values are 0, and a truncated episode has the
  value of its last observation.

  Args (others: see `output`):
    first: [B, T + 1] bool, whether an observation begins an episode.
    values: [B, T + 1], values of the observations.
    unroll: K, the steps of the model.
  """
  n = typing.cast(int, reward.shape[1]) - unroll
  returns = n_step.compute_returns(
    reward, discount, ended, values[:, 1:], n, tf.concat, tf.where
  )
  # An observation that precedes the first one of an episode is followed by a
  # reset, and no step of an episode.
  is_step = [tf.logical_not(first[:, 1])]
  for t in range(unroll):
    is_step.append(is_step[t] & tf.logical_not(ended[:, t]))
  steps = tf.cast(tf.stack(is_step, axis=1), reward.dtype)
  terminal = ended[:, :unroll] & (discount[:, :unroll] == 0)
  return Targets(
    reward[:, :unroll] * steps[:, :-1],
    returns[:, : unroll + 1] * steps,
    steps,
    tf.cast(terminal, reward.dtype) * steps[:, :-1],
  )


def two_hot(x: tf.Tensor, atoms: tf.Tensor) -> tf.Tensor:
  """Returns the distributions [..., M] of numbers x [...] over atoms of h(x).

  The two atoms next to h(x) share the probability, so that their mean is h(x);
  numbers beyond the atoms count for the last one. Schrittwieser et al. 2020,
  appendix F; h is `rescaling.rescale`.

  Args:
    atoms: [M], ascending integers.
  """
  scaled = tf.clip_by_value(rescaling.rescale(x), atoms[0], atoms[-1])
  return tf.maximum(0.0, 1.0 - tf.abs(tf.expand_dims(scaled, -1) - atoms))


def muzero_loss(
  log_probs: tf.Tensor,
  value_logits: tf.Tensor,
  reward_logits: tf.Tensor,
  end_logits: tf.Tensor,
  policy: tf.Tensor,
  targets: Targets,
  atoms: tf.Tensor,
  value_weight: float,
  end_weight: float,
) -> dict[str, tf.Tensor]:
  """Returns the losses of a model that is unrolled over K steps, [B] by name.

    l = sum_{k<=K} w_k (l^p_k + c l^v_k + l^r_k + d l^e_k)
    w_0 = 1, else w_k = 1 / K

  with cross-entropies l^p to the search's policies, l^v and l^r to the
  distributions of returns and rewards, and l^e to the ends of episodes:
  equation 1, and appendix G for w_k. Ends are as in Oh et al. 2017, "Value
  prediction network" (https://arxiv.org/abs/1707.03497), section 3.1, which
  predicts discounts. There are no losses of states behind an end.

  Args:
    log_probs: [B, K + 1, A], logarithms of the policies' probabilities, or of
      their densities of A sampled actions.
    value_logits: [B, K + 1, M], logits of the values' atoms.
    reward_logits: [B, K, M], logits of the rewards' atoms.
    end_logits: [B, K], logits of the probabilities that a step is terminal.
    policy: [B, K + 1, A], policies that the search found.
    atoms: [M], see `two_hot`.
    value_weight: c, the weight of the value's loss.
    end_weight: d, the weight of the loss of ends.

  Returns:
    'policy_loss', 'value_loss' and 'end_loss', without their weights,
    'reward_loss', and the weighted sum 'loss'. Gradients flow into logits and
    `log_probs` only.
  """
  output.check_ranks(
    3,
    log_probs=log_probs,
    value_logits=value_logits,
    reward_logits=reward_logits,
  )
  unroll = typing.cast(int, reward_logits.shape[1])
  weights = tf.constant([1.0] + [1.0 / unroll] * unroll, log_probs.dtype)
  cross_entropy = tf.nn.softmax_cross_entropy_with_logits

  def sum_up(losses: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(losses * weights, axis=1)

  states = weights * targets.is_step
  # Rewards and ends are of the step before a state.
  steps = weights[1:] * targets.is_step[:, :-1]
  losses = {
    "policy_loss": sum_up(-tf.reduce_sum(policy * log_probs, axis=2), states),
    "value_loss": sum_up(
      cross_entropy(two_hot(targets.value, atoms), value_logits), states
    ),
    "reward_loss": sum_up(
      cross_entropy(two_hot(targets.reward, atoms), reward_logits), steps
    ),
    "end_loss": sum_up(
      tf.nn.sigmoid_cross_entropy_with_logits(targets.is_end, end_logits),
      steps,
    ),
  }
  losses["loss"] = (
    losses["policy_loss"]
    + value_weight * losses["value_loss"]
    + losses["reward_loss"]
    + end_weight * losses["end_loss"]
  )
  return losses


def consistency_loss(
  predicted: tf.Tensor, projected: tf.Tensor, is_step: tf.Tensor
) -> tf.Tensor:
  """Returns the loss [B] by which predicted states resemble observed ones.

    l = -1 / K sum_k cos(predicted_k, sg(projected_k))

  sg stops gradients. Ye et al. 2021, "Mastering Atari games with limited data"
  (https://arxiv.org/abs/2111.00210), equation 2 and appendix A.1.

  Args:
    predicted: [B, K, S], predictions from the model's states after each step.
    projected: [B, K, S], projections of the observed states after each step.
    is_step: [B, K], 0 for steps without a loss.
  """
  similarity = tf.reduce_sum(
    tf.math.l2_normalize(predicted, axis=2)
    * tf.math.l2_normalize(tf.stop_gradient(projected), axis=2),
    axis=2,
  )
  return -tf.reduce_mean(similarity * is_step, axis=1)


def scale_gradient(x: tf.Tensor, scale: float) -> tf.Tensor:
  """Returns x, with gradients that are multiplied by `scale`."""
  return scale * x + (1.0 - scale) * tf.stop_gradient(x)
