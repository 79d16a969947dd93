"""Q-networks: a torso of the observation's kind and a head of values."""

import functools
import typing
from collections.abc import Callable

import ml_collections
import numpy as np
import sonnet as snt
import tensorflow as tf
from acme import specs

from agents.networks import heads, layers


class Torso(snt.Module):
  """Convolutions of the kind that a config names, then linear layers."""

  def __init__(self, kind: str, sizes: tuple[int, ...], name: str = "torso"):
    """Makes the layers.

    Args:
      kind: `config.network.torso`.
      sizes: units of the linear layers.
      name: prefix of the variables.
    """
    super().__init__(name=name)
    self._takes_bytes = kind == "nature_cnn"
    self._convolutions = _convolutions(kind)
    self._layers = [
      (layers.WideLinear if self._takes_bytes and i == 0 else snt.Linear)(
        size, name=f"linear_{i}"
      )
      for i, size in enumerate(sizes)
    ]

  def __call__(self, observation: tf.Tensor) -> tf.Tensor:
    """Features [B, F] of observations [B, ...]."""
    x = observation
    if not self._takes_bytes:
      x = tf.cast(x, tf.float32)
    for layer in self._convolutions:
      x = layers.relu(layer(x))
    x = snt.flatten(x)
    for layer in self._layers:
      x = layers.relu(layer(x))
    return x


def _convolutions(kind: str) -> list[typing.Any]:
  if kind == "nature_cnn":  # Mnih et al. 2015, methods, "Model architecture"
    return [
      layers.FramesConvolution(32, name="conv_0"),
      snt.Conv2D(64, 4, 2, padding="VALID", name="conv_1"),
      snt.Conv2D(64, 3, 1, padding="VALID", name="conv_2"),
    ]
  if kind == "minatar_cnn":  # Young and Tian 2019, section 4
    return [snt.Conv2D(16, 3, 1, padding="VALID", name="conv_0")]
  return []


class Output(typing.NamedTuple):
  """What a head says of each action: K numbers, whose meaning is the head's.

  Of `expected` the value, of `categorical` the logits of the atoms, of
  `quantile` and `implicit_quantile` the quantiles.
  """

  numbers: tf.Tensor  # [B, A, K] float32
  taus: tf.Tensor | None  # [K] or [B, K], of which they are the quantiles


class Stream(snt.Module):
  """One hidden layer and a linear output."""

  def __init__(
    self,
    hidden_size: int,
    outputs: int,
    name: str,
    linear: Callable[..., snt.Module],
    hidden: Callable[..., snt.Module],
  ):
    """Makes the two layers, a `hidden` and a `linear`."""
    super().__init__(name=name)
    self._hidden = hidden(hidden_size, name="hidden")
    self._output = linear(outputs, name="output")

  def __call__(self, features: tf.Tensor, noise: layers.Noise) -> tf.Tensor:
    """Outputs [B, outputs] of features [B, F]."""
    x = layers.relu(layers.call(self._hidden, features, noise))
    return layers.call(self._output, x, noise)


class QNetwork(snt.Module):
  """What is known of q(o, .) for observations [B, ...].

  With `dueling`, q(o, a) = v(o) + adv(o, a) - mean_a' adv(o, a'), for each of
  the K numbers: Wang et al. 2016, "Dueling network architectures", equation 9;
  Hessel et al. 2018, "Rainbow", for distributions.
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
    self._head = heads.make_head(config)
    self._num_actions = num_actions
    *torso_sizes, head_size = config.hidden_sizes
    self._torso = Torso(config.torso, tuple(torso_sizes))
    wide = config.torso == "nature_cnn" and not torso_sizes
    linear = snt.Linear
    hidden = layers.WideLinear if wide else snt.Linear
    if config.noisy:
      linear = functools.partial(layers.NoisyLinear, std=config.noisy_std)
      hidden = functools.partial(linear, wide=wide)
    numbers = self._head.numbers
    self._advantage = Stream(
      head_size, num_actions * numbers, "advantage", linear, hidden
    )
    self._value = None
    if config.dueling:
      self._value = Stream(head_size, numbers, "value", linear, hidden)
    self._embedding = None
    if self._head.drawn:
      self._embedding = TauEmbedding(config.cosines)

  def __call__(
    self,
    observation: tf.Tensor,
    seed: tf.Tensor | None = None,
    quantiles: int = heads.GREEDY_QUANTILES,
  ) -> Output:
    """The numbers of all actions.

    Args:
      observation: [B, ...].
      seed: int32 [2], of noise and of taus; None: without noise, and with the
        middles of equal parts for taus.
      quantiles: K, where the head draws them.
    """
    noise = layers.Noise(seed)
    features = self._torso(observation)
    taus = self._head.taus
    if taus is not None:
      taus = tf.constant(taus)
    batch_size = tf.shape(features)[0]
    if self._embedding is not None:
      taus = noise.uniform((batch_size, quantiles))
      if taus is None:
        middles = tf.constant(heads.middles(quantiles))
        taus = tf.tile(middles[None], tf.stack([batch_size, 1]))
      features = self._embedding(features, taus)  # [B * K, F]
    numbers = self._advantage(features, noise)
    numbers = self._by_action(numbers, batch_size, self._num_actions)
    if self._value is not None:
      value = self._by_action(self._value(features, noise), batch_size, 1)
      mean = tf.reduce_mean(numbers, axis=1, keepdims=True)
      numbers = value + numbers - mean
    return Output(numbers, taus)

  def _by_action(
    self, outputs: tf.Tensor, batch_size: tf.Tensor, actions: int
  ) -> tf.Tensor:
    """[B, actions, K] of a stream's outputs."""
    if self._embedding is None:
      return tf.reshape(outputs, (-1, actions, self._head.numbers))
    each = tf.reshape(outputs, (batch_size, -1, actions))
    return tf.transpose(each, (0, 2, 1))


class TauEmbedding(snt.Module):
  """Features for a quantile: phi(tau) times features, both of size F.

  phi(tau) = relu(sum_i cos(pi i tau) w_i + b): Dabney et al. 2018, "Implicit
  quantile networks", equation 4.
  """

  def __init__(self, cosines: int, name: str = "embedding"):
    """Makes the layer for `cosines` cosines, its size at the first call."""
    super().__init__(name=name)
    self._cosines = cosines

  def __call__(self, features: tf.Tensor, taus: tf.Tensor) -> tf.Tensor:
    """[B * K, F] of features [B, F] and taus [B, K]."""
    size: typing.Any = features.shape[1]
    linear = self._linear(size)
    steps = np.pi * np.arange(self._cosines, dtype=np.float32)
    phi = layers.relu(linear(tf.cos(tf.reshape(taus, (-1, 1)) * steps)))
    each = tf.reshape(phi, (tf.shape(features)[0], -1, size))
    return tf.reshape(features[:, None] * each, (-1, size))

  @snt.once
  def _make(self, size: int) -> None:
    self._layer = snt.Linear(size, name="cosines")

  def _linear(self, size: int) -> snt.Linear:
    self._make(size)
    return self._layer


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


def get_variables(network: snt.Module) -> dict[str, np.ndarray]:
  """A copy of the variables by short name: 'torso/linear_0/w'."""
  return {
    variable.name.split("/", 1)[1].split(":")[0]: variable.numpy()
    for variable in network.variables
  }
