"""Layers, declared once for learning in TensorFlow and acting in NumPy.

A layer gets its variables by name, and computes with the module `numpy_ops`
or `tf_ops`. Only the functions of these modules exist twice.
"""

import functools
import math
import types
import typing
from collections.abc import Callable

import ml_collections
import numpy as np

from slipway.agents.networks import initializers, numpy_ops

Array = typing.Any  # np.ndarray with `numpy_ops`, tf.Tensor with `tf_ops`

# Function of a name, a shape and an initializer that returns a variable, and
# creates it at its first use.
Variable = Callable[[str, tuple[int, ...], initializers.Initializer], Array]

# Function of a name, a function that makes a user's tf.Module, and inputs
# [B, ...] that returns the module's outputs, and makes it at its first use.
Module = Callable[[str, Callable[[], typing.Any], Array], Array]


class VariableShapes:
  """Shapes of a network's variables by name, without unintended sharing.

  A variable belongs either to Slipway's layers or to a user's torso.
  """

  def __init__(self):
    self._known: dict[str, tuple[tuple[int, ...], bool]] = {}

  @property
  def shapes(self) -> dict[str, tuple[int, ...]]:
    """Shape of each variable, by name."""
    return {name: shape for name, (shape, _) in self._known.items()}

  def add(self, name: str, shape: tuple[int, ...], is_users: bool) -> None:
    """Records a use of a variable.

    Args:
      is_users: whether a layer of a user's torso uses the variable.

    Raises:
      ValueError: another use of the name has another shape, or only one of them
        is the user's.
    """
    known_shape, known_users = self._known.setdefault(name, (shape, is_users))
    if known_users != is_users:
      raise ValueError(
        f"a layer of your torso has the variable {name!r}, which another layer "
        "of the network has, too, so both would share weights: give the "
        "torso's layer another name"
      )
    if known_shape != shape:
      raise ValueError(
        f"two layers have the variable {name!r}, with shapes "
        f"{list(known_shape)} and {list(shape)}, so there are no weights for "
        "both: give one of them another name"
      )


