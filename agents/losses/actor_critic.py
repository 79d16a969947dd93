"""The losses of actor-critic algorithms with continuous actions."""

import typing

import tensorflow as tf

from slipway.agents.losses import categorical, output, quantile


def soft_target(
  r_t: tf.Tensor,
  discount_t: tf.Tensor,
  q_t: tf.Tensor,
  entropy_cost_t: tf.Tensor | None = None,
) -> tf.Tensor:
  """Returns the critics' target [B], without a gradient.

    y = r_t + discount_t (min_i q_i(o_t, a_t) - entropy_cost_t)

  Haarnoja et al. 2018, "Soft actor-critic algorithms and applications"
  (https://arxiv.org/abs/1812.05905), section 4.2, with the minimum over critics
  of section 6. Without an entropy cost: Fujimoto et al. 2018,
  "Addressing function approximation error in actor-critic methods"
  (https://arxiv.org/abs/1802.09477), equation 10.

  Args (others: see `output`):
    q_t: [B, C], target critics' values of o_t and the next actions a_t.
    entropy_cost_t: [B], alpha log pi(a_t | o_t), or None for no such term.
  """
  output.check_ranks(1, r_t=r_t, discount_t=discount_t)
  output.check_ranks(2, q_t=q_t)
  value = tf.reduce_min(q_t, axis=1)
  if entropy_cost_t is not None:
    output.check_ranks(1, entropy_cost_t=entropy_cost_t)
    value -= entropy_cost_t
  return tf.stop_gradient(r_t + discount_t * value)


def critic_loss(q_tm1: tf.Tensor, target: tf.Tensor) -> output.LossOutput:
  """Returns half the squared errors, summed over the critics: equation 5.

  Args:
    q_tm1: [B, C], the critics' values of o_tm1 and a_tm1.
    target: [B], the result of `soft_target`.

  Returns:
    `LossOutput`, whose error is the mean absolute one of the critics: errors of
    two that disagree would cancel out. Gradients flow into `q_tm1` only.
  """
  output.check_ranks(2, q_tm1=q_tm1)
  output.check_ranks(1, target=target)
  errors = tf.stop_gradient(target)[:, None] - q_tm1
  loss = 0.5 * tf.reduce_sum(errors**2, axis=1)
  return output.LossOutput(loss, tf.reduce_mean(tf.abs(errors), axis=1))


def categorical_critic_loss(
  logits_tm1: tf.Tensor,
  r_t: tf.Tensor,
  discount_t: tf.Tensor,
  logits_t: tf.Tensor,
  atoms: tf.Tensor,
  entropy_cost_t: tf.Tensor | None = None,
  scale: categorical.Scale = tf.identity,
) -> output.LossOutput:
  """Returns the cross entropies of distributional critics, summed over them.

    m    = projection onto `atoms` of r_t + discount_t (z - entropy_cost_t)
    loss = -sum_c sum_i m_i log p_ci(o_tm1, a_tm1)

  where z has the distribution of the target critic with the lowest mean.

  Barth-Maron et al. 2018, "Distributed distributional deterministic policy
  gradients" (https://arxiv.org/abs/1804.08617), section 3 and appendix A.

  Args (others: see `output`):
    logits_tm1: [B, C, K], logits of the critics for o_tm1 and a_tm1.
    logits_t: [B, M, K], logits of M target critics for o_t and a_t.
    atoms: [K], returns of the atoms in ascending order.
    entropy_cost_t: [B], alpha log pi(a_t | o_t), or None for no such term.
    scale: scale of returns on which the atoms are equally spaced.

  Returns:
    `LossOutput`, whose error is the mean divergence KL(m || p) over the
    critics. Gradients flow into `logits_tm1` only.
  """
  output.check_ranks(3, logits_tm1=logits_tm1, logits_t=logits_t)
  output.check_ranks(1, r_t=r_t, discount_t=discount_t, atoms=atoms)
  p_t = tf.nn.softmax(logits_t)
  lowest = tf.argmin(tf.reduce_sum(p_t * atoms, -1), 1, output_type=tf.int32)
  p_t = output.select_actions(p_t, lowest)
  cost = 0.0 if entropy_cost_t is None else entropy_cost_t[:, None]
  returns = r_t[:, None] + discount_t[:, None] * (atoms - cost)
  target = tf.stop_gradient(categorical.project(returns, p_t, atoms, scale))
  log_p = tf.nn.log_softmax(logits_tm1)
  losses = -tf.reduce_sum(target[:, None] * log_p, -1)  # [B, C]
  entropy = -tf.reduce_sum(tf.math.xlogy(target, target), axis=1)
  # Rounding may give values below 0, which are invalid as priorities.
  error = tf.maximum(tf.reduce_mean(losses, axis=1) - entropy, 0.0)
  outside = categorical.compute_outside_support(returns, p_t, atoms)
  return output.LossOutput(tf.reduce_sum(losses, axis=1), error, outside)


