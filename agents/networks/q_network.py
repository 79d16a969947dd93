"""Q-networks of the DQN family: a torso, and a head of action values."""

import math
import typing

import ml_collections
import numpy as np
from acme import specs

from slipway.agents.networks import action_masks, heads, initializers, torsos
from slipway.agents.networks import layers as layers_lib

Array = layers_lib.Array  # np.ndarray or tf.Tensor


class Output(typing.NamedTuple):
  """Result of a Q-network for B observations and A actions.

  Attributes:
    values: float32 [B, A], action values q(o, .). Those of illegal actions are
      below all others; see `action_masks`.
    outputs: float32 [B, A, K], K outputs per action. The head `expected` has
      the value (K = 1), `categorical` has logits of the atoms, and `quantile`
      and `implicit_quantile` have quantiles.
    taus: fractions of the quantiles, float32 [K] or [B, K], or None for heads
      without quantiles.
    behaviour: float32 [B, A], logits of the stored actions, or None without
      `network.bcq_threshold`.
    choice: float32 [B, A], values by which actions are chosen: `values`, but
      those of actions that the threshold excludes are below all others.
  """

  values: Array
  outputs: Array
  taus: Array | None
  behaviour: Array | None
  choice: Array


class QNetwork:
  """Declaration of a feed-forward network of action values q(o, .).

  The network may be dueling: Wang et al. 2016, "Dueling network architectures",
  equation 9. If the head has several outputs, each has a dueling decomposition,
  as in Hessel et al. 2018, "Rainbow", section "The integrated agent".

  With `network.bcq_threshold`, it also learns which actions the data has, and
  chooses among them: see
  `find_likely`.
  """

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    spec: specs.EnvironmentSpec,
    normalized: bool = False,
  ):
    """Declares the network."""
    settings = layers_lib.TorsoSettings.from_config(config, normalized)
    *sizes, head_size = settings.sizes
    self._torso = torsos.Torso(spec, settings._replace(sizes=tuple(sizes)))
    self.inputs = self._torso.inputs
    self.prefers_numpy = self._torso.prefers_numpy
    self._head = heads.make_head(config)
    self.needs_random = config.noisy or self._head.sampled
    self._num_actions = spec.actions.num_values
    self._streams = Streams(
      head_size,
      self._num_actions,
      config.dueling,
      settings.scheme,
      layer_norm=config.layer_norm == "all",
      noisy_std=config.noisy_std if config.noisy else None,
      start=_make_start(config, self._head),
    )
    self._initializer = settings.scheme.hidden
    self._scheme, self._head_size = settings.scheme, head_size
    self._threshold = config.bcq_threshold
    self._frequencies = np.pi * np.arange(config.cosines, dtype=np.float32)

  def __call__(
    self,
    layers: layers_lib.Layers,
    observation: Array,
    random: typing.Any = None,
    quantiles: int = heads.GREEDY_QUANTILES,
  ) -> Output:
    """Returns values and outputs for all A actions.

    Args:
      observation: observations [B, ...].
      random: argument of `ops.Noise`, for noisy layers and sampled quantiles.
        If None, layers use mean weights, and taus are evenly spaced.
      quantiles: K, the number of quantiles of head `implicit_quantile`; unused
        for other heads.
    """
    ops = layers.ops
    noise = None if random is None else ops.Noise(random)
    x, penalty = self._torso(layers, observation)
    behaviour = self._make_behaviour(layers, x, penalty)
    taus, width = self._head.taus, self._head.outputs
    if self._head.sampled:
      shape = (ops.shape(x)[0], quantiles)
      if noise is None:
        taus = ops.broadcast_to(heads.make_midpoints(quantiles), shape)
      else:
        taus = noise.uniform(shape)
      x = embed_taus(
        layers, x, taus, self._frequencies, self._initializer
      )  # [B * K, F]

    def by_action(x: Array, actions: int) -> Array:
      """Reshapes a stream's outputs to [B, actions, K]."""
      if not self._head.sampled:
        return ops.reshape(x, (-1, actions, width))
      return ops.swapaxes(ops.reshape(x, (-1, quantiles, actions)), 1, 2)

    advantage, value = self._streams(layers, x, width, noise)
    outputs = by_action(advantage, self._num_actions)
    if value is not None:
      outputs = combine_streams(ops, by_action(value, 1), outputs)
    values = self._head.values(ops, outputs)
    if penalty is not None:
      values = values + penalty
    choice = values
    if behaviour is not None:
      is_likely = find_likely(ops, behaviour, self._threshold)
      choice = ops.where(is_likely, values, np.float32(action_masks.ILLEGAL))
    return Output(values, outputs, taus, behaviour, choice)

  def greedy(self, ops: typing.Any, outputs: Output) -> dict[str, Array]:
    """Returns the actions with the highest values, {'action': int32 [B]}."""
    return {"action": ops.argmax(outputs.choice)}

  def _make_behaviour(
    self, layers: layers_lib.Layers, x: Array, penalty: Array | None
  ) -> Array | None:
    """Returns the logits [B, A] of stored actions for features x [B, F]."""
    if not self._threshold:
      return None
    scheme = self._scheme
    x = layers.linear("behaviour/hidden", x, self._head_size, scheme.hidden)
    logits = layers.linear(
      "behaviour/output", layers.ops.relu(x), self._num_actions, scheme.values
    )
    return logits if penalty is None else logits + penalty