class Layers:
  """Methods that compute layers with one network's variables.

  Attributes:
    ops: array operations: `numpy_ops` or `tf_ops`.
    variable: function of a name, a shape and an initializer that returns the
      variable, and creates it at its first use.
    module: function of a name, a function without arguments that makes a user's
      tf.Module, and inputs [B, ...] that returns the module's outputs.
  """

  def __init__(
    self,
    ops: typing.Any,
    variable: Variable,
    user_variable: Variable | None = None,
    module: Module | None = None,
  ):
    """Keeps the arguments; see the attributes of the class.

    Args:
      user_variable: the function for layers of a user's torso, which may reject
        names; None if it is `variable`.
      module: the function for a user's modules, which are not in NumPy; None if
        there are none.
    """
    self.ops, self.variable = ops, variable
    self.module: typing.Any = module
    self._user_variable = user_variable or variable

  def for_user_code(self) -> "Layers":
    """Returns layers for a user's torso, with the same variables."""
    return Layers(self.ops, self._user_variable, module=self.module)

  def in_bfloat16(self) -> "Layers":
    """Returns layers with the same variables, and products in bfloat16.

    Convolutions then return bfloat16. Only TensorFlow computes in bfloat16;
    other `ops` stay as they are.
    """
    ops = getattr(self.ops, "bfloat16", self.ops)
    return Layers(ops, self.variable, self._user_variable, self.module)

  def scoped(self, scope: str) -> "Layers":
    """Returns layers whose variables' names start with 'SCOPE/'.

    If the scope is '', the result is the object itself.
    """
    if not scope:
      return self

    def add_scope(function: typing.Any) -> typing.Any:
      return lambda name, *arguments: function(f"{scope}/{name}", *arguments)

    given = (self.variable, self._user_variable, self.module)
    return Layers(self.ops, *map(add_scope, given))

  def linear(
    self,
    name: str,
    x: Array,
    size: int,
    initializer: initializers.LayerInitializer = initializers.truncated_normal,
  ) -> Array:
    """Returns the outputs [B, size] of a linear layer: x w + b.

    Args:
      name: prefix of the names of the variables w and b: 'NAME/w', 'NAME/b'.
      x: inputs [B, F].
    """
    w, b = self._weights_and_biases(name, (x.shape[1], size), initializer)
    return self.ops.linear(x, w, b)

  def noisy_linear(
    self,
    name: str,
    x: Array,
    size: int,
    std: float,
    noise: typing.Any,
    initializer: initializers.LayerInitializer = initializers.uniform_by_fan_in,
  ) -> Array:
    """Returns the outputs [B, size] of a noisy linear layer, of sampled noise.

    w = mean + std f(e_in) f(e_out)^T, b = mean + std f(e_out), with
    f(x) = sign(x) sqrt(|x|) and normal e: Fortunato et al. 2018, "Noisy
    networks for exploration" (https://arxiv.org/abs/1706.10295), equations 9
    to 11 and section 3.2, factorised. One sample of
    the weights serves the whole batch.

    Args:
      x: inputs [B, F].
      std: sigma_0; the initial standard deviations are sigma_0 / sqrt(F).
      noise: an `ops.Noise` for this call, or None to use the mean weights.
      initializer: initializer of the mean weights; section 3.2: uniform.
    """
    inputs = x.shape[1]
    deviation = initializers.constant(std / math.sqrt(inputs))
    w, b = self._weights_and_biases(name, (inputs, size), initializer)
    w_std = self.variable(f"{name}/w_std", (inputs, size), deviation)
    b_std = self.variable(f"{name}/b_std", (size,), deviation)
    if noise is not None:
      e = noise.normal((inputs + size,))
      e = self.ops.sign(e) * self.ops.sqrt(abs(e))
      e_in, e_out = e[:inputs], e[inputs:]
      w = w + w_std * (e_in[:, None] * e_out)
      b = b + b_std * e_out
    return self.ops.linear(x, w, b)

  def conv(
    self,
    name: str,
    x: Array,
    channels: int,
    size: int,
    stride: int,
    initializer: initializers.LayerInitializer = initializers.truncated_normal,
  ) -> Array:
    """Returns the outputs of a convolution without padding.

    Args:
      name: prefix of the names of the variables w and b: 'NAME/w', 'NAME/b'.
      x: images [B, H, W, C] of any type.

    Returns:
      float32 [B, (H - size) // stride + 1, (W - size) // stride + 1, channels].
    """
    shape = (size, size, x.shape[3], channels)
    w, b = self._weights_and_biases(name, shape, initializer)
    return self.ops.conv(x, w, b, stride)

  def frames_conv(
    self,
    name: str,
    frames: Array,
    channels: int,
    initializer: initializers.LayerInitializer = initializers.truncated_normal,
  ) -> Array:
    """Returns the 8x8 convolution with stride 4 of frames scaled to [0, 1].

    Mnih et al. 2015, methods, "Model architecture", first convolution.

    Args:
      name: prefix of the names of the variables w and b: 'NAME/w', 'NAME/b'.
      frames: uint8 [B, stack, height, width].

    Returns:
      float32 [B, height // 4 - 1, width // 4 - 1, channels]. Pixels beyond the
      last multiple of four are ignored.
    """
    shape = (8, 8, frames.shape[1], channels)
    w, b = self._weights_and_biases(name, shape, initializer)
    return self.ops.frames_conv(frames, w, b)

  def layer_norm(self, name: str, x: Array) -> Array:
    """Returns x [B, F] normalized over F, with a learned scale and offset.

    Ba et al. 2016, "Layer normalization" (https://arxiv.org/abs/1607.06450),
    equations 3 and 4.

    Args:
      name: prefix of the names of the variables scale and offset, [F] each.
      x: inputs [B, F].
    """
    shape = (x.shape[1],)
    scale = self.variable(f"{name}/scale", shape, initializers.ones)
    offset = self.variable(f"{name}/offset", shape, initializers.zeros)
    return self.ops.standardize(x) * scale + offset

  def _weights_and_biases(
    self,
    name: str,
    shape: tuple[int, ...],
    initializer: initializers.LayerInitializer,
  ) -> tuple[Array, Array]:
    biases = initializer.biases(initializers.count_inputs(shape))
    return (
      self.variable(f"{name}/w", shape, initializer.weights),
      self.variable(f"{name}/b", shape[-1:], biases),
    )


