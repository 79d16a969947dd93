"""Advantage estimators of rollouts: GAE and V-trace.

A rollout may cross the end of an episode. A truncated episode bootstraps from
the value of its true last observation, which `values` contains. The autoreset
step after an episode belongs to no episode. Its results have no meaning, and
learners mask them.
"""

import typing

import tensorflow as tf

from slipway.agents.losses import output, traces


class Advantages(typing.NamedTuple):
  """Advantages and returns of B rollouts of T steps, without gradients.

  Attributes:
    advantages: [B, T], advantages A_t of the actions.
    returns: [B, T], returns G_t, the targets of the values v_t.
  """

  advantages: tf.Tensor
  returns: tf.Tensor


def generalized_advantages(
  reward: tf.Tensor,
  discount: tf.Tensor,
  ended: tf.Tensor,
  values: tf.Tensor,
  lambda_: float,
) -> Advantages:
  """Returns advantages by generalized advantage estimation (GAE).

    delta_t = r_{t+1} + d_{t+1} v_{t+1} - v_t
    A_t     = delta_t + d_{t+1} lambda A_{t+1}, without the second term where
              the episode ended in the step
    G_t     = A_t + v_t

  Schulman et al. 2016, "High-dimensional continuous control using generalized
  advantage estimation" (https://arxiv.org/abs/1506.02438), equations 11 and 16.
  With lambda = 1, A_t is the n-step advantage of Mnih et al. 2016,
  "Asynchronous methods for deep reinforcement learning"
  (https://arxiv.org/abs/1602.01783), algorithm S3.

  Args (others: see `output`):
    values: [B, T + 1], values of the observations.

  Returns:
    The advantages A_t and returns G_t, without gradients.
  """
  output.check_ranks(
    2, reward=reward, discount=discount, ended=ended, values=values
  )
  values = tf.stop_gradient(values)
  deltas = reward + discount * values[:, 1:] - values[:, :-1]
  advantages = traces.discounted_sums(
    deltas, lambda_ * traces.zero_at_ends(discount, ended)
  )
  return Advantages(advantages, advantages + values[:, :-1])


def vtrace(
  reward: tf.Tensor,
  discount: tf.Tensor,
  ended: tf.Tensor,
  values: tf.Tensor,
  log_ratio: tf.Tensor,
  lambda_: float = 1.0,
  max_rho: float = 1.0,
  max_c: float = 1.0,
) -> tuple[Advantages, tf.Tensor]:
  """Returns V-trace's value targets and advantages, and its weights rho.

  V-trace corrects rollouts of a policy mu for the current policy pi.

    rho_t = min(max_rho, pi(a_t | o_t) / mu(a_t | o_t))
    c_t   = lambda min(max_c, pi(a_t | o_t) / mu(a_t | o_t))
    G_t   = v_t + rho_t (r_{t+1} + d_{t+1} v_{t+1} - v_t)
                + d_{t+1} c_t (G_{t+1} - v_{t+1})
    A_t   = r_{t+1} + d_{t+1} (lambda G_{t+1} + (1 - lambda) v_{t+1}) - v_t

  If the episode or the rollout ends in the step, G_{t+1} is v_{t+1}. The policy
  gradient uses rho_t A_t. Losses with the ratio, such as PPO's, use A_t. On the
  current policy's own rollouts, A_t and G_t are those of GAE.

  Espeholt et al. 2018, "IMPALA" (https://arxiv.org/abs/1802.01561), equation 1
  and section 4.2; lambda in G_t: remark 2. The paper's A_t is that of lambda =
  1; the one here also bootstraps as GAE's does.

  Args (others: see `output`):
    values: [B, T + 1], values of the observations.

  Returns:
    The advantages A_t and targets G_t, and the clipped ratios rho [B, T]; all
    without gradients.
  """
  output.check_ranks(
    2,
    reward=reward,
    discount=discount,
    ended=ended,
    values=values,
    log_ratio=log_ratio,
  )
  values, ratio = tf.stop_gradient(values), tf.exp(tf.stop_gradient(log_ratio))
  rho, c = tf.minimum(ratio, max_rho), lambda_ * tf.minimum(ratio, max_c)
  continued = traces.zero_at_ends(discount, ended)
  errors = reward + discount * values[:, 1:] - values[:, :-1]
  corrections = traces.discounted_sums(rho * errors, c * continued)  # G_t - v_t
  later = tf.pad(corrections[:, 1:], [[0, 0], [0, 1]])  # G_{t+1} - v_{t+1}
  advantages = errors + lambda_ * continued * later
  return Advantages(advantages, corrections + values[:, :-1]), rho
