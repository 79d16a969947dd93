"""Q-networks of the DQN family: a torso, and a head of action values."""

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
  """

  values: Array
  outputs: Array
  taus: Array | None


class QNetwork:
  """Declaration of a feed-forward network of action values q(o, .).

  The network may be dueling: Wang et al. 2016, "Dueling network architectures",
  equation 9. If the head has several outputs, each has a dueling decomposition,
  as in Hessel et al. 2018, "Rainbow", section "The integrated agent".
  """

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    spec: specs.EnvironmentSpec,
    normalized: bool = False,
  ):
    """Declares the network.

    Args:
      config: the `network` section of a config.
      spec: spec of an environment with A discrete actions.
      normalized: whether the first layer normalizes observations. True for
        acting networks only, as learners normalize batches.
    """
    self.inputs = (spec.observations,)
    self._mask_splitter = action_masks.MaskSplitter(spec)
    self.prefers_numpy = torsos.is_small(config.torso)
    self._head = heads.make_head(config)
    self.needs_random = config.noisy or self._head.sampled
    self._num_actions = spec.actions.num_values
    self._torso, self._dueling = config.torso, config.dueling
    *torso_sizes, self._head_size = config.hidden_sizes
    self._torso_sizes = tuple(torso_sizes)
    self._normalized, self._layer_norm = normalized, config.layer_norm
    self._scheme = initializers.SCHEMES[config.initializer]
    self._noisy, self._noisy_std = config.noisy, config.noisy_std
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
      layers: layers with the network's variables.
      observation: observations [B, ...].
      random: argument of `ops.Noise`, for noisy layers and sampled quantiles.
        If None, layers use mean weights, and taus are evenly spaced.
      quantiles: K, the number of quantiles of head `implicit_quantile`; unused
        for other heads.
    """
    ops = layers.ops
    noise = None if random is None else ops.Noise(random)
    observation, penalty = self._mask_splitter.split(ops, observation)
    x = torsos.apply_torso(
      layers,
      self._torso,
      self._torso_sizes,
      observation,
      initializer=self._scheme.hidden,
      normalized=self._normalized,
      layer_norm=self._layer_norm,
    )
    taus, width = self._head.taus, self._head.outputs
    if self._head.sampled:
      shape = (ops.shape(x)[0], quantiles)
      if noise is None:
        taus = ops.broadcast_to(heads.make_midpoints(quantiles), shape)
      else:
        taus = noise.uniform(shape)
      x = embed_taus(
        layers, x, taus, self._frequencies, self._scheme.hidden
      )  # [B * K, F]

    def by_action(x: Array, actions: int) -> Array:
      """Reshapes a stream's outputs to [B, actions, K]."""
      if not self._head.sampled:
        return ops.reshape(x, (-1, actions, width))
      return ops.swapaxes(ops.reshape(x, (-1, quantiles, actions)), 1, 2)

    advantage, value = self._apply_streams(
      layers, x, self._num_actions, width, noise
    )
    outputs = by_action(advantage, self._num_actions)
    if value is not None:
      outputs = combine_streams(ops, by_action(value, 1), outputs)
    values = self._head.values(ops, outputs)
    if penalty is not None:
      values = values + penalty
    return Output(values, outputs, taus)

  def greedy(self, ops: typing.Any, outputs: Output) -> dict[str, Array]:
    """Returns the actions with the highest values, {'action': int32 [B]}."""
    return {"action": ops.argmax(outputs.values)}

  def _apply_streams(
    self,
    layers: layers_lib.Layers,
    x: Array,
    actions: int,
    width: int,
    noise: typing.Any,
  ) -> tuple[Array, Array | None]:
    """Returns the result of `compute_streams`, by noisy layers if configured.

    Args:
      layers: layers with the network's variables.
      x: features [N, F]; N is B, or B K if the head samples quantiles.
      actions: A, the number of actions.
      width: outputs per action and row of x.
      noise: `ops.Noise` of this call, or None to use the mean weights.
    """
    is_normalized = self._layer_norm == "all"
    if not self._noisy:
      return compute_streams(
        layers,
        x,
        self._head_size,
        actions,
        width,
        self._dueling,
        self._scheme,
        is_normalized,
      )

    def stream(name: str, size: int) -> Array:
      """Returns the outputs [N, size] of two noisy layers with a ReLU."""
      hidden = layers.noisy_linear(
        f"{name}/hidden", x, self._head_size, self._noisy_std, noise
      )
      return layers.noisy_linear(
        f"{name}/output",
        _activate(layers, name, hidden, is_normalized),
        size,
        self._noisy_std,
        noise,
      )

    advantage = stream("advantage", actions * width)
    return advantage, stream("value", width) if self._dueling else None


