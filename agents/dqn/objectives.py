"""Objectives: what a network's outputs are pulled to, one for each head."""

import typing

import ml_collections
import tensorflow as tf

from slipway.agents.losses import (
  categorical,
  munchausen,
  output,
  q_learning,
  quantile,
)
from slipway.agents.networks import heads, q_network
from slipway.replay.items import transitions


class Evidence(typing.NamedTuple):
  """What an update knows of a batch of transitions.

  Attributes:
    online: of o_tm1, by the network that learns.
    target: of o_t, by the target network.
    target_tm1: of o_tm1, by the target network; None: the objective does not
      ask.
    selector: values [B, A] of o_t that choose the bootstrap's action.
  """

  online: q_network.Output
  target: q_network.Output
  target_tm1: q_network.Output | None
  selector: tf.Tensor


class Objective(typing.Protocol):
  """The learner's side of a head.

  Attributes:
    asks_target_tm1: whether it needs the target network's view of o_tm1.
  """

  asks_target_tm1: bool

  def loss(
    self, batch: transitions.Transition, evidence: Evidence
  ) -> output.LossOutput:
    """Loss and error of each transition."""
    ...


class Expected:
  """Q-learning's. Mnih et al. 2015; van Hasselt et al. 2016."""

  asks_target_tm1 = False

  def __init__(self, huber_delta: float):
    """Clips errors at `huber_delta`."""
    self._huber_delta = huber_delta

  def loss(
    self, batch: transitions.Transition, evidence: Evidence
  ) -> output.LossOutput:
    """See `q_learning.q_learning`."""
    return q_learning.q_learning(
      evidence.online.values,
      batch.a_tm1,
      batch.r_t,
      batch.discount_t,
      evidence.target.values,
      evidence.selector,
      self._huber_delta,
    )


class Munchausen(Expected):
  """Vieillard et al. 2020: the policy's own log-probability as a reward."""

  asks_target_tm1 = True

  def __init__(self, config: ml_collections.ConfigDict):
    """Takes its numbers from the `learner` part of a config."""
    super().__init__(config.huber_delta)
    self._temperature = config.munchausen_temperature
    self._scale = config.munchausen_scale
    self._lowest = config.munchausen_lowest

  def loss(
    self, batch: transitions.Transition, evidence: Evidence
  ) -> output.LossOutput:
    """See `munchausen.munchausen_q_learning`."""
    assert evidence.target_tm1 is not None
    return munchausen.munchausen_q_learning(
      evidence.online.values,
      batch.a_tm1,
      batch.r_t,
      batch.discount_t,
      evidence.target_tm1.values,
      evidence.target.values,
      self._temperature,
      self._scale,
      self._lowest,
      self._huber_delta,
    )


class Categorical:
  """C51's. Bellemare et al. 2017."""

  asks_target_tm1 = False

  def __init__(self, head: heads.Categorical):
    """On the atoms of `head`."""
    self._atoms = tf.constant(head.atoms)

  def loss(
    self, batch: transitions.Transition, evidence: Evidence
  ) -> output.LossOutput:
    """See `categorical.categorical_q_learning`."""
    return categorical.categorical_q_learning(
      evidence.online.outputs,
      batch.a_tm1,
      batch.r_t,
      batch.discount_t,
      evidence.target.outputs,
      evidence.selector,
      self._atoms,
    )


class Quantile:
  """QR-DQN's and IQN's. Dabney et al. 2018, both."""

  asks_target_tm1 = False

  def __init__(self, huber_delta: float):
    """Turns linear at `huber_delta`."""
    self._huber_delta = huber_delta

  def loss(
    self, batch: transitions.Transition, evidence: Evidence
  ) -> output.LossOutput:
    """See `quantile.quantile_q_learning`."""
    assert evidence.online.taus is not None
    return quantile.quantile_q_learning(
      evidence.online.outputs,
      tf.convert_to_tensor(evidence.online.taus),
      batch.a_tm1,
      batch.r_t,
      batch.discount_t,
      evidence.target.outputs,
      evidence.selector,
      self._huber_delta,
    )


def make_objective(config: ml_collections.ConfigDict) -> Objective:
  """The objective of a whole config.

  Args:
    config: validated.
  """
  head = heads.make_head(config.network)
  if isinstance(head, heads.Categorical):
    return Categorical(head)
  if not isinstance(head, heads.Expected):
    return Quantile(config.learner.huber_delta)
  if config.learner.munchausen_scale:
    return Munchausen(config.learner)
  return Expected(config.learner.huber_delta)
