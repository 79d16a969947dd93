"""Export of networks to ONNX, with a graph in place of `numpy_ops`.

A network's declaration that is called with a `Graph` instead of `numpy_ops`
adds its operations to the graph. Each tensor has an example value, which
determines its shape and dtype. `Graph.write` writes a file for runtimes such as
onnxruntime.

This module requires the package onnx, which is in the lock file.
"""

import typing
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from slipway.agents.networks import layers as layers_lib
from slipway.agents.networks import network as network_lib
from slipway.agents.networks import numpy_ops

# Versions of ONNX's operator set and file format, those of ONNX 1.12. Runtimes
# since 2022 support both.
_OPSET, _IR_VERSION = 17, 8
_EXAMPLE_BATCH_SIZE = 3  # batch size B of the tensors' example values
# Value of `ends` with which ONNX's operator Slice reaches the end of an axis.
_SLICE_END = np.iinfo(np.int64).max
# Names of the inputs of an exported network, in the order of its declaration.
# Only recurrent networks have more than the first.
_INPUT_NAMES = (
  "observation",
  "action_before",
  "reward_before",
  "first",
  "state",
)


class _BatchSize(int):
  """Integer that marks the batch size in a shape.

  Its value is that of the examples; the true size is known when the graph runs.
  """


class Tensor:
  """An input, constant or result of an ONNX graph, with NumPy's operators.

  Operators such as `+` add nodes to the graph.

  Attributes:
    name: name of the value in the graph.
    example: array with the shape and dtype of the value.
  """

  __array_ufunc__ = None  # so `array + tensor` calls `Tensor.__radd__`

  def __init__(self, graph: "Graph", name: str, example: np.ndarray):
    """Refers to a value that exists in a graph.

    Args:
      graph: graph with the value.
      name: name of the value in the graph.
      example: array with the shape and dtype of the value.
    """
    self._graph, self.name, self.example = graph, name, example

  @property
  def shape(self) -> tuple[int, ...]:
    """Shape of the example; its batch size is a placeholder."""
    return self.example.shape

  def __add__(self, other: typing.Any) -> "Tensor":
    """Adds the node of a sum; returns its output."""
    return self._graph.binary("Add", self, other, np.add)

  def __sub__(self, other: typing.Any) -> "Tensor":
    """Adds the node of a difference; returns its output."""
    return self._graph.binary("Sub", self, other, np.subtract)

  def __mul__(self, other: typing.Any) -> "Tensor":
    """Adds the node of a product; returns its output."""
    return self._graph.binary("Mul", self, other, np.multiply)

  def __truediv__(self, other: typing.Any) -> "Tensor":
    """Adds the node of a quotient; returns its output."""
    return self._graph.divide(self, other)

  def __pow__(self, other: typing.Any) -> "Tensor":
    """Adds the node of a power; returns its output."""
    return self._graph.binary("Pow", self, other, np.power)

  def __radd__(self, other: typing.Any) -> "Tensor":
    """Adds the node of a sum; returns its output."""
    return self + other

  def __rmul__(self, other: typing.Any) -> "Tensor":
    """Adds the node of a product; returns its output."""
    return self * other

  def __rsub__(self, other: typing.Any) -> "Tensor":
    """Adds the node of a difference; returns its output."""
    return self._graph.binary("Sub", other, self, np.subtract)

  def __rtruediv__(self, other: typing.Any) -> "Tensor":
    """Adds the node of a quotient; returns its output."""
    return self._graph.divide(other, self)

  def __neg__(self) -> "Tensor":
    """Adds the node of -self; returns its output."""
    return self._graph.node("Neg", [self], -self.example)

  def __abs__(self) -> "Tensor":
    """Adds the node of abs(self); returns its output."""
    return self._graph.node("Abs", [self], abs(self.example))

  def __getitem__(self, index: typing.Any) -> "Tensor":
    """Adds the nodes of self[index]; returns their output.

    The index may have integers, slices without steps, `...` and None.
    """
    index = index if isinstance(index, tuple) else (index,)
    if Ellipsis in index:
      at = index.index(Ellipsis)
      missing = self.example.ndim - sum(
        part is not None and part is not Ellipsis for part in index
      )
      whole = (slice(None),) * missing
      index = (*index[:at], *whole, *index[at + 1 :])
    return self._graph.slice(self, index)


