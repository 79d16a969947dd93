"""Adam, with one fused kernel a variable.

Sonnet's Adam is some fifteen small operations a variable, which cost more
than the arithmetic of a small network; Keras's refuses to be traced first in
a Launchpad node's thread.
"""

from collections.abc import Sequence

import sonnet as snt
import tensorflow as tf

_BETA_1, _BETA_2 = 0.9, 0.999  # Kingma and Ba 2015, algorithm 1


class Adam(snt.Module):
  """Kingma and Ba 2015, "Adam", algorithm 1, in its efficient order.

  The epsilon is the "epsilon hat" of the paper's section 2.
  """

  def __init__(
    self,
    variables: Sequence[tf.Variable],
    learning_rate: float,
    epsilon: float,
    name: str = "adam",
  ):
    """Makes the moments, at zero.

    Args:
      variables: what is optimized.
      learning_rate: alpha.
      epsilon: keeps the division finite.
      name: of the module.
    """
    super().__init__(name=name)
    self._variables = list(variables)
    self._learning_rate, self._epsilon = learning_rate, epsilon
    self._first = [_zeros_like(v, "m") for v in self._variables]
    self._second = [_zeros_like(v, "v") for v in self._variables]
    self._beta_1_power = tf.Variable(tf.constant(_BETA_1), trainable=False)
    self._beta_2_power = tf.Variable(tf.constant(_BETA_2), trainable=False)

  def apply(self, gradients: Sequence[tf.Tensor]) -> None:
    """One step against the gradients, in the order of the variables."""
    for gradient, variable, first, second in zip(
      gradients, self._variables, self._first, self._second, strict=True
    ):
      tf.raw_ops.ResourceApplyAdam(
        var=variable.handle,
        m=first.handle,
        v=second.handle,
        beta1_power=self._beta_1_power,
        beta2_power=self._beta_2_power,
        lr=self._learning_rate,
        beta1=_BETA_1,
        beta2=_BETA_2,
        epsilon=self._epsilon,
        grad=gradient,
      )
    with tf.control_dependencies(gradients):  # see `DQNLearner.update`
      self._beta_1_power.assign(self._beta_1_power * _BETA_1)
      self._beta_2_power.assign(self._beta_2_power * _BETA_2)


def _zeros_like(variable: tf.Variable, name: str) -> tf.Variable:
  return tf.Variable(tf.zeros_like(variable), trainable=False, name=name)
