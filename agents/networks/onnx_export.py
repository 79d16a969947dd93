"""Export of policies to ONNX: tf2onnx converts their TensorFlow graphs."""

import logging
import types
import typing
from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf
from acme import specs

from slipway.agents.networks import network as network_lib
from slipway.agents.networks import tf_network, tf_ops

# Version of ONNX's operator set. Runtimes since 2022 (ONNX 1.12) have it.
_OPSET = 17
# Names of the inputs of an exported network, in the order of its declaration.
# Only recurrent networks have more than the first.
_INPUTS: tuple[str, ...] = (
  "observation",
  "action_before",
  "reward_before",
  "first",
  "state",
)


def _frames_conv(frames: typing.Any, w: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
  """Returns the result of `tf_ops.frames_conv`, by operators that ONNX has."""
  height, width = (size // 4 * 4 for size in frames.shape[2:])
  pixels = tf.transpose(frames[:, :, :height, :width], (0, 2, 3, 1))
  return tf_ops.conv(pixels, w / 255.0, b, 4)


# The array operations of exported graphs: all of them in float32.
_OPS = types.SimpleNamespace(
  **{k: v for k, v in vars(tf_ops).items() if k != "bfloat16"}
  | {"frames_conv": _frames_conv, "take": tf.gather}
)


def export(
  path: str,
  declaration: network_lib.PolicyDeclaration,
  variables: Mapping[str, np.ndarray],
  convert: Callable[[typing.Any, dict[str, typing.Any]], dict[str, typing.Any]],
  notes: Mapping[str, str],
) -> None:
  """Writes the greedy actions of a policy's network as an ONNX model.

  Args:
    convert: function of the array operations, which have `take` besides those
      of `tf_ops`, and of the outputs of `greedy`; returns the model's outputs.
  """
  network = tf_network.Network(declaration, 0)
  network.load(variables)
  layers = network.make_layers(_OPS)

  def act(*inputs: tf.Tensor) -> dict[str, tf.Tensor]:
    outputs = declaration(layers, *inputs)
    return convert(_OPS, dict(declaration.greedy(_OPS, outputs)))

  named = dict(zip(_INPUTS, declaration.inputs, strict=False))
  write(path, act, named, notes)


def write(
  path: str,
  function: Callable[..., dict[str, tf.Tensor]],
  inputs: Mapping[str, specs.Array],
  notes: Mapping[str, str],
) -> None:
  """Writes a function of batches in TensorFlow as an ONNX model.

  Args:
    function: function of tensors [B, ...] that returns tensors [B, ...] by
      name.
    inputs: spec of each argument, without the batch dimension, by name.

  Raises:
    ImportError: onnx or tf2onnx is not installed.
  """
  # Imported here, since only exports need them.
  import onnx
  import tf2onnx

  signature = [
    tf.TensorSpec((None, *spec.shape), spec.dtype, name)
    for name, spec in inputs.items()
  ]
  logging.getLogger("tf2onnx").setLevel(logging.ERROR)
  model, _ = tf2onnx.convert.from_function(
    tf.function(function, input_signature=signature, autograph=False),
    signature,
    opset=_OPSET,
  )
  for value in (*model.graph.input, *model.graph.output):
    value.type.tensor_type.shape.dim[0].dim_param = "batch"
  onnx.helper.set_model_props(model, dict(notes))
  onnx.checker.check_model(model)
  onnx.save(model, path)
