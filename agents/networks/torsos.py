"""Torsos: the first layers of networks, from observations to features."""

import functools
import inspect
import math
import typing

import ml_collections
import numpy as np
from acme import specs

from slipway.agents.networks import action_masks, normalization
from slipway.agents.networks import layers as layers_lib
from slipway.configs import checks
from slipway.environments import arrays, user_code

# Torsos that act faster in NumPy than in TensorFlow.
_FASTER_IN_NUMPY = ("mlp", "minatar_cnn")
# The Nature CNN whose products are computed in bfloat16, and the names in
# /proc/cpuinfo of the instructions that it needs to be fast.
_BFLOAT16_CNN = "nature_cnn_bfloat16"
_BFLOAT16_INSTRUCTIONS = {"avx512_bf16", "amx_bf16"}


def is_small(kind: str, observations: specs.Array) -> bool:
  """Returns whether a torso acts faster in NumPy than in TensorFlow.

  Args:
    kind: name of the torso, as for `apply_torso`. A user's function counts as
      small unless its attribute `small` is false.
  """
  if checks.is_user_code(kind):
    return getattr(_load_user_torso(kind), "small", True)
  images = getattr(arrays.remove_mask(observations), "images", ())
  return kind in _FASTER_IN_NUMPY and all(
    _choose_cnn(kind, shape) == "minatar_cnn" for shape in images
  )


# Smallest height and width of images, in pixels, that a torso's convolutions
# support, by name of the torso.
_MIN_IMAGE_SIZES = {"minatar_cnn": 3, "nature_cnn": 36, _BFLOAT16_CNN: 36}
# Names of the torsos with convolutions.
CONVOLUTIONS = tuple(_MIN_IMAGE_SIZES)


class ImageAxes(typing.NamedTuple):
  """Sizes and order of the axes of an image, or of a stack of images.

  Attributes:
    stack: number of stacked images; 1 if there is no such axis, or if the stack
      is treated as channels.
    channels: number of channels per image.
    height: height of an image, in pixels.
    width: width of an image, in pixels.
    channels_last: whether channels are the last axis; otherwise they precede
      the height.
  """

  stack: int
  channels: int
  height: int
  width: int
  channels_last: bool


def find_image_axes(shape: tuple[int, ...]) -> ImageAxes | None:
  """Returns the axes of images of a shape, or None if it is no image's shape.

  [H, W], [C, H, W] and [H, W, C] are images; [S, C, H, W] and [S, H, W, C] are
  stacks of S images. Two equal adjacent axes are height and width; if there are
  none, the smaller one of the outer axes is the channels.
  """
  if len(shape) == 2:
    return ImageAxes(1, 1, *shape, channels_last=False)
  if len(shape) not in (3, 4):
    return None
  stack, (a, b, c) = math.prod(shape[:-3]), shape[-3:]
  if a == b or (b != c and c <= a):
    return ImageAxes(stack, c, a, b, channels_last=True)
  return ImageAxes(stack, a, b, c, channels_last=False)


def list_images(
  observations: specs.Array,
) -> list[tuple[slice, tuple[int, ...]]]:
  """Returns the columns, in flat observations, and the shape of each image.

  Observations of one array count as an image, whatever their shape.
  """
  observations = arrays.remove_mask(observations)
  if isinstance(observations, arrays.MixedArray):
    return list(observations.image_slices())
  return [(slice(0, math.prod(observations.shape)), observations.shape)]


def _get_size(shape: tuple[int, ...]) -> int:
  """Returns the smaller side of an image in pixels; 0 if it is no image."""
  axes = find_image_axes(tuple(shape))
  return min(axes.height, axes.width) if axes else 0