def truncated_quantile_loss(
  quantiles_tm1: tf.Tensor,
  taus: tf.Tensor,
  r_t: tf.Tensor,
  discount_t: tf.Tensor,
  quantiles_t: tf.Tensor,
  dropped: int,
  entropy_cost_t: tf.Tensor | None = None,
) -> output.LossOutput:
  """Returns the quantile losses of critics, summed over them: TQC.

    y_i  = r_t + discount_t (z_(i) - entropy_cost_t),  i <= M K - M dropped
    loss = sum_c mean_k mean_i rho_k(y_i - q_ck(o_tm1, a_tm1))

  where z_(i) are all quantiles of M target critics in ascending order, of which
  the highest are dropped, and rho is the quantile Huber loss with threshold 1.

  Kuznetsov et al. 2020, "Controlling overestimation bias with truncated mixture
  of continuous distributional quantile critics"
  (https://arxiv.org/abs/2005.04269), equations 9 to 13.

  Args (others: see `output`):
    quantiles_tm1: [B, C, K], quantiles of the critics for o_tm1 and a_tm1.
    taus: [K], fractions of the quantiles.
    quantiles_t: [B, M, K], quantiles of M target critics for o_t and a_t.
    dropped: number of dropped quantiles per target critic, below K.
    entropy_cost_t: [B], alpha log pi(a_t | o_t), or None for no such term.

  Returns:
    `LossOutput`, whose error is the mean target minus the mean of all online
    quantiles. Gradients flow into `quantiles_tm1` only.
  """
  output.check_ranks(3, quantiles_tm1=quantiles_tm1, quantiles_t=quantiles_t)
  output.check_ranks(1, r_t=r_t, discount_t=discount_t, taus=taus)
  critics, count = typing.cast(list[int], quantiles_tm1.shape[1:].as_list())
  targets_count = typing.cast(int, quantiles_t.shape[1])
  pooled = tf.reshape(quantiles_t, [-1, targets_count * count])
  lowest = tf.sort(pooled)[:, : targets_count * (count - dropped)]
  cost = 0.0 if entropy_cost_t is None else entropy_cost_t[:, None]
  targets = tf.stop_gradient(
    r_t[:, None] + discount_t[:, None] * (lowest - cost)
  )
  losses = quantile.regression_losses(
    tf.reshape(quantiles_tm1, [-1, critics * count]),
    tf.tile(taus, [critics]),
    targets,
    huber_delta=1.0,
  )
  return output.LossOutput(
    tf.reduce_sum(losses, axis=1) / count,
    tf.reduce_mean(targets, 1) - tf.reduce_mean(quantiles_tm1, [1, 2]),
  )


def soft_policy_loss(
  value: tf.Tensor, log_prob: tf.Tensor, temperature: tf.Tensor
) -> tf.Tensor:
  """Returns alpha log pi(a | o) - q(o, a), a ~ pi(o), [B].

  Haarnoja et al. 2018, equation 7. Without the first term, and for a = pi(o):
  the deterministic policy gradient of Silver et al. 2014
  (https://proceedings.mlr.press/v32/silver14.html), theorem 1.

  Args:
    value: [B], values of reparameterised actions, through which gradients flow.
    log_prob: [B], log-probabilities of these actions.
    temperature: [], alpha, which gets no gradient.
  """
  output.check_ranks(1, value=value, log_prob=log_prob)
  return tf.stop_gradient(temperature) * log_prob - value


