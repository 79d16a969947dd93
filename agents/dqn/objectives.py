"""Objectives: the losses of the DQN family, one for each kind of head."""

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


class NetworkOutputs(typing.NamedTuple):
  """Outputs of the networks for a batch of transitions.

  Attributes:
    online: the online network's outputs for o_tm1.
    target: the target network's outputs for o_t.
    target_tm1: the target network's outputs for o_tm1, or None if the objective
      does not need them.
    selector: values [B, A] of o_t that choose the bootstrap's action.
  """

  online: q_network.Output
  target: q_network.Output
  target_tm1: q_network.Output | None
  selector: tf.Tensor


class Objective(typing.Protocol):
  """Computes the loss of a head's outputs.

  Attributes:
    needs_target_tm1: whether the loss needs `NetworkOutputs.target_tm1`.
  """

  needs_target_tm1: bool

  def loss(
    self, batch: transitions.Transition, outputs: NetworkOutputs
  ) -> output.LossOutput:
    """Returns the loss of each transition, and the error for its priority."""
    ...


class Expected:
  """Q-learning of mean returns. Mnih et al. 2015; van Hasselt et al. 2016."""

  needs_target_tm1 = False

  def __init__(self, huber_delta: float):
    """Makes the loss linear beyond errors of `huber_delta`."""
    self._huber_delta = huber_delta

  def loss(
    self, batch: transitions.Transition, outputs: NetworkOutputs
  ) -> output.LossOutput:
    """Returns the loss of `q_learning.q_learning`."""
    return q_learning.q_learning(
      outputs.online.values,
      batch.a_tm1,
      batch.r_t,
      batch.discount_t,
      outputs.target.values,
      outputs.selector,
      self._huber_delta,
    )


class Munchausen(Expected):
  """Q-learning with a bonus of the log-policy. Vieillard et al. 2020."""

  needs_target_tm1 = True

  def __init__(self, config: ml_collections.ConfigDict):
    """Reads the hyperparameters from the `learner` section of a config."""
    super().__init__(config.huber_delta)
    self._temperature = config.munchausen_temperature
    self._scale = config.munchausen_scale
    self._lowest = config.munchausen_lowest

  def loss(
    self, batch: transitions.Transition, outputs: NetworkOutputs
  ) -> output.LossOutput:
    """Returns the loss of `munchausen.munchausen_q_learning`."""
    assert outputs.target_tm1 is not None
    return munchausen.munchausen_q_learning(
      outputs.online.values,
      batch.a_tm1,
      batch.r_t,
      batch.discount_t,
      outputs.target_tm1.values,
      outputs.target.values,
      self._temperature,
      self._scale,
      self._lowest,
      self._huber_delta,
    )


class Categorical:
  """Learning of return distributions, C51. Bellemare et al. 2017."""

  needs_target_tm1 = False

  def __init__(self, head: heads.Categorical):
    """Keeps the atoms of the head."""
    self._atoms = tf.constant(head.atoms)

  def loss(
    self, batch: transitions.Transition, outputs: NetworkOutputs
  ) -> output.LossOutput:
    """Returns the loss of `categorical.categorical_q_learning`."""
    return categorical.categorical_q_learning(
      outputs.online.outputs,
      batch.a_tm1,
      batch.r_t,
      batch.discount_t,
      outputs.target.outputs,
      outputs.selector,
      self._atoms,
    )


class Quantile:
  """Learning of return quantiles, QR-DQN and IQN. Dabney et al. 2018, both."""

  needs_target_tm1 = False

  def __init__(self, huber_delta: float):
    """Makes the loss linear beyond errors of `huber_delta`."""
    self._huber_delta = huber_delta

  def loss(
    self, batch: transitions.Transition, outputs: NetworkOutputs
  ) -> output.LossOutput:
    """Returns the loss of `quantile.quantile_q_learning`."""
    assert outputs.online.taus is not None
    return quantile.quantile_q_learning(
      outputs.online.outputs,
      tf.convert_to_tensor(outputs.online.taus),
      batch.a_tm1,
      batch.r_t,
      batch.discount_t,
      outputs.target.outputs,
      outputs.selector,
      self._huber_delta,
    )


def make_objective(config: ml_collections.ConfigDict) -> Objective:
  """Makes the objective of a whole, valid config."""
  head = heads.make_head(config.network)
  if isinstance(head, heads.Categorical):
    return Categorical(head)
  if not isinstance(head, heads.Expected):
    return Quantile(config.learner.huber_delta)
  if config.learner.munchausen_scale:
    return Munchausen(config.learner)
  return Expected(config.learner.huber_delta)