def make_trial_layers(shapes: VariableShapes) -> Layers:
  """Returns layers in NumPy with variables of zeros, for a trial of a network.

  A user's module is made for each call.

  Args:
    shapes: gets the shape of each variable.
  """

  def variable(
    is_users: bool,
    name: str,
    shape: tuple[int, ...],
    initializer: initializers.Initializer,
  ) -> np.ndarray:
    """Notes the shape of a variable; returns zeros of that shape."""
    del initializer  # no values are needed
    shapes.add(name, shape, is_users)
    # Zeros that take the memory of one number, whatever the shape.
    return np.broadcast_to(np.float32(0.0), shape)

  def module(name: str, make: Callable[[], typing.Any], x: Array) -> Array:
    # Imported here, since other networks don't need TensorFlow.
    import tensorflow as tf

    from slipway.agents.networks import modules

    inputs = tf.constant(x)
    made = modules.make_module(make, inputs, seed=0)
    for key, value in modules.name_variables(name, made).items():
      shapes.add(key, tuple(value.shape), is_users=True)
    return made(inputs).numpy()

  def linear(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Returns zeros of the shape of x w, without a product."""
    del b
    return np.zeros((len(x), w.shape[1]), np.float32)

  return Layers(
    types.SimpleNamespace(**vars(numpy_ops) | {"linear": linear}),
    functools.partial(variable, False),
    functools.partial(variable, True),
    module,
  )


class TorsoSettings(typing.NamedTuple):
  """The layers from observations to features, with which networks begin.

  Attributes:
    kind: convolutions, as for `torsos.encode`.
    sizes: number of units of each linear layer after them.
    activation: activation of the linear layers: 'relu' or 'tanh'.
    scheme: initializers of the network's layers.
    layer_norm: choice of the linear layers whose outputs are normalized before
      the activation: 'none', 'first' or 'all'. With 'first', the activation of
      the first layer is tanh, as in Acme's `LayerNormMLP`. 'all' is that of
      Hiraoka et al. 2022, "Dropout Q-functions",
      https://arxiv.org/abs/2110.02034, section 3.
    normalized: whether the first layer normalizes observations. True for acting
      networks only, as learners normalize batches.
  """

  kind: str
  sizes: tuple[int, ...]
  activation: str = "relu"
  scheme: initializers.Scheme = initializers.TRUNCATED_NORMAL
  layer_norm: str = "none"
  normalized: bool = False

  @classmethod
  def from_config(
    cls, network: ml_collections.ConfigDict, normalized: bool = False
  ) -> "TorsoSettings":
    """Returns the settings in the `network` section of a config."""
    return cls(
      network.torso,
      tuple(network.hidden_sizes),
      network.get("activation", "relu"),
      initializers.SCHEMES[network.initializer],
      network.get("layer_norm", "none"),
      normalized,
    )


def mlp(layers: Layers, name: str, x: Array, settings: TorsoSettings) -> Array:
  """Returns the outputs [B, sizes[-1]] of the linear layers of a torso.

  The activation follows each of them. If there is none, the result is x.

  Args:
    name: prefix of the linear layers' names, 'NAME/linear_0' and so on.
    x: inputs [B, F].
  """
  activate = getattr(layers.ops, settings.activation)
  for i, size in enumerate(settings.sizes):
    x = layers.linear(f"{name}/linear_{i}", x, size, settings.scheme.hidden)
    is_normalized_first = settings.layer_norm == "first" and i == 0
    if is_normalized_first or settings.layer_norm == "all":
      x = layers.layer_norm(f"{name}/norm_{i}", x)
    x = layers.ops.tanh(x) if is_normalized_first else activate(x)
  return x
