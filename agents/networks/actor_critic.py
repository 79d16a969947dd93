"""Networks of policies, state values, and values of continuous actions."""

import typing
from collections.abc import Callable

import numpy as np
from acme import specs

from slipway.agents.networks import (
  action_masks,
  distributions,
  initializers,
  recurrent,
  torsos,
)
from slipway.agents.networks import layers as layers_lib
from slipway.environments import arrays

Array = layers_lib.Array  # np.ndarray or tf.Tensor

# Bounds of the log standard deviations that a policy network computes, from the
# code of Haarnoja et al. 2018 (https://github.com/rail-berkeley/softlearning).
LOWEST_LOG_STD, HIGHEST_LOG_STD = -20.0, 2.0


class PolicyHead:
  """Output layer of a policy network, with its action distributions."""

  def __init__(
    self,
    spec: specs.EnvironmentSpec,
    kind: str,
    scheme: initializers.Scheme = initializers.TRUNCATED_NORMAL,
  ):
    """Declares the output layer.

    Args:
      spec: spec of one environment. Actions are one of A discrete values, A
        continuous numbers, or K discrete components of at most N values.
      kind: one of `distributions.KINDS`.
      scheme: initializers of the layers.

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
      layers: layers with the network's variables.
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
      [mean, ops.clip(log_std, LOWEST_LOG_STD, HIGHEST_LOG_STD)]
    )

  def distribution(
    self, ops: typing.Any, parameters: Array
  ) -> distributions.Distribution:
    """Returns the B action distributions with the given parameters.

    Args:
      ops: array operations: `numpy_ops`, `tf_ops` or an ONNX graph.
      parameters: distribution parameters [B, P], as the network returns them.
    """
    return distributions.make_distribution(
      self._kind, ops, parameters, self._components
    )


class PolicyNetwork:
  """Declaration of a policy network: a torso, then a `PolicyHead`.

  See `network.PolicyDeclaration`.

  Attributes:
    head: the output layer.
  """

  needs_random = False

  def __init__(
    self,
    spec: specs.EnvironmentSpec,
    torso: str,
    sizes: tuple[int, ...],
    kind: str,
    activation: str = "relu",
    scheme: initializers.Scheme = initializers.TRUNCATED_NORMAL,
    normalized: bool = False,
    layer_norm: str = "none",
  ):
    """Declares the network.

    Args:
      spec: spec of one environment.
      torso: see `torsos.apply_torso`.
      sizes: number of units of each linear layer before the output.
      kind: one of `distributions.KINDS`.
      activation: 'relu' or 'tanh'.
      scheme: initializers of the layers.
      normalized: whether the first layer normalizes observations. True for
        acting networks only, as learners normalize batches.
      layer_norm: layer normalization, as for `layers.mlp`.

    Raises:
      ValueError: no distribution has this name.
    """
    self.inputs, self.prefers_numpy = (
      (spec.observations,),
      torsos.is_small(torso),
    )
    self.head = PolicyHead(spec, kind, scheme)
    self._mask_splitter = action_masks.MaskSplitter(spec)
    self._torso, self._sizes = torso, tuple(sizes)
    self._activation = activation
    self._initializer = scheme.hidden
    self._normalized, self._layer_norm = normalized, layer_norm

  def __call__(self, layers: layers_lib.Layers, observation: Array) -> Array:
    """Returns distribution parameters [B, P] for observations [B, ...]."""
    return self.head(layers, *self.features(layers, observation))

  def features(
    self, layers: layers_lib.Layers, observation: Array
  ) -> tuple[Array, Array | None]:
    """Returns the inputs of the head for observations [B, ...].

    Returns:
      Features [B, F], and penalties of illegal actions [B, P] or [P], or None;
      see `action_masks.MaskSplitter.split`.
    """
    observation, penalty = self._mask_splitter.split(layers.ops, observation)
    x = torsos.apply_torso(
      layers,
      self._torso,
      self._sizes,
      observation,
      self._activation,
      self._initializer,
      self._normalized,
      self._layer_norm,
    )
    return x, penalty

  def greedy(self, ops: typing.Any, outputs: Array) -> dict[str, Array]:
    """Returns the most probable actions, {'action': [B, ...]}.

    Args:
      ops: array operations: `numpy_ops`, `tf_ops` or an ONNX graph.
      outputs: distribution parameters [B, P].
    """
    return {"action": self.head.distribution(ops, outputs).mode()}


class ActorCriticNetwork:
  """Declaration of a network of policy and state values with a shared torso.

  Learners use this network. Actors use the `PolicyNetwork` inside it, with the
  same variables.
  """

  needs_random = False

  def __init__(
    self,
    policy: PolicyNetwork,
    scheme: initializers.Scheme = initializers.TRUNCATED_NORMAL,
  ):
    """Declares the network.

    Args:
      policy: declaration of the torso and the policy head.
      scheme: initializers of the layers.
    """
    self.inputs, self.prefers_numpy = policy.inputs, policy.prefers_numpy
    self._policy = policy
    self._initializer = scheme.values

  def __call__(
    self, layers: layers_lib.Layers, observation: Array
  ) -> tuple[Array, Array]:
    """Returns distribution parameters [B, P] and state values [B]."""
    # The penalty makes illegal actions improbable; see `action_masks`.
    x, penalty = self._policy.features(layers, observation)
    parameters = self._policy.head(layers, x, penalty)
    values = layers.linear("value", x, 1, self._initializer)[:, 0]
    return parameters, values


class RecurrentPolicyNetwork:
  """Declaration of a policy network with an LSTM, and optionally state values.

  State values share the policy's LSTM, or have a torso and an LSTM of their
  own. S is the size of the state: 2 H with one LSTM of size H, or 4 H with two,
  the policy's first. P is the number of parameters of a distribution.

  Attributes:
    head: output layer of the policy.
  """

  needs_random = False

  def __init__(
    self,
    torso: recurrent.RecurrentTorso,
    head: PolicyHead,
    scheme: initializers.Scheme = initializers.TRUNCATED_NORMAL,
    value_torso: recurrent.RecurrentTorso | None = None,
    with_values: bool = False,
  ):
    """Declares the network.

    Args:
      torso: declaration of the policy's torso.
      head: declaration of the policy's output layer.
      scheme: initializers of the layers.
      value_torso: declaration of the torso of the state values, of the same
        size and with a scope; None if there are no state values, or if they
        share the policy's torso. Workers need it, since rollouts store the
        state of both LSTMs.
      with_values: whether to add a layer of state values, which learners need.
    """
    self.inputs, self.prefers_numpy, self.head = (
      torso.inputs,
      torso.prefers_numpy,
      head,
    )
    if value_torso is not None:
      *step_inputs, state = torso.inputs
      both = specs.Array((2 * state.shape[0],), state.dtype)
      self.inputs = (*step_inputs, both)
    self._torso, self._value_torso = torso, value_torso
    self._initializer = scheme.values
    self._with_values = with_values

  def __call__(
    self, layers: layers_lib.Layers, *inputs: Array
  ) -> tuple[Array, Array]:
    """Returns policy parameters [B, P], and the next LSTM state [B, S].

    Args:
      layers: layers with the network's variables.
      *inputs: fields of `recurrent.Inputs` [B, ...], then the LSTM state before
        the step [B, S].
    """
    *fields, state = inputs
    parameters, _, next_state = self._apply(
      recurrent.RecurrentTorso.step, layers, recurrent.Inputs(*fields), state
    )
    return parameters, next_state

  def unroll(
    self, layers: layers_lib.Layers, inputs: recurrent.Inputs, state: Array
  ) -> tuple[Array, Array]:
    """Returns policy parameters [B * T, P] and values [B * T] of T steps.

    Values are None if the network has no value layer.

    Args:
      layers: layers with the network's variables.
      inputs: inputs of the steps, [B, T, ...] each; T must be static.
      state: LSTM state before the first step, [B, S].
    """
    parameters, values, _ = self._apply(
      recurrent.RecurrentTorso.unroll, layers, inputs, state
    )
    return parameters, values

  def greedy(
    self, ops: typing.Any, outputs: tuple[Array, Array]
  ) -> dict[str, Array]:
    """Returns the greedy actions and the LSTM states after the step.

    Args:
      ops: array operations: `numpy_ops`, `tf_ops` or an ONNX graph.
      outputs: policy parameters [B, P], and LSTM states [B, S] after the step.

    Returns:
      {'action': [B, ...], 'next_state': [B, S]}; actions are the modes of the
      distributions.
    """
    parameters, state = outputs
    action = self.head.distribution(ops, parameters).mode()
    return {"action": action, "next_state": state}

  def _apply(
    self,
    apply: Callable[..., recurrent.Features],
    layers: layers_lib.Layers,
    inputs: recurrent.Inputs,
    state: Array,
  ) -> tuple[Array, Array | None, Array]:
    """Returns policy parameters [N, P], values [N] or None, and state [B, S].

    Args:
      apply: a method of the torsos, `RecurrentTorso.step` or `.unroll`.
      layers: layers with the network's variables.
      inputs: inputs of the N steps.
      state: LSTM state before them, [B, S].
    """
    if self._value_torso is None:
      features = of_values = apply(self._torso, layers, inputs, state)
      next_state = features.state
    else:
      state, value_state = layers.ops.split(state, 2)
      features = apply(self._torso, layers, inputs, state)
      of_values = apply(self._value_torso, layers, inputs, value_state)
      next_state = layers.ops.concat([features.state, of_values.state])
    parameters = self.head(layers, features.hidden, features.penalty)
    values = None
    if self._with_values:
      x = of_values.hidden
      values = layers.linear("value", x, 1, self._initializer)[:, 0]
    return parameters, values, next_state


class ValueNetwork:
  """Declaration of a network of state values v(o): torso, linear layer."""

  needs_random = False

  def __init__(
    self,
    spec: specs.EnvironmentSpec,
    torso: str,
    sizes: tuple[int, ...],
    activation: str = "relu",
    scheme: initializers.Scheme = initializers.TRUNCATED_NORMAL,
  ):
    """Declares the network.

    Args:
      spec: spec of one environment.
      torso: see `torsos.apply_torso`.
      sizes: number of units of each linear layer before the output.
      activation: 'relu' or 'tanh'.
      scheme: initializers of the layers.
    """
    self.inputs, self.prefers_numpy = (
      (spec.observations,),
      torsos.is_small(torso),
    )
    self._mask_splitter = action_masks.MaskSplitter(spec)
    self._torso, self._sizes = torso, tuple(sizes)
    self._activation = activation
    self._scheme = scheme

  def __call__(self, layers: layers_lib.Layers, observation: Array) -> Array:
    """Returns state values [B] of observations [B, ...]."""
    observation, _ = self._mask_splitter.split(layers.ops, observation)
    x = torsos.apply_torso(
      layers,
      self._torso,
      self._sizes,
      observation,
      self._activation,
      self._scheme.hidden,
    )
    return layers.linear("output", x, 1, self._scheme.values)[:, 0]


class EncoderNetwork:
  """Declaration of a torso without linear layers, which networks can share.

  Attributes:
    spec: spec of the environment with features [F] in place of observations,
      from which networks on these features are declared. Action masks stay.
  """

  needs_random, prefers_numpy = False, True

  def __init__(
    self, spec: specs.EnvironmentSpec, torso: str, scheme: initializers.Scheme
  ):
    """Declares the network.

    Args:
      spec: spec of one environment.
      torso: see `torsos.encode`.
      scheme: initializers of the layers.
    """
    self.inputs = (spec.observations,)
    self._torso = torso
    self._initializer = scheme.hidden
    self._mask_splitter = action_masks.MaskSplitter(spec)
    observations = spec.observations
    size = torsos.count_features(torso, arrays.remove_mask(observations))
    features = specs.Array((size,), np.float32, "features")
    self._mask_size = 0
    if isinstance(observations, arrays.MaskedArray):
      self._mask_size = observations.mask_size
      features = arrays.MaskedArray(features, self._mask_size)
    self.spec = spec._replace(observations=features)

  def __call__(self, layers: layers_lib.Layers, observation: Array) -> Array:
    """Returns features [B, F] of observations [B, ...].

    Those of masked observations are followed by the masks.
    """
    ops = layers.ops
    unmasked, _ = self._mask_splitter.split(ops, observation)
    features = torsos.encode(layers, self._torso, unmasked, self._initializer)
    if not self._mask_size:
      return features
    mask = ops.float32(observation[:, -self._mask_size :])
    return ops.concat([features, mask])


class CriticNetwork:
  """Declaration of C MLPs that value continuous actions: q_i(o, a)."""

  needs_random, prefers_numpy = False, True

  def __init__(
    self,
    spec: specs.EnvironmentSpec,
    sizes: tuple[int, ...],
    critics: int = 1,
    outputs: int = 1,
    activation: str = "relu",
    scheme: initializers.Scheme = initializers.TRUNCATED_NORMAL,
    layer_norm: str = "none",
  ):
    """Declares the network.

    Args:
      spec: spec of an environment with continuous actions.
      sizes: number of units of each linear layer before the output.
      critics: C, the number of critics.
      outputs: K, the number of outputs per critic.
      activation: 'relu' or 'tanh'.
      scheme: initializers of the layers.
      layer_norm: see `layers.mlp`.
    """
    self.inputs = (spec.observations, spec.actions)
    self._sizes, self._activation = tuple(sizes), activation
    self._critics, self._outputs, self._scheme = critics, outputs, scheme
    self._layer_norm = layer_norm

  def __call__(self, layers: layers_lib.Layers, *inputs: Array) -> Array:
    """Returns outputs [B, C, K] for inputs [B, ...]: observations, actions."""
    ops = layers.ops
    joined = ops.concat([ops.float32(ops.flatten(x)) for x in inputs])
    outputs = []
    for i in range(self._critics):
      x = layers_lib.mlp(
        layers,
        f"critic_{i}/torso",
        joined,
        self._sizes,
        self._activation,
        self._scheme.hidden,
        self._layer_norm,
      )
      outputs.append(
        layers.linear(
          f"critic_{i}/output", x, self._outputs, self._scheme.values
        )
      )
    return ops.stack(outputs, 1)


class DiscreteCriticNetwork(CriticNetwork):
  """Declaration of C MLPs that value all A discrete actions: q_i(o, .)."""

  def __init__(
    self,
    spec: specs.EnvironmentSpec,
    sizes: tuple[int, ...],
    critics: int = 1,
    activation: str = "relu",
    scheme: initializers.Scheme = initializers.TRUNCATED_NORMAL,
    layer_norm: str = "none",
  ):
    """Declares the network; arguments as for `CriticNetwork`.

    Args:
      spec: spec of an environment with A discrete actions.
      sizes: number of units of each linear layer before the output.
      critics: C, the number of critics.
      activation: 'relu' or 'tanh'.
      scheme: initializers of the layers.
      layer_norm: see `layers.mlp`.
    """
    actions = typing.cast(specs.DiscreteArray, spec.actions).num_values
    super().__init__(
      spec, sizes, critics, actions, activation, scheme, layer_norm
    )
    self.inputs = (spec.observations,)
    self._mask_splitter = action_masks.MaskSplitter(spec)

  def __call__(self, layers: layers_lib.Layers, observation: Array) -> Array:
    """Returns values [B, C, A] for observations [B, ...].

    Those of illegal actions have no meaning.
    """
    unmasked, _ = self._mask_splitter.split(layers.ops, observation)
    return super().__call__(layers, unmasked)
