"""Losses that keep policies and values close to recorded actions."""

import tensorflow as tf

from slipway.agents.losses import output


def expectile_loss(
  value: tf.Tensor, target: tf.Tensor, expectile: float
) -> tf.Tensor:
  """Returns the asymmetric squares of expectile regression, [B].

    loss = |tau - 1(u < 0)| u^2,  u = target - value

  With tau = 0.5 these are half the squared errors, whose minimum is the mean;
  above it, errors of values that are too low count more, so the values tend to
  the largest targets.

  Kostrikov et al. 2021, "Offline reinforcement learning with implicit
  Q-learning" (https://arxiv.org/abs/2110.06169), equation 5.

  Args:
    value: [B], the values that learn.
    target: [B], which gets no gradient.
    expectile: tau, in (0, 1).
  """
  output.check_ranks(1, value=value, target=target)
  error = tf.stop_gradient(target) - value
  is_below = tf.cast(error < 0, error.dtype)
  return tf.abs(expectile - is_below) * error**2


def advantage_weights(
  advantage: tf.Tensor, kind: str, temperature: float, largest: float
) -> tf.Tensor:
  """Returns the weights of recorded actions in a policy's loss, [B].

    weight = min(exp(advantage / temperature), largest)    for 'exp'
             1(advantage > 0)                              for 'binary'

  Wang et al. 2020, "Critic regularized regression"
  (https://arxiv.org/abs/2006.15134), section 3; for 'exp' also
  Kostrikov et al. 2021, equation 7, whose beta is 1 / temperature.

  Args:
    advantage: [B], values of the actions above their baselines.
  """
  output.check_ranks(1, advantage=advantage)
  if kind == "binary":
    return tf.cast(advantage > 0, advantage.dtype)
  # The exponent's bound avoids an overflow before the minimum.
  highest = tf.math.log(tf.cast(largest, advantage.dtype))
  return tf.exp(tf.minimum(advantage / temperature, highest))


def imitation_error(action: tf.Tensor, recorded: tf.Tensor) -> tf.Tensor:
  """Returns the mean squared error over the A components of actions, [B].

  Args:
    action: [B, A], the policy's actions, in [-1, 1].
    recorded: [B, A], the recorded actions.
  """
  output.check_ranks(2, action=action, recorded=recorded)
  return tf.reduce_mean((action - recorded) ** 2, axis=1)


def behaviour_regularized_loss(
  value: tf.Tensor, error: tf.Tensor, weight: float
) -> tf.Tensor:
  """Returns the loss of a policy near recorded actions, [B].

    loss = weight error - value / mean |value|

  Fujimoto and Gu 2021, "A minimalist approach to offline reinforcement
  learning" (https://arxiv.org/abs/2106.06860), section 5, divided by
  their alpha, so the weight is 1 / alpha.

  Args:
    value: [B], values of the policy's actions; their mean size gets no
      gradient.
    error: [B], results of `imitation_error`.
  """
  output.check_ranks(1, value=value, error=error)
  scale = tf.stop_gradient(tf.reduce_mean(tf.abs(value)))
  return weight * error - tf.math.divide_no_nan(value, scale)


def conservative(
  q_tm1: tf.Tensor, q_samples: tf.Tensor, log_density: tf.Tensor
) -> tf.Tensor:
  """Returns the penalty of CQL(H) for continuous actions, [B].

    penalty = sum_c log mean_n exp(q_c(o, a_n)) / density(a_n) - q_c(o, a_tm1)

  The logarithm estimates that of the integral of exp(q) over all actions.

  Kumar et al. 2020, "Conservative Q-learning for offline reinforcement
  learning" (https://arxiv.org/abs/2006.04779), equation 4 and appendix F,
  without alpha.

  Args:
    q_tm1: [B, C], the critics' values of the recorded actions.
    q_samples: [N, B, C], those of N sampled actions.
    log_density: [N, B], log-densities of the samples, without a gradient.
  """
  output.check_ranks(2, q_tm1=q_tm1, log_density=log_density)
  output.check_ranks(3, q_samples=q_samples)
  weighted = q_samples - tf.stop_gradient(log_density)[:, :, None]
  count = tf.cast(tf.shape(weighted)[0], weighted.dtype)
  integral = tf.reduce_logsumexp(weighted, axis=0) - tf.math.log(count)
  return tf.reduce_sum(integral - q_tm1, axis=1)


def cloning_loss(logits: tf.Tensor, recorded: tf.Tensor) -> tf.Tensor:
  """Returns -log p(a) of recorded actions, [B], where p = softmax(logits).

  Fujimoto et al. 2019, "Benchmarking batch deep reinforcement learning
  algorithms" (https://arxiv.org/abs/1910.01708), discrete BCQ.

  Args:
    logits: [B, A]; those of illegal actions are far below all others.
    recorded: [B] int, recorded actions.
  """
  output.check_ranks(2, logits=logits)
  return -output.select_actions(tf.nn.log_softmax(logits), recorded)


def autoencoder_loss(
  error: tf.Tensor, mean: tf.Tensor, log_std: tf.Tensor
) -> tf.Tensor:
  """Returns the loss of a variational autoencoder of actions, [B].

    loss = error + 1/2 mean_l KL(N(mean_l, std_l) || N(0, 1))

  Fujimoto et al. 2019, "Off-policy deep reinforcement learning without
  exploration" (https://arxiv.org/abs/1812.02900), algorithm 1, with the means
  and the factor of the authors' code.

  Args:
    error: [B], results of `imitation_error` for the decoded actions.
    mean: [B, L], means of the latent variables.
    log_std: [B, L], their log standard deviations.
  """
  output.check_ranks(1, error=error)
  output.check_ranks(2, mean=mean, log_std=log_std)
  kl = 0.5 * (mean**2 + tf.exp(2.0 * log_std) - 1.0) - log_std
  return error + 0.5 * tf.reduce_mean(kl, axis=1)


def best_value(values: tf.Tensor, lowest_weight: float) -> tf.Tensor:
  """Returns the value of the best of N actions, [B].

    max_n lambda min_c q_c(a_n) + (1 - lambda) max_c q_c(a_n)

  Fujimoto et al. 2019, "Off-policy deep reinforcement learning without
  exploration" (https://arxiv.org/abs/1812.02900), equation 13.

  Args:
    values: [N, B, C], values of N actions by C critics.
    lowest_weight: lambda, in [0, 1].
  """
  output.check_ranks(3, values=values)
  lowest = tf.reduce_min(values, axis=2)
  highest = tf.reduce_max(values, axis=2)
  mixed = lowest_weight * lowest + (1.0 - lowest_weight) * highest
  return tf.reduce_max(mixed, axis=0)