def compute_streams(
  layers: layers_lib.Layers,
  x: Array,
  size: int,
  actions: int,
  width: int,
  dueling: bool,
  scheme: initializers.Scheme,
  layer_norm: bool = False,
) -> tuple[Array, Array | None]:
  """Returns the advantage and value streams of a dueling head.

  Each stream has one hidden layer; one matrix product computes both hidden
  layers. A head that is not dueling has the advantage stream only.

  Args:
    layers: layers with the network's variables.
    x: features [B, F].
    size: number of units of each stream's hidden layer.
    actions: A, the number of actions.
    width: K, the number of outputs per action.
    dueling: whether to compute the stream of the state value.
    scheme: initializers of the layers.
    layer_norm: whether to normalize the hidden layer, of both streams together,
      before its activation.

  Returns:
    Advantages [B, A K], and state values [B, K], or None if not dueling.
  """

  def hidden(name: str, size: int) -> Array:
    """Returns the units [B, size] of a hidden layer."""
    units = layers.linear(f"{name}/hidden", x, size, scheme.hidden)
    return _activate(layers, name, units, layer_norm)

  wide = actions * width
  if not dueling:
    units = hidden("advantage", size)
    return layers.linear("advantage/output", units, wide, scheme.values), None
  of_advantage, of_value = layers.ops.split(hidden("streams", 2 * size), 2)
  return (
    layers.linear("advantage/output", of_advantage, wide, scheme.values),
    layers.linear("value/output", of_value, width, scheme.values),
  )


def _activate(
  layers: layers_lib.Layers, name: str, units: Array, layer_norm: bool
) -> Array:
  """Returns the ReLU of a stream's hidden units [B, F].

  Args:
    layers: layers with the network's variables.
    name: the stream's name, which prefixes those of the variables.
    units: outputs of the hidden layer, [B, F].
    layer_norm: whether to normalize the units before.
  """
  if layer_norm:
    units = layers.layer_norm(f"{name}/norm", units)
  return layers.ops.relu(units)


def combine_streams(ops: typing.Any, value: Array, advantage: Array) -> Array:
  """Returns the dueling head's outputs: value + adv - mean_a adv.

  Wang et al. 2016, "Dueling network architectures for deep reinforcement
  learning" (https://arxiv.org/abs/1511.06581), equation 9.

  Args:
    ops: array operations: `numpy_ops` or `tf_ops`.
    value: [B, 1, ...], outputs of the value stream.
    advantage: [B, A, ...], outputs of the advantage stream.

  Returns:
    [B, A, ...].
  """
  return value + (advantage - ops.mean(advantage, 1, keepdims=True))


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
    layers: layers with the network's variables.
    features: features of observations, [B, F].
    taus: fractions of the quantiles, [B, K].
    frequencies: pi i for i = 0, 1, ..., float32 [number of cosines].
    initializer: initializer of the layer of the cosines.

  Returns:
    Features [B * K, F], those of one observation in K successive rows.
  """
  ops = layers.ops
  quantiles, size = taus.shape[1], features.shape[1]
  cosines = ops.cos(ops.reshape(taus, (-1, 1)) * frequencies)
  phi = ops.relu(layers.linear("embedding/cosines", cosines, size, initializer))
  each = features[:, None] * ops.reshape(phi, (-1, quantiles, size))
  return ops.reshape(each, (-1, size))