class Graph:
  """An ONNX graph under construction, with the functions of `numpy_ops`.

  Each function adds nodes to the graph, and returns their output.
  """

  def __init__(self):
    """Makes an empty graph."""
    import onnx

    self._onnx = onnx
    self._nodes: list[typing.Any] = []
    self._constants: dict[str, typing.Any] = {}
    self._inputs: list[typing.Any] = []
    self._first_input: str | None = None

  def add_input(self, name: str, shape: Sequence[int], dtype: typing.Any):
    """Adds an input to the graph, and returns its tensor.

    Args:
      name: name of the input.
      shape: shape of the input, without the batch dimension.
      dtype: NumPy dtype of the input.
    """
    example = np.zeros((_EXAMPLE_BATCH_SIZE, *shape), dtype)
    self._inputs.append(self._describe(name, example))
    self._first_input = self._first_input or name
    return Tensor(self, name, example)

  def add_constant(self, name: str, value: np.ndarray) -> Tensor:
    """Returns the constant `name`, and adds it to the graph at its first use.

    Args:
      name: name of the constant.
      value: value of the constant, the same in each call.
    """
    if name not in self._constants:
      self._constants[name] = self._onnx.numpy_helper.from_array(value, name)
    return Tensor(self, name, value)

  def write(
    self, path: str, outputs: Mapping[str, Tensor], notes: Mapping[str, str]
  ) -> None:
    """Writes the graph to an ONNX file.

    Args:
      path: path of the file.
      outputs: outputs of the graph, by name.
      notes: metadata of the model, texts by name.
    """
    helper = self._onnx.helper
    described = []
    for name, tensor in outputs.items():
      self._nodes.append(helper.make_node("Identity", [tensor.name], [name]))
      described.append(self._describe(name, tensor.example))
    graph = helper.make_graph(
      self._nodes,
      "policy",
      self._inputs,
      described,
      list(self._constants.values()),
    )
    model = helper.make_model(
      graph,
      opset_imports=[helper.make_opsetid("", _OPSET)],
      ir_version=_IR_VERSION,
      producer_name="slipway",
    )
    helper.set_model_props(model, dict(notes))
    self._onnx.checker.check_model(model)
    self._onnx.save(model, path)

  def node(
    self,
    kind: str,
    inputs: Sequence[typing.Any],
    example: np.ndarray,
    **attributes: typing.Any,
  ) -> Tensor:
    """Adds a node of any ONNX operator, and returns its output.

    Args:
      kind: name of an ONNX operator.
      inputs: tensors, arrays or numbers.
      example: array with the shape and dtype of the output.
      **attributes: attributes of the operator.
    """
    name = f"{kind}_{len(self._nodes)}"
    names = [self._as_tensor(x).name for x in inputs]
    self._nodes.append(
      self._onnx.helper.make_node(kind, names, [name], name, **attributes)
    )
    return Tensor(self, name, np.asarray(example))

  def binary(
    self,
    kind: str,
    a: typing.Any,
    b: typing.Any,
    compute: Callable[..., np.ndarray],
  ) -> Tensor:
    """Adds a node of an operator with two inputs, and returns its output.

    ONNX requires inputs of the same type. So an array or number gets the type
    of the other input; but a tensor of integers becomes float32 if it meets
    fractions.

    Args:
      kind: name of an ONNX operator.
      a: a tensor, array or number.
      b: a tensor, array or number.
      compute: the same operation in NumPy, for the example of the output.
    """
    if not isinstance(a, Tensor):
      b, a = self._unify_types(b, a)
    elif not isinstance(b, Tensor):
      a, b = self._unify_types(a, b)
    example = _compute_without_warnings(compute, a.example, b.example)
    return self.node(kind, [a, b], example.astype(a.example.dtype))

  def divide(self, a: typing.Any, b: typing.Any) -> Tensor:
    """Adds a / b, elementwise, in float32, also of integers.

    Args:
      a: a tensor, array or number.
      b: a tensor, array or number.
    """
    a, b = (self.float32(x) if isinstance(x, Tensor) else x for x in (a, b))
    return self.binary("Div", a, b, np.divide)

  def slice(self, x: Tensor, index: tuple[typing.Any, ...]) -> Tensor:
    """Adds the nodes of x[index], and returns their output.

    Args:
      x: tensor to index.
      index: integers, slices without steps, and None, as for NumPy.
    """
    starts, ends, axes, dropped, added = [], [], [], [], []
    axis = 0  # of x
    for part in index:
      if part is None:
        added.append(axis - len(dropped) + len(added))
        continue
      if isinstance(part, slice):
        if part != slice(None):
          starts.append(part.start or 0)
          ends.append(_SLICE_END if part.stop is None else part.stop)
          axes.append(axis)
      else:
        starts.append(part)
        ends.append(_SLICE_END if part == -1 else part + 1)
        axes.append(axis)
        dropped.append(axis)
      axis += 1
    result = x
    if axes:
      bounds = [np.array(b, np.int64) for b in (starts, ends, axes)]
      kept = tuple(
        slice(part, None if part == -1 else part + 1)
        if isinstance(part, int)
        else part
        for part in index
        if part is not None
      )
      result = self.node("Slice", [result, *bounds], x.example[kept])
    if dropped:
      example = result.example.squeeze(tuple(dropped))
      result = self.node("Squeeze", [result, np.array(dropped)], example)
    if added:
      example = np.expand_dims(result.example, tuple(added))
      result = self.node("Unsqueeze", [result, np.array(added)], example)
    return result

  def _describe(self, name: str, example: np.ndarray) -> typing.Any:
    """Returns the ONNX type of an input or output of the graph.

    Args:
      name: name of the input or output.
      example: array with its dtype and its shape [B, ...]; B stays variable.
    """
    helper = self._onnx.helper
    return helper.make_tensor_value_info(
      name,
      helper.np_dtype_to_tensor_dtype(example.dtype),
      ["batch", *example.shape[1:]],
    )

  def _unify_types(
    self, tensor: Tensor, value: typing.Any
  ) -> tuple[Tensor, Tensor]:
    """Returns a tensor and a constant of the same type; see `binary`.

    Args:
      tensor: a tensor of the graph.
      value: an array or number, the constant's value.
    """
    value = np.asarray(value)
    if value.dtype.kind == "f":
      tensor = self.float32(tensor)
    return tensor, self._as_tensor(value.astype(tensor.example.dtype))

  def _as_tensor(self, x: typing.Any) -> Tensor:
    """Returns x as a tensor; arrays and numbers become constants."""
    if isinstance(x, Tensor):
      return x
    value = np.asarray(x)
    if value.dtype == np.float64:
      value = value.astype(np.float32)
    return self.add_constant(f"constant_{len(self._constants)}", value)

  # The methods below replace the functions of `numpy_ops` with the same names.
  # Each returns the output of the nodes that it adds.

  def __getattr__(self, name: str) -> typing.Any:
    """Returns a function that adds a node of a unary operator, like `tanh`.

    Args:
      name: name of a function of `numpy_ops`, a key of `_UNARY_OPERATORS`.

    Raises:
      AttributeError: no operator has this name.
    """
    if name not in _UNARY_OPERATORS:
      raise AttributeError(f"ONNX graphs have no function {name!r}")
    compute = getattr(numpy_ops, name)
    attributes = {"axis": -1} if name.endswith("softmax") else {}
    return lambda x: self.node(
      _UNARY_OPERATORS[name],
      [x],
      _compute_without_warnings(compute, x.example),
      **attributes,
    )

  def minimum(self, x: typing.Any, y: typing.Any) -> Tensor:
    """Adds min(x, y), elementwise."""
    return self.binary("Min", x, y, np.minimum)

  def maximum(self, x: typing.Any, y: typing.Any) -> Tensor:
    """Adds max(x, y), elementwise."""
    return self.binary("Max", x, y, np.maximum)

  def clip(self, x: Tensor, low: float, high: float) -> Tensor:
    """Adds a clip of x to [low, high], elementwise."""
    return self.minimum(self.maximum(x, low), high)

  def float32(self, x: Tensor) -> Tensor:
    """Adds a cast of x to float32."""
    return self.cast(x, np.float32)

  def cast(self, x: Tensor, dtype: typing.Any) -> Tensor:
    """Adds a cast of x to a NumPy dtype; returns x if it has that dtype."""
    if x.example.dtype == dtype:
      return x
    example = x.example.astype(dtype)
    to = self._onnx.helper.np_dtype_to_tensor_dtype(example.dtype)
    return self.node("Cast", [x], example, to=to)

  def shape(self, x: Tensor) -> tuple[int, ...]:
    """Returns the shape of x, whose batch size is marked as a `_BatchSize`."""
    return _BatchSize(x.shape[0]), *x.shape[1:]

  def reshape(self, x: Tensor, shape: Sequence[int]) -> Tensor:
    """Adds a reshape of x; `shape` may have a -1 or a `_BatchSize`."""
    example = x.example.reshape(shape)
    sizes = [-1 if isinstance(size, _BatchSize) else size for size in shape]
    return self.node("Reshape", [x, np.array(sizes, np.int64)], example)

  def flatten(self, x: Tensor) -> Tensor:
    """Adds a reshape of x [B, ...] to [B, F]."""
    return self.reshape(x, (-1, int(np.prod(x.shape[1:]))))

  def broadcast_to(self, x: typing.Any, shape: Sequence[int]) -> Tensor:
    """Adds a broadcast of x to a shape, which may have a `_BatchSize`."""
    x = self._as_tensor(x)
    example = np.broadcast_to(x.example, shape)
    # The batch size is known only when the graph runs: it is read from the
    # shape of the first input.
    batch = self.node(
      "Shape",
      [Tensor(self, str(self._first_input), x.example)],
      np.zeros(1, np.int64),
      start=0,
      end=1,
    )
    sizes = [
      batch if isinstance(size, _BatchSize) else np.array([size], np.int64)
      for size in shape
    ]
    target = self.node("Concat", sizes, np.array(shape), axis=0)
    return self.node("Expand", [x, target], example)

  def swapaxes(self, x: Tensor, a: int, b: int) -> Tensor:
    """Adds a transposition of axes a and b of x."""
    order = list(range(x.example.ndim))
    order[a], order[b] = order[b], order[a]
    return self._transpose(x, order)

  def concat(self, xs: Sequence[Tensor], axis: int = -1) -> Tensor:
    """Adds a concatenation of tensors along an existing axis."""
    example = np.concatenate([x.example for x in xs], axis)
    return self.node("Concat", xs, example, axis=axis)

  def stack(self, xs: Sequence[Tensor], axis: int) -> Tensor:
    """Adds a stack of tensors along a new axis."""
    return self.concat(
      [
        self.node(
          "Unsqueeze", [x, np.array([axis])], np.expand_dims(x.example, axis)
        )
        for x in xs
      ],
      axis,
    )

  def split(self, x: Tensor, parts: int) -> list[Tensor]:
    """Adds a split of x into `parts` equal parts along the last axis."""
    size = x.shape[-1] // parts
    return [x[..., i * size : (i + 1) * size] for i in range(parts)]

  def mean(self, x: Tensor, axis: int, keepdims: bool = False) -> Tensor:
    """Adds the mean of x along an axis."""
    example = numpy_ops.mean(x.example, axis, keepdims)
    return self.node(
      "ReduceMean", [x], example, axes=[axis], keepdims=int(keepdims)
    )

  def sum(self, x: Tensor, axis: int, keepdims: bool = False) -> Tensor:
    """Adds the sum of x along an axis."""
    example = numpy_ops.sum(x.example, axis, keepdims)
    return self.node(
      "ReduceSum", [x, np.array([axis])], example, keepdims=int(keepdims)
    )

  def argmax(self, x: Tensor) -> Tensor:
    """Adds the indices int32 of the largest values along the last axis."""
    example = x.example.argmax(-1)
    index = self.node("ArgMax", [x], example, axis=-1, keepdims=0)
    return self.cast(index, np.int32)

  def one_hot(self, index: Tensor, size: int) -> Tensor:
    """Adds one-hot vectors float32 [..., size] of integers `index` [...]."""
    example = numpy_ops.one_hot(index.example, size)
    values = np.array([0, 1], np.float32)
    wide = self.cast(index, np.int64)
    return self.node("OneHot", [wide, np.array(size), values], example)

  def take(self, table: np.ndarray, index: Tensor) -> Tensor:
    """Adds a look-up of the rows of a table [A, ...] at indices [B].

    Unlike the other methods, it has no counterpart in `numpy_ops`.
    """
    return self.node("Gather", [table, index], table[index.example], axis=0)

  def linear(self, x: Tensor, w: typing.Any, b: typing.Any) -> Tensor:
    """Adds a linear layer x w + b [B, N], for w [F, N] and b [N]."""
    w = self._as_tensor(w)
    return self.node("MatMul", [x, w], x.example @ w.example) + b

  def conv(self, x: Tensor, w: Tensor, b: Tensor, stride: int) -> Tensor:
    """Adds a convolution with bias, without padding; see `numpy_ops.conv`."""
    example = numpy_ops.conv(x.example, w.example, b.example, stride)
    channels_first = self._transpose(self.float32(x), (0, 3, 1, 2))
    return self._conv(channels_first, w, b, stride, example)

  def frames_conv(self, frames: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """Adds the 8x8 convolution of frames; see `numpy_ops.frames_conv`."""
    example = numpy_ops.frames_conv(frames.example, w.example, b.example)
    height, width = (size // 4 * 4 for size in frames.shape[2:])
    pixels = self.float32(frames[:, :, :height, :width])
    return self._conv(pixels, w * (1 / 255.0), b, 4, example)

  def _conv(
    self, x: Tensor, w: Tensor, b: Tensor, stride: int, example: np.ndarray
  ) -> Tensor:
    """Adds a convolution with bias, and returns its output [B, H', W', N].

    Args:
      x: images [B, C, H, W].
      w: N filters [h, w, C, N].
      b: biases [N].
      stride: pixels between adjacent positions of a filter.
      example: array with the shape and dtype of the output.
    """
    y = self.node(
      "Conv",
      [x, self._transpose(w, (3, 2, 0, 1)), b],
      example.transpose(0, 3, 1, 2),
      strides=[stride, stride],
    )
    return self._transpose(y, (0, 2, 3, 1))

  def _transpose(self, x: Tensor, order: Sequence[int]) -> Tensor:
    """Adds a transposition of x with the given order of axes."""
    example = x.example.transpose(order)
    return self.node("Transpose", [x], example, perm=list(order))


# ONNX operators of one input, by name of the function of `numpy_ops`.
_UNARY_OPERATORS = {
  "exp": "Exp",
  "log": "Log",
  "cos": "Cos",
  "sqrt": "Sqrt",
  "sign": "Sign",
  "tanh": "Tanh",
  "relu": "Relu",
  "sigmoid": "Sigmoid",
  "softplus": "Softplus",
  "softmax": "Softmax",
  "log_softmax": "LogSoftmax",
}


def trace(
  declaration: network_lib.Declaration, variables: Mapping[str, np.ndarray]
) -> tuple[Graph, typing.Any]:
  """Makes the ONNX graph of a network with given variables.

  Args:
    declaration: declaration of the network.
    variables: variables of the network, by name.

  Returns:
    The graph, with all inputs of the declaration, and the declaration's
    outputs as tensors of the graph.
  """
  graph = Graph()
  layers = layers_lib.Layers(
    graph,
    lambda name, shape, initializer: graph.add_constant(name, variables[name]),
  )
  inputs = [
    graph.add_input(name, spec.shape, spec.dtype)
    for name, spec in zip(_INPUT_NAMES, declaration.inputs, strict=False)
  ]
  return graph, declaration(layers, *inputs)


def _compute_without_warnings(
  compute: Callable[..., np.ndarray], *xs: np.ndarray
) -> np.ndarray:
  """Returns compute(*xs), without NumPy's warnings of invalid values.

  Examples may be outside of a function's domain, such as log(0).
  """
  with np.errstate(all="ignore"):
    return compute(*xs)
