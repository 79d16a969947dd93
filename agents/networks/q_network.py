"""Q-networks: a torso of the observation's kind and a head of values."""

import ml_collections
import numpy as np
import sonnet as snt
import tensorflow as tf
from acme import specs

from agents.networks import layers

Linear = type[snt.Linear] | type[layers.WideLinear]


class NatureTorso(snt.Module):
  """Three convolutions. Mnih et al. 2015, methods, "Model architecture"."""

  def __init__(self, name: str = "torso"):
    """Makes the layers."""
    super().__init__(name=name)
    self._layers = [
      layers.FramesConvolution(32, name="conv_0"),
      snt.Conv2D(64, 4, 2, padding="VALID", name="conv_1"),
      snt.Conv2D(64, 3, 1, padding="VALID", name="conv_2"),
    ]

  def __call__(self, observation: tf.Tensor) -> tf.Tensor:
    """Features [B, F] of uint8 frames [B, stack, height, width]."""
    x = observation
    for layer in self._layers:
      x = layers.relu(layer(x))
    return snt.flatten(x)


class MLPTorso(snt.Module):
  """Fully connected layers with ReLU."""

  def __init__(self, sizes: tuple[int, ...], name: str = "torso"):
    """Makes the layers, of `sizes` units."""
    super().__init__(name=name)
    self._layers = [
      snt.Linear(size, name=f"linear_{i}") for i, size in enumerate(sizes)
    ]

  def __call__(self, observation: tf.Tensor) -> tf.Tensor:
    """Features [B, F] of observations [B, ...]."""
    x = snt.flatten(tf.cast(observation, tf.float32))
    for layer in self._layers:
      x = layers.relu(layer(x))
    return x


class Stream(snt.Module):
  """One hidden layer and a linear output."""

  def __init__(self, hidden_size: int, outputs: int, name: str, linear: Linear):
    """Makes the two layers, the hidden one a `linear`."""
    super().__init__(name=name)
    self._hidden = linear(hidden_size, name="hidden")
    self._output = snt.Linear(outputs, name="output")

  def __call__(self, features: tf.Tensor) -> tf.Tensor:
    """Outputs [B, outputs] of features [B, F]."""
    return self._output(layers.relu(self._hidden(features)))


class QNetwork(snt.Module):
  """q(o, .) [B, A] of observations [B, ...].

  With `dueling`, q(o, a) = v(o) + adv(o, a) - mean_a' adv(o, a'): Wang et al.
  2016, "Dueling network architectures", equation 9.
  """

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    num_actions: int,
    name: str = "q_network",
  ):
    """Makes torso and head.

    Args:
      config: the `network` part of a config.
      num_actions: A.
      name: prefix of the variables.
    """
    super().__init__(name=name)
    *torso_sizes, head_size = config.hidden_sizes
    if config.torso == "nature_cnn":
      self._torso, linear = NatureTorso(), layers.WideLinear
    else:
      self._torso, linear = MLPTorso(tuple(torso_sizes)), snt.Linear
    self._advantage = Stream(head_size, num_actions, "advantage", linear)
    self._value = None
    if config.dueling:
      self._value = Stream(head_size, 1, "value", linear)

  def __call__(self, observation: tf.Tensor) -> tf.Tensor:
    """Values [B, A] of observations [B, ...]."""
    features = self._torso(observation)
    advantage = self._advantage(features)  # [B, A]
    if self._value is None:
      return advantage
    value = self._value(features)  # [B, 1]
    mean = tf.reduce_mean(advantage, axis=1, keepdims=True)
    return value + advantage - mean


def make_q_network(
  config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
) -> QNetwork:
  """A Q-network for this environment, with its variables created.

  Args:
    config: the `network` part of a config.
    spec: of an environment with discrete actions.
  """
  network = QNetwork(config, spec.actions.num_values)
  observations = spec.observations
  network(tf.zeros((1, *observations.shape), observations.dtype))
  return network


def get_variables(network: QNetwork) -> dict[str, np.ndarray]:
  """A copy of the variables by short name: 'torso/linear_0/w'."""
  return {
    variable.name.split("/", 1)[1].split(":")[0]: variable.numpy()
    for variable in network.variables
  }
