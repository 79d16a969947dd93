"""MuZero's network: a model of the environment in latent states.

Schrittwieser et al. 2020, "Mastering Atari, Go, chess and shogi by planning
with a learned model" (https://arxiv.org/abs/1911.08265), appendix F.
"""

import typing

import ml_collections
import numpy as np
from acme import specs

from slipway.agents.losses import rescaling
from slipway.agents.muzero import search
from slipway.agents.networks import distributions, initializers, torsos
from slipway.agents.networks import layers as layers_lib

Array = layers_lib.Array  # np.ndarray or tf.Tensor

# Bounds of the log deviations of continuous actions before their tanh. With the
# lowest, the samples that a search compares still differ.
_LOWEST_LOG_STD, _HIGHEST_LOG_STD = -2.0, 0.5

# Added to the range of a state's numbers, which may all be equal.
_EPSILON = 1e-5


class Prediction(typing.NamedTuple):
  """Outputs for N latent states.

  Attributes:
    logits: logits of the prior policy, float32 [N, A], or the parameters of
      its distribution of continuous actions, [N, 2 D].
    value_logits: logits of the value's atoms, float32 [N, M].
  """

  logits: Array
  value_logits: Array


class MuZeroNetwork:
  """Declaration of representation, dynamics and prediction.

  S is the size of a latent state, whose numbers are scaled to [0, 1]. Values
  and rewards x are distributions over M atoms of h(x), the integers up to
  `network.support` and down to its negative, with h of `rescaling`. A call
  computes what a search needs of observations; as a `PolicyDeclaration`, its
  policy is the prior without a search.

  Continuous actions are D numbers in [-1, 1]. Their policy is a tanh-Gaussian,
  whose parameters take the place of logits.

  Attributes:
    atoms: h of the atoms, float32 [M].
    state_size: S.
    actions: spec of the actions.
    is_continuous: whether actions are continuous.
  """

  needs_random = False

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    spec: specs.EnvironmentSpec,
    normalized: bool = False,
  ):
    """Declares the network of a config's section `network`."""
    settings = layers_lib.TorsoSettings.from_config(config, normalized)
    *sizes, head_size = settings.sizes
    self._torso = torsos.Torso(spec, settings._replace(sizes=tuple(sizes)))
    self.inputs = self._torso.inputs
    self.prefers_numpy = self._torso.prefers_numpy
    self._hidden = settings._replace(sizes=(head_size,), normalized=False)
    self._initializer = settings.scheme.hidden
    self.atoms = np.arange(-config.support, config.support + 1, 1, np.float32)
    # The prior is uniform at first, and values and rewards are 0.
    self._policy_start = initializers.LayerInitializer(initializers.zeros)
    self._value_start = initializers.returns_at_zero(self.atoms)
    # A product gives each action its own weights of all that follows. If states
    # and actions are the inputs of one layer, steps depend little on actions.
    self._action_start = initializers.LayerInitializer(
      lambda random, shape: random.standard_normal(shape, np.float32)
    )
    self.state_size = config.latent_size
    self.actions = spec.actions
    self.is_continuous = not isinstance(spec.actions, specs.DiscreteArray)
    if self.is_continuous:
      self._policy_size = 2 * int(np.prod(spec.actions.shape))
    else:
      self._policy_size = spec.actions.num_values

  def __call__(
    self, layers: layers_lib.Layers, observation: Array
  ) -> search.Root:
    """Returns the outputs for observations [B, ...]."""
    features, penalty = self._torso(layers, observation)
    state = self._make_state(layers, features)
    logits, value_logits = self.predict(layers, state)
    if penalty is not None:
      logits = logits + penalty
    value = self.decode(layers.ops, value_logits)
    return search.Root(logits, value, state)

  def greedy(self, ops: typing.Any, outputs: search.Root) -> dict[str, Array]:
    """Returns the prior's most probable actions, {'action': [B, ...]}."""
    return {"action": self.distribution(ops, outputs.logits).mode()}

  def distribution(self, ops: typing.Any, logits: Array) -> typing.Any:
    """Returns the distributions of actions by a prior's logits [N, ...]."""
    kind = "tanh_gaussian" if self.is_continuous else "categorical"
    return distributions.make_distribution(kind, ops, logits)

  def represent(self, layers: layers_lib.Layers, observation: Array) -> Array:
    """Returns latent states [B, S] of observations [B, ...]."""
    return self._make_state(layers, self._torso(layers, observation)[0])

  def dynamics(
    self, layers: layers_lib.Layers, state: Array, action: Array
  ) -> tuple[Array, Array, Array]:
    """Returns the model's step from states.

    It has the next states, [N, S], and the logits of rewards, [N, M], and of
    the step being terminal, [N]. Actions are factors, as in Oh et al. 2015,
    "Action-conditional video prediction using deep networks in Atari games"
    (https://arxiv.org/abs/1507.08750), section 3.2.

    Args:
      state: latent states, [N, S].
      action: actions in them, [N, ...].
    """
    layers = layers.scoped("dynamics")
    if not self.is_continuous:
      action = layers.ops.one_hot(action, self._policy_size)
    x = layers_lib.mlp(layers, "hidden", state, self._hidden)
    x = x * layers.linear("action", action, x.shape[-1], self._action_start)
    reward = layers.linear("reward", x, len(self.atoms), self._value_start)
    end = layers.linear("end", x, 1, self._initializer)[:, 0]
    return self._make_state(layers, x), reward, end

  def predict(self, layers: layers_lib.Layers, state: Array) -> Prediction:
    """Returns policies and values of latent states [N, S]."""
    layers = layers.scoped("prediction")
    x = layers_lib.mlp(layers, "hidden", state, self._hidden)
    logits = layers.linear("policy", x, self._policy_size, self._policy_start)
    if self.is_continuous:
      mean, log_std = layers.ops.split(logits, 2)
      log_std = layers.ops.clip(log_std, _LOWEST_LOG_STD, _HIGHEST_LOG_STD)
      logits = layers.ops.concat([mean, log_std])
    return Prediction(
      logits, layers.linear("value", x, len(self.atoms), self._value_start)
    )

  def project(
    self, layers: layers_lib.Layers, state: Array, name: str = "projection"
  ) -> Array:
    """Returns projections [N, S] of latent states [N, S] by two linear layers.

    Projections are compared by the consistency loss, those of predicted states
    after a second projection: Ye et al. 2021, "Mastering Atari games with
    limited data" (https://arxiv.org/abs/2111.00210), appendix A.1.

    Args:
      name: name of the two layers.
    """
    layers = layers.scoped(name)
    x = layers_lib.mlp(layers, "hidden", state, self._hidden)
    return layers.linear("output", x, self.state_size, self._initializer)

  def decode(self, ops: typing.Any, logits: Array) -> Array:
    """Returns the values or rewards x [...] of logits [..., M].

      x = h^-1(sum_i p_i h_i)

    Schrittwieser et al. 2020, appendix F.
    """
    mean = ops.sum(ops.softmax(logits) * self.atoms, -1)
    return rescaling.unscale(mean)

  def _make_state(self, layers: layers_lib.Layers, x: Array) -> Array:
    """Returns a linear layer's outputs [N, S], scaled to [0, 1].

    Schrittwieser et al. 2020, appendix G.
    """
    ops = layers.ops
    x = layers.linear("state", x, self.state_size, self._initializer)
    lowest = -ops.max(-x, -1, keepdims=True)
    highest = ops.max(x, -1, keepdims=True)
    return (x - lowest) / (highest - lowest + _EPSILON)


class Step:
  """Declaration of a step of the model, which a search repeats."""

  # Latent states are vectors, whatever the observations are.
  prefers_numpy, needs_random = True, False

  def __init__(self, network: MuZeroNetwork, discount: float):
    """Declares the step of a network, by whose variables it is computed."""
    self._network, self._discount = network, np.float32(discount)
    self.inputs = (
      specs.Array((network.state_size,), np.float32),
      specs.Array(network.actions.shape, network.actions.dtype),
    )

  def __call__(
    self, layers: layers_lib.Layers, state: Array, action: Array
  ) -> search.Step:
    """Returns the outputs for latent states [B, S] and actions [B, ...]."""
    state, reward, end = self._network.dynamics(layers, state, action)
    logits, value = self._network.predict(layers, state)
    discount = self._discount * layers.ops.sigmoid(-end)
    # Both at once, since calls of NumPy cost more than their arithmetic.
    both = self._network.decode(layers.ops, layers.ops.stack([reward, value]))
    return search.Step(both[0], discount, logits, both[1], state)