class Streams:
  """The advantage and value streams of a dueling head.

  Each stream has one hidden layer. A head that is not dueling has the advantage
  stream only. Without noise, one matrix product computes both hidden layers.
  """

  def __init__(
    self,
    size: int,
    actions: int,
    dueling: bool,
    scheme: initializers.Scheme,
    layer_norm: bool = False,
    noisy_std: float | None = None,
    start: initializers.LayerInitializer | None = None,
  ):
    """Declares the streams.

    Args:
      size: number of units of each stream's hidden layer.
      dueling: whether there is a stream of the state value.
      layer_norm: whether to normalize the hidden layer, without noise that of
        both streams together, before its activation.
      noisy_std: sigma_0 of noisy layers; None: layers without noise.
      start: initializer of the output layers; None: that of the scheme, or of
        noisy layers.
    """
    self._size, self._actions, self._dueling = size, actions, dueling
    self._scheme, self._layer_norm = scheme, layer_norm
    self._noisy_std = noisy_std
    self._output = start or (
      scheme.values if noisy_std is None else initializers.uniform_by_fan_in
    )

  def __call__(
    self, layers: layers_lib.Layers, x: Array, width: int = 1, noise=None
  ) -> tuple[Array, Array | None]:
    """Returns advantages [N, A K], and state values [N, K] if dueling.

    Args:
      x: features [N, F].
      noise: an `ops.Noise`, or None to use the mean weights of noisy layers.
    """
    std = self._noisy_std

    def hidden(name: str, size: int) -> Array:
      """Returns the units [N, size] of a hidden layer."""
      layer = f"{name}/hidden"
      if std is None:
        units = layers.linear(layer, x, size, self._scheme.hidden)
      else:
        units = layers.noisy_linear(layer, x, size, std, noise)
      if self._layer_norm:
        units = layers.layer_norm(f"{name}/norm", units)
      return layers.ops.relu(units)

    def output(name: str, units: Array, size: int) -> Array:
      """Returns the outputs [N, size] of a stream."""
      layer = f"{name}/output"
      if std is None:
        return layers.linear(layer, units, size, self._output)
      return layers.noisy_linear(layer, units, size, std, noise, self._output)

    wide = self._actions * width
    if self._dueling and std is None:
      units = hidden("streams", 2 * self._size)
      of_advantage, of_value = layers.ops.split(units, 2)
      advantage = output("advantage", of_advantage, wide)
      return advantage, output("value", of_value, width)
    advantage = output("advantage", hidden("advantage", self._size), wide)
    if not self._dueling:
      return advantage, None
    return advantage, output("value", hidden("value", self._size), width)


def _make_start(
  config: ml_collections.ConfigDict, head: heads.Head
) -> initializers.LayerInitializer | None:
  """Returns the initializer of the outputs, or None for the scheme's."""
  # Without a given support, the outermost atoms are so large that values of
  # random logits would be, too.
  if head.atoms is None or heads.has_support(config):
    return None
  return initializers.returns_at_zero(head.atoms)


def combine_streams(ops: typing.Any, value: Array, advantage: Array) -> Array:
  """Returns the dueling head's outputs [B, A, ...]: value + adv - mean_a adv.

  Wang et al. 2016, "Dueling network architectures for deep reinforcement
  learning" (https://arxiv.org/abs/1511.06581), equation 9.

  Args:
    value: [B, 1, ...], outputs of the value stream.
    advantage: [B, A, ...], outputs of the advantage stream.
  """
  return value + (advantage - ops.mean(advantage, 1, keepdims=True))


def find_likely(ops: typing.Any, logits: Array, threshold: float) -> Array:
  """Returns which actions may be chosen, bool [B, A]: discrete BCQ.

    p(a) / max_b p(b) > threshold

  Fujimoto et al. 2019, "Benchmarking batch deep reinforcement learning
  algorithms" (https://arxiv.org/abs/1910.01708), discrete BCQ.

  Args:
    logits: logits of the stored actions, [B, A].
  """
  best = ops.one_hot(ops.argmax(logits), logits.shape[-1])
  highest = ops.sum(best * logits, -1, keepdims=True)
  return logits - highest > math.log(threshold)


def embed_taus(
  layers: layers_lib.Layers,
  features: Array,
  taus: Array,
  frequencies: np.ndarray,
  initializer: initializers.LayerInitializer,
) -> Array:
  """Returns IQN's features per quantile: phi(tau) * features, elementwise.

  phi(tau) = relu(sum_i cos(pi i tau) w_i + b): Dabney et al. 2018, "Implicit
  quantile networks", equation 4.

  Args:
    features: features of observations, [B, F].
    taus: fractions of the quantiles, [B, K].
    frequencies: pi i for i = 0, 1, ..., float32 [number of cosines].

  Returns:
    Features [B * K, F], those of one observation in K successive rows.
  """
  ops = layers.ops
  quantiles, size = taus.shape[1], features.shape[1]
  cosines = ops.cos(ops.reshape(taus, (-1, 1)) * frequencies)
  phi = ops.relu(layers.linear("embedding/cosines", cosines, size, initializer))
  each = features[:, None] * ops.reshape(phi, (-1, quantiles, size))
  return ops.reshape(each, (-1, size))
