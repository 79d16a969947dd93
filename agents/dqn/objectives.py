"""Objectives of the DQN family: the loss for each kind of head."""

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
  """Outputs of online and target network for a batch of transitions.

  Attributes:
    online: the online network's outputs for o_tm1.
    target: the target network's outputs for o_t.
    target_tm1: the target network's outputs for o_tm1, or None if the objective
      does not need them.
    selector: action values [B, A] of o_t; their argmax is the bootstrap's
      action.
  """

  online: q_network.Output
  target: q_network.Output
  target_tm1: q_network.Output | None
  selector: tf.Tensor


class Objective(typing.Protocol):
  """Function from network outputs and transitions to losses.

  Attributes:
    needs_target_tm1: whether the loss needs `NetworkOutputs.target_tm1`.
  """

  needs_target_tm1: bool

  def loss(
    self, batch: transitions.Transition, outputs: NetworkOutputs
  ) -> output.LossOutput:
    """Returns losses [B], and the TD errors [B] for new priorities.

    Args:
      batch: B transitions.
      outputs: outputs of the networks for these transitions.
    """
    ...


class Expected:
  """Objective of DQN and double DQN, for head `expected`.

  Mnih et al. 2015; van Hasselt et al. 2016. See `q_learning.q_learning`.
  """

  needs_target_tm1 = False

  def __init__(self, huber_delta: float):
    """Makes the objective.

    Args:
      huber_delta: absolute error above which the loss is linear.
    """
    self._huber_delta = huber_delta

  def loss(
    self, batch: transitions.Transition, outputs: NetworkOutputs
  ) -> output.LossOutput:
    """Returns the result of `q_learning.q_learning`; see `Objective`."""
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
  """Objective of Munchausen DQN, for head `expected`.

  Vieillard et al. 2020. See `munchausen.munchausen_q_learning`.
  """

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
    """Returns the result of `munchausen.munchausen_q_learning`."""
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
  """Objective of C51, for head `categorical`.

  Bellemare et al. 2017. See `categorical.categorical_q_learning`.
  """

  needs_target_tm1 = False

  def __init__(self, head: heads.Categorical):
    """Makes the objective for the atoms of a head."""
    self._atoms = tf.constant(head.atoms)

  def loss(
    self, batch: transitions.Transition, outputs: NetworkOutputs
  ) -> output.LossOutput:
    """Returns the result of `categorical.categorical_q_learning`."""
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
  """Objective of QR-DQN and IQN, for heads `quantile` and `implicit_quantile`.

  Dabney et al. 2018 (both papers). See `quantile.quantile_q_learning`.
  """

  needs_target_tm1 = False

  def __init__(self, huber_delta: float):
    """Makes the objective.

    Args:
      huber_delta: absolute error above which the loss is linear.
    """
    self._huber_delta = huber_delta

  def loss(
    self, batch: transitions.Transition, outputs: NetworkOutputs
  ) -> output.LossOutput:
    """Returns the result of `quantile.quantile_q_learning`."""
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
  """Makes the objective that a config selects by its head and its learner.

  Args:
    config: the whole config, which `Builder.check` has accepted.
  """
  head = heads.make_head(config.network)
  if isinstance(head, heads.Categorical):
    return Categorical(head)
  if not isinstance(head, heads.Expected):
    return Quantile(config.learner.huber_delta)
  if config.learner.munchausen_scale:
    return Munchausen(config.learner)
  return Expected(config.learner.huber_delta)