def check(
  config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
) -> None:
  """Raises ValueError if a torso does not accept the observations."""
  if checks.is_user_code(config.torso):
    _check_user_torso(config.torso, spec)
    return
  if config.torso not in _MIN_IMAGE_SIZES:
    return
  smallest = _MIN_IMAGE_SIZES[config.torso]
  only = "" if config.torso == "minatar_cnn" else "uint8 "
  observations = arrays.remove_mask(spec.observations)
  is_mixed = isinstance(observations, arrays.MixedArray)
  dtype = np.dtype(np.uint8) if is_mixed else observations.dtype
  for _, shape in list_images(observations):
    size = _get_size(shape)
    if size >= smallest and (not only or dtype == np.uint8):
      continue
    fits_minatar = only and size >= 3 and not is_mixed
    raise ValueError(
      f"config.network.torso={config.torso!r} takes {only}images [H, W], "
      f"[C, H, W] or [H, W, C] of H and W >= {smallest}, also stacked along a "
      f"first axis, but the environment gives {dtype} {list(shape)}: use "
      f"--config.network.torso={'minatar_cnn' if fits_minatar else 'mlp'}"
    )
  if config.torso == _BFLOAT16_CNN and not _has_bfloat16():
    raise ValueError(
      f"config.network.torso={config.torso!r} needs a processor with the "
      f"instructions {' or '.join(sorted(_BFLOAT16_INSTRUCTIONS))}, and this "
      "one has neither, so the network would be slower than in float32: use "
      "--config.network.torso=nature_cnn"
    )


def check_shift(
  config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
) -> None:
  """Raises ValueError if `learner.random_shift` has no images to shift."""
  torso, pixels = config.network.torso, config.learner.random_shift
  observations = arrays.remove_mask(spec.observations)
  has_images = all(_get_size(shape) for _, shape in list_images(observations))
  if pixels and not (has_images and needs_convolutions(torso, spec)):
    raise ValueError(
      f"config.learner.random_shift={pixels} shifts images for convolutions, "
      f"but config.network.torso={torso!r} gets {observations.dtype} "
      f"{list(observations.shape)}: use 0, or for images "
      "--config.network.torso=nature_cnn"
    )


def advise(kind: str | None, spec: specs.EnvironmentSpec) -> str:
  """Returns advice on a torso that acts slowly, or does not fit pixels.

  These are a tf.Module of the user's, and a torso that neither scales nor
  convolves pixels.

  Args:
    kind: name of the torso, as for `apply_torso`; None without one.

  Returns:
    One line; '' if the torso fits the observations.
  """
  if kind and checks.is_user_code(kind) and _makes_module(_load(kind)):
    return (
      f"config.network.torso={kind!r} makes a tf.Module, with which workers "
      "act in TensorFlow: about 0.2 ms per call more than a small function of "
      "layers takes in NumPy, so give each worker more environments"
    )
  observations = arrays.remove_mask(spec.observations)
  size = _get_size(observations.shape)
  if (
    kind != "mlp"
    or observations.dtype != np.uint8
    or not isinstance(observations, specs.BoundedArray)
    or np.max(observations.maximum) < 255
    or size < _MIN_IMAGE_SIZES["minatar_cnn"]
  ):
    return ""
  fits_nature = size >= _MIN_IMAGE_SIZES["nature_cnn"]
  return (
    f"config.network.torso='mlp' takes the images, uint8 "
    f"{list(observations.shape)}, as {math.prod(observations.shape):,} numbers "
    "of up to 255, so it may learn slowly or nothing: use --config.network."
    + (
      "torso=nature_cnn"
      if fits_nature
      else "torso=minatar_cnn, and a wrapper that scales them to [0, 1]"
    )
  )


class Torso:
  """A network's first layers: observations without masks become features.

  Attributes:
    inputs: spec of the observations, as the input of a network.
    prefers_numpy: whether the torso acts faster in NumPy than in TensorFlow.
  """

  def __init__(
    self, spec: specs.EnvironmentSpec, settings: layers_lib.TorsoSettings
  ):
    self.inputs = (spec.observations,)
    self._settings = settings
    self._mask_splitter = action_masks.MaskSplitter(spec)
    self.prefers_numpy = is_small(settings.kind, spec.observations)

  def __call__(
    self, layers: layers_lib.Layers, observation: typing.Any
  ) -> tuple[typing.Any, typing.Any]:
    """Returns the features of observations [B, ...], and penalties of actions.

    Returns:
      Features [B, F], and penalties of illegal actions, or None; see
      `action_masks.MaskSplitter.split`.
    """
    observation, penalty = self._mask_splitter.split(layers.ops, observation)
    spec = self._mask_splitter.observations
    return apply_torso(layers, self._settings, observation, spec), penalty


def needs_convolutions(kind: str, spec: specs.EnvironmentSpec) -> bool:
  """Returns whether a torso is more than its linear layers."""
  observations = arrays.remove_mask(spec.observations)
  return kind != "mlp" or isinstance(observations, arrays.MixedArray)


