"""Q-networks: a torso for the kind of observations, and a head of values."""

import typing

import ml_collections
import numpy as np
from acme import specs

from slipway.agents.networks import action_masks, heads, torsos
from slipway.agents.networks import layers as layers_lib

Array = layers_lib.Array


class Output(typing.NamedTuple):
  """Result of a Q-network: K outputs per action, and the mean returns.

  The outputs of head `expected` are the values; of `categorical`, logits of the
  atoms; of `quantile` and `implicit_quantile`, quantiles. Values of illegal
  actions are below all others (`action_masks`).
  """

  values: Array  # [B, A] float32, q(o, .)
  outputs: Array  # [B, A, K] float32
  taus: Array | None  # fractions of the quantiles, [K] or [B, K]


class QNetwork:
  """Network of action values q(o, .); dueling: Wang et al. 2016, equation 9.

  If the head has several outputs, each has a dueling decomposition, as in
  Hessel et al. 2018, "Rainbow", section "The integrated agent".
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
      normalized: whether the network normalizes observations; learners
        normalize batches instead.
    """
    self.inputs, self._mask = (
      (spec.observations,),
      action_masks.MaskSplitter(spec),
    )
    self.prefers_numpy = torsos.is_small(config.torso)
    self._head = heads.make_head(config)
    self.needs_random = config.noisy or self._head.sampled
    self._num_actions = spec.actions.num_values
    self._torso, self._dueling = config.torso, config.dueling
    *torso_sizes, self._head_size = config.hidden_sizes
    self._torso_sizes = tuple(torso_sizes)
    self._normalized = normalized
    self._noisy, self._noisy_std = config.noisy, config.noisy_std
    self._frequencies = np.pi * np.arange(config.cosines, dtype=np.float32)

  def __call__(
    self,
    layers: layers_lib.Layers,
    observation: Array,
    random: typing.Any = None,
    quantiles: int = heads.GREEDY_QUANTILES,
  ) -> Output:
    """Returns the outputs for all actions.

    Args:
      layers: layers with the network's variables.
      observation: observations [B, ...].
      random: argument of `ops.Noise`, for noisy layers and sampled quantiles.
        If None, layers use mean weights, and taus are evenly spaced.
      quantiles: K, the number of quantiles if the head samples them.
    """
    ops = layers.ops
    noise = None if random is None else ops.Noise(random)
    observation, penalty = self._mask.split(ops, observation)
    x = torsos.apply_torso(
      layers,
      self._torso,
      self._torso_sizes,
      observation,
      normalized=self._normalized,
    )
    taus, width = self._head.taus, self._head.outputs
    if self._head.sampled:
      shape = (ops.shape(x)[0], quantiles)
      if noise is None:
        taus = ops.broadcast_to(heads.make_midpoints(quantiles), shape)
      else:
        taus = noise.uniform(shape)
      x = embed_taus(layers, x, taus, self._frequencies)  # [B * K, F]

    def by_action(x: Array, actions: int) -> Array:  # [B, actions, K]
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
    """Returns {'action': int32 [B]}, the actions with the highest values."""
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
    if not self._noisy:
      return compute_streams(
        layers, x, self._head_size, actions, width, self._dueling
      )

    def stream(name: str, size: int) -> Array:
      hidden = layers.noisy_linear(
        f"{name}/hidden", x, self._head_size, self._noisy_std, noise
      )
      return layers.noisy_linear(
        f"{name}/output", layers.ops.relu(hidden), size, self._noisy_std, noise
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
) -> tuple[Array, Array | None]:
  """Returns the two streams of a dueling head, each with one hidden layer.

  One matrix product computes the hidden layers of both.

  Args:
    layers: layers of the network.
    x: features [B, F].
    size: number of units of each hidden layer.
    actions: A, the number of actions.
    width: K, the number of outputs per action.
    dueling: whether there is a stream for the state's value.

  Returns:
    Advantages [B, A K], and the state's values [B, K] or None.
  """
  relu, wide = layers.ops.relu, actions * width
  if not dueling:
    hidden = relu(layers.linear("advantage/hidden", x, size))
    return layers.linear("advantage/output", hidden, wide), None
  hidden = relu(layers.linear("streams/hidden", x, 2 * size))
  of_advantage, of_value = layers.ops.split(hidden, 2)
  return (
    layers.linear("advantage/output", of_advantage, wide),
    layers.linear("value/output", of_value, width),
  )


def combine_streams(ops: typing.Any, value: Array, advantage: Array) -> Array:
  """Returns v + adv - mean_a adv, with actions on axis 1: Wang, equation 9."""
  return value + (advantage - ops.mean(advantage, 1, keepdims=True))


def embed_taus(
  layers: layers_lib.Layers,
  features: Array,
  taus: Array,
  frequencies: np.ndarray,
) -> Array:
  """Returns features per quantile: phi(tau) * features, elementwise.

  phi(tau) = relu(sum_i cos(pi i tau) w_i + b): Dabney et al. 2018, "Implicit
  quantile networks", equation 4.

  Args:
    layers: layers of the network.
    features: features of observations, [B, F].
    taus: fractions of the quantiles, [B, K].
    frequencies: pi i, float32 [number of cosines].

  Returns:
    [B * K, F].
  """
  ops = layers.ops
  quantiles, size = taus.shape[1], features.shape[1]
  cosines = ops.cos(ops.reshape(taus, (-1, 1)) * frequencies)
  phi = ops.relu(layers.linear("embedding/cosines", cosines, size))
  each = features[:, None] * ops.reshape(phi, (-1, quantiles, size))
  return ops.reshape(each, (-1, size))
