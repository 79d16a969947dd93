"""The output layer of policy networks."""

import typing

import numpy as np
from acme import specs

from slipway.agents.networks import distributions, initializers
from slipway.agents.networks import layers as layers_lib

Array = layers_lib.Array  # np.ndarray or tf.Tensor

# Bounds of the log standard deviations that a policy network computes, from the
# code of Haarnoja et al. 2018 (https://github.com/rail-berkeley/softlearning).
_LOWEST_LOG_STD, _HIGHEST_LOG_STD = -20.0, 2.0


class PolicyHead:
  """Output layer of a policy network, with its action distributions."""

  def __init__(
    self, spec: specs.EnvironmentSpec, kind: str, scheme: initializers.Scheme
  ):
    """Declares the output layer.

    Args:
      spec: spec of one environment. Actions are one of A discrete values, A
        continuous numbers, or K discrete components of at most N values.

    Raises:
      ValueError: no distribution has this name.
    """
    distributions.check_kind(kind)
    self._kind = kind
    self._initializer = scheme.policy
    self._components = 1
    if kind == "categorical":
      self._actions = spec.actions.num_values
    elif kind == "product_categorical":
      components = typing.cast(typing.Any, spec.actions).sizes
      self._components = len(components)
      self._actions = self._components * max(components)
    else:
      self._actions = int(np.prod(spec.actions.shape))

  @property
  def size(self) -> int:
    """Number P of parameters of one action distribution."""
    continuous = self._kind in distributions.CONTINUOUS
    return 2 * self._actions if continuous else self._actions

  def __call__(
    self, layers: layers_lib.Layers, x: Array, penalty: Array | None
  ) -> Array:
    """Returns parameters float32 [B, P] of B action distributions.

    For 'categorical', the parameters are A logits. For 'product_categorical',
    they are N logits per component. For 'deterministic', they are the actions
    themselves, squashed by tanh. For Gaussians, they are A means followed by A
    log standard deviations.

    The standard deviation of a 'gaussian' is a variable, independent of the
    observation: Schulman et al. 2017, "Proximal policy optimization", section
    6.1. A 'conditional_gaussian' or 'tanh_gaussian' computes the
    deviation from x.

    Args:
      x: features float32 [B, F].
      penalty: penalties of illegal actions, added to the logits, [B, P] or [P],
        or None; see `action_masks.MaskSplitter.split`.
    """
    ops = layers.ops
    std_is_variable = self._kind == "gaussian"
    size = self._actions if std_is_variable else self.size
    output = layers.linear("output", x, size, self._initializer)
    if self._kind == distributions.DETERMINISTIC:
      return ops.tanh(output)
    if self._kind not in distributions.CONTINUOUS:
      return output if penalty is None else output + penalty
    if std_is_variable:
      log_std = layers.variable("log_std", (size,), initializers.zeros)
      return ops.concat([output, ops.broadcast_to(log_std, ops.shape(output))])
    mean, log_std = ops.split(output, 2)
    return ops.concat(
      [mean, ops.clip(log_std, _LOWEST_LOG_STD, _HIGHEST_LOG_STD)]
    )

  def distribution(
    self, ops: typing.Any, parameters: Array
  ) -> distributions.Distribution:
    """Returns the B action distributions with the given parameters.

    Args:
      parameters: distribution parameters [B, P], as the network returns them.
    """
    return distributions.make_distribution(
      self._kind, ops, parameters, self._components
    )