def apply_torso(
  layers: layers_lib.Layers,
  settings: layers_lib.TorsoSettings,
  observation: typing.Any,
  spec: specs.Array,
) -> typing.Any:
  """Returns features [B, F] of observations [B, ...] without masks.

  Applies `encode`, and then linear layers. F is the last of their sizes.
  """
  x = encode(layers, settings, observation, spec)
  if settings.kind == _BFLOAT16_CNN:
    layers = layers.in_bfloat16()
  return layers_lib.mlp(layers, "torso", x, settings)


def encode(
  layers: layers_lib.Layers,
  settings: layers_lib.TorsoSettings,
  observation: typing.Any,
  spec: specs.Array,
) -> typing.Any:
  """Returns features float32 [B, F] of observations [B, ...].

  Applies the convolutions of `settings.kind`, each followed by a ReLU. Without
  convolutions, the features are the observation's values. Kinds are 'mlp',
  'minatar_cnn' (Young and Tian 2019, section 4), 'nature_cnn' (Mnih et al.
  2015, methods, "Model architecture"), 'nature_cnn_bfloat16', or 'module:name'
  of a user's function, which takes `layers` and the observations, and returns
  features [B, ...].

  In a Dict or Tuple with images, each image has convolutions of its own, whose
  features follow the other numbers. 'mlp' then chooses the Nature CNN for
  images of at least 36 x 36 pixels, and MinAtar's for smaller ones.

  Args:
    settings: kind, initializers, and whether observations are normalized first.
    observation: observations that `check` accepts for the kind; the Nature CNN
      scales pixels to [0, 1].
    spec: spec of these observations, which have no masks.
  """
  kind = settings.kind
  if settings.normalized:
    observation = normalization.normalize(layers, observation, spec)
  if kind == _BFLOAT16_CNN:
    layers, kind = layers.in_bfloat16(), "nature_cnn"
  if checks.is_user_code(kind):
    x = _load_user_torso(kind)(layers.for_user_code(), observation)
  elif isinstance(spec, arrays.MixedArray):
    ops = layers.ops
    parts = [observation[:, : spec.numbers]]
    for i, (columns, shape) in enumerate(spec.image_slices()):
      image = ops.reshape(observation[:, columns], (-1, *shape)) / 255
      own = layers.scoped(f"torso/image_{i}")
      cnn = _choose_cnn(kind, shape)
      if cnn != "mlp":
        image = _to_channels_last(ops, image)
      image = _convolve_channels_last(own, settings, cnn, image)
      parts.append(ops.float32(ops.flatten(image)))
    x = ops.concat(parts)
  else:
    x = _convolve(layers, settings, kind, observation)
  return layers.ops.float32(layers.ops.flatten(x))


def _convolve(
  layers: layers_lib.Layers,
  settings: layers_lib.TorsoSettings,
  kind: str,
  x: typing.Any,
) -> typing.Any:
  """Returns the outputs [B, ...] of convolutions of observations [B, ...]."""
  if kind == "nature_cnn":
    axes = _get_axes(x)
    if not axes.channels_last:
      size = (axes.height, axes.width)
      x = layers.ops.reshape(x, (-1, axes.stack * axes.channels, *size))
      initializer = settings.scheme.hidden
      x = layers.frames_conv("torso/conv_0", x, 32, initializer)
      return _finish_nature_cnn(layers, settings, x)
    x = _to_channels_last(layers.ops, x) / 255
  elif kind == "minatar_cnn":
    x = _to_channels_last(layers.ops, x)
  return _convolve_channels_last(layers, settings, kind, x)


def _convolve_channels_last(
  layers: layers_lib.Layers,
  settings: layers_lib.TorsoSettings,
  kind: str,
  x: typing.Any,
) -> typing.Any:
  """Returns the outputs [B, ...] of convolutions of images [B, H, W, C]."""
  initializer = settings.scheme.hidden
  if kind == "nature_cnn":
    x = layers.conv("torso/conv_0", x, 32, 8, 4, initializer)
    return _finish_nature_cnn(layers, settings, x)
  if kind == "minatar_cnn":
    return layers.ops.relu(
      layers.conv("torso/conv_0", x, 16, 3, 1, initializer)
    )
  return x