def temperature_loss(
  log_temperature: typing.Any,
  log_prob: tf.Tensor,
  target_entropy: float | tf.Tensor,
) -> tf.Tensor:
  """Returns -log alpha (log pi(a | o) + target entropy): equation 18, [B].

  As in the authors' code, the variable is log alpha, so alpha stays above 0.

  Args:
    log_temperature: [], log alpha, the variable that learns.
    log_prob: [B], log-probabilities of actions, which get no gradient.
    target_entropy: desired entropy of the policy, in nats, [] or [B].
  """
  output.check_ranks(1, log_prob=log_prob)
  return -log_temperature * tf.stop_gradient(log_prob + target_entropy)


class MPOOutput(typing.NamedTuple):
  """MPO's losses of a batch.

  Attributes:
    policy_loss: [], weighted negative log-likelihood of the actions.
    temperature_loss: [], loss of the temperature eta.
    kl_loss: [], KL penalty of the policy, and loss of the multipliers alpha.
  """

  policy_loss: tf.Tensor
  temperature_loss: tf.Tensor
  kl_loss: tf.Tensor


def mpo(
  value: tf.Tensor,
  log_prob: tf.Tensor,
  kl: tf.Tensor,
  temperature: tf.Tensor,
  multipliers: tf.Tensor,
  temperature_bound: float,
  kl_bounds: tf.Tensor,
) -> MPOOutput:
  """Returns MPO's losses of the policy, the temperature and the KL bounds.

  The N actions of each observation are samples of the target policy.

    w_ij          = exp(q_ij / eta) / sum_i exp(q_ij / eta)
    L_policy      = -mean_j sum_i sum_k w_ij log pi_k(a_ij | o_j)
    L_temperature = eta eps + eta mean_j log mean_i exp(q_ij / eta)
    L_kl          = sum_k alpha_k (eps_k - sg(KL_k)) + sg(alpha_k) KL_k

  sg stops gradients. Part pi_k of the policy has the k-th parameter of the
  learned policy, such as the mean of a Gaussian, and all others of the target
  policy; KL_k is the mean divergence from the target policy to it.

  Abdolmaleki et al. 2018, "Maximum a posteriori policy optimisation"
  (https://arxiv.org/abs/1806.06920), section 4, and "Relative entropy
  regularized policy iteration" (https://arxiv.org/abs/1812.02256), equations 4,
  9 and 10.

  Args:
    value: [N, B], values q of the actions.
    log_prob: [N, B, K], log-densities of the actions by the policy's parts.
    kl: [B, K], divergences from the target policy to the parts.
    temperature: [], eta, above 0.
    multipliers: [K], alpha, the Lagrange multipliers of the KL bounds, above 0.
    temperature_bound: eps, the bound of the temperature's loss, in nats.
    kl_bounds: [K], eps_k, the upper bounds of the mean KL, in nats.

  Returns:
    `MPOOutput`. Gradients of `policy_loss` flow into `log_prob` only, those of
    `temperature_loss` into `temperature`, and those of `kl_loss` into `kl` and
    `multipliers`.
  """
  output.check_ranks(2, value=value, kl=kl)
  output.check_ranks(3, log_prob=log_prob)
  scaled = tf.stop_gradient(value) / temperature
  weights = tf.stop_gradient(tf.nn.softmax(scaled, axis=0))
  likelihood = tf.reduce_sum(weights[:, :, None] * log_prob, axis=(0, 2))
  samples = tf.cast(tf.shape(value)[0], value.dtype)
  log_mean = tf.reduce_logsumexp(scaled, axis=0) - tf.math.log(samples)
  return MPOOutput(
    -tf.reduce_mean(likelihood),
    temperature * (temperature_bound + tf.reduce_mean(log_mean)),
    output.kl_penalty(tf.reduce_mean(kl, axis=0), multipliers, kl_bounds),
  )


def smooth_action(
  action: tf.Tensor, noise: tf.Tensor, std: float, clip: float
) -> tf.Tensor:
  """Returns clip(a + clip(std noise, -c, c), -1, 1): TD3's next action, [B, A].

  Fujimoto et al. 2018, equation 14 and algorithm 1.

  Args:
    action: [B, A], actions of the target policy, in [-1, 1].
    noise: [B, A], standard normal numbers.
  """
  output.check_ranks(2, action=action, noise=noise)
  noise = tf.clip_by_value(std * noise, -clip, clip)
  return tf.clip_by_value(action + noise, -1.0, 1.0)