def _finish_nature_cnn(
  layers: layers_lib.Layers, settings: layers_lib.TorsoSettings, x: typing.Any
) -> typing.Any:
  """Returns the outputs of the Nature CNN, given its first convolution's."""
  relu, initializer = layers.ops.relu, settings.scheme.hidden
  x = relu(layers.conv("torso/conv_1", relu(x), 64, 4, 2, initializer))
  return relu(layers.conv("torso/conv_2", x, 64, 3, 1, initializer))


def _choose_cnn(kind: str, shape: tuple[int, ...]) -> str:
  """Returns the convolutions of an image in a Dict, given its shape."""
  if kind in ("minatar_cnn", "nature_cnn"):
    return kind
  for cnn in ("nature_cnn", "minatar_cnn"):
    if _get_size(shape) >= _MIN_IMAGE_SIZES[cnn]:
      return cnn
  return "mlp"


def count_features(
  settings: layers_lib.TorsoSettings, spec: specs.Array
) -> int:
  """Returns F, the number of features that `encode` computes."""
  trial = layers_lib.make_trial_layers(layers_lib.VariableShapes())
  return encode(trial, settings, _make_zeros(spec), spec).shape[1]


@functools.cache
def _has_bfloat16() -> bool:
  """Returns whether this machine's processor computes in bfloat16."""
  with open("/proc/cpuinfo", encoding="utf-8") as file:
    return not _BFLOAT16_INSTRUCTIONS.isdisjoint(file.read().split())


def _load(kind: str) -> typing.Any:
  """Imports what a user's torso 'module:name' names."""
  return user_code.load(
    f"config.network.torso={kind!r}",
    kind,
    "a function of layers and observations, or of what makes a tf.Module",
  )


def _load_user_torso(kind: str) -> typing.Any:
  """Imports a user's torso as a function of layers and observations."""
  found = _load(kind)
  if not _makes_module(found):
    return found

  def torso(layers: layers_lib.Layers, observation: typing.Any) -> typing.Any:
    return layers.module("torso/module", found, observation)

  torso.small = False
  return torso


def _makes_module(found: typing.Any) -> bool:
  """Returns whether a torso is a class or function that makes a tf.Module."""
  return inspect.isclass(found) or (
    inspect.isfunction(found) and not inspect.signature(found).parameters
  )


def _check_user_torso(kind: str, spec: specs.EnvironmentSpec) -> None:
  """Raises ValueError if a user's torso fails on zeros as observations."""
  observation = _make_zeros(arrays.remove_mask(spec.observations))
  function = _load_user_torso(kind)
  trial = layers_lib.make_trial_layers(layers_lib.VariableShapes())
  try:
    shape = np.shape(function(trial, observation))
  except BaseException as error:
    user_code.raise_interrupt(error)
    raise ValueError(
      f"config.network.torso={kind!r} fails on observations "
      f"{observation.dtype} {list(observation.shape)} "
      f"({user_code.describe(error)}), so there would be no network: correct "
      "the function"
    ) from error
  if len(shape) < 2 or shape[0] != 2:
    raise ValueError(
      f"config.network.torso={kind!r} returns {list(shape)} for a batch of 2, "
      "so there would be no features: return [B, ...]"
    )


def _make_zeros(spec: specs.Array) -> np.ndarray:
  """Returns a batch of two observations of a spec, with zeros: [2, ...]."""
  return np.zeros((2, *spec.shape), spec.dtype)


def _to_channels_last(ops: typing.Any, x: typing.Any) -> typing.Any:
  """Returns images with stack and channels on the last axis."""
  stack, channels, height, width, last = _get_axes(x)
  x = ops.float32(x)
  if not last:
    x = ops.reshape(x, (-1, stack * channels, height, width))
    x = ops.swapaxes(ops.swapaxes(x, 1, 2), 2, 3)
  elif stack > 1:
    x = ops.reshape(x, (-1, stack, height, width, channels))
    x = ops.swapaxes(ops.swapaxes(x, 1, 2), 2, 3)
  return ops.reshape(x, (-1, height, width, stack * channels))


def _get_axes(x: typing.Any) -> ImageAxes:
  """Returns the axes of images x [B, ...], without the batch dimension."""
  axes = find_image_axes(tuple(x.shape[1:]))
  assert axes is not None
  return axes
