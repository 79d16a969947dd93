"""Layers in NumPy, of the same variables as those in TensorFlow."""

from collections.abc import Mapping

import numpy as np

# Kinds of torsos that are here; the others act in TensorFlow.
TORSOS = ("mlp", "minatar_cnn")

Variables = Mapping[str, np.ndarray]


class Torso:
  """`q_network.Torso`."""

  def __init__(self, kind: str, sizes: tuple[int, ...]):
    """Waits for variables; of a kind in `TORSOS`."""
    self._convolves = kind == "minatar_cnn"
    self._names = [f"torso/linear_{i}" for i in range(len(sizes))]

  def __call__(
    self, variables: Variables, observation: np.ndarray
  ) -> np.ndarray:
    """Features float32 [B, F] of observations [B, ...]."""
    x = observation
    if self._convolves:
      x = relu(_convolve(variables, "torso/conv_0", x))
    x = x.reshape(len(x), -1).astype(np.float32, copy=False)
    for name in self._names:
      x = relu(linear(variables, name, x))
    return x


def linear(
  variables: Variables,
  name: str,
  x: np.ndarray,
  noise: np.random.Generator | None = None,
) -> np.ndarray:
  """Outputs [B, N] of x [B, F].

  Args:
    variables: by name.
    name: of the layer.
    x: [B, F].
    noise: of a `layers.NoisyLinear`; None: its means.
  """
  w, b = variables[f"{name}/w"], variables[f"{name}/b"]
  if noise is not None:
    f_in = _signed_root(noise.standard_normal(w.shape[0], np.float32))
    f_out = _signed_root(noise.standard_normal(w.shape[1], np.float32))
    w = w + variables[f"{name}/w_std"] * (f_in[:, None] * f_out)
    b = b + variables[f"{name}/b_std"] * f_out
  y = x @ w
  y += b
  return y


def relu(x: np.ndarray) -> np.ndarray:
  """max(x, 0), in place."""
  return np.maximum(x, 0.0, out=x)


def _convolve(variables: Variables, name: str, x: np.ndarray) -> np.ndarray:
  """[B, H - h + 1, W - w + 1, N] of [B, H, W, C], stride 1, no padding."""
  w, b = variables[f"{name}/w"], variables[f"{name}/b"]  # [h, w, C, N]
  windows = np.lib.stride_tricks.sliding_window_view(x, (1, *w.shape[:3]))
  columns = windows.reshape(-1, w[..., 0].size).astype(np.float32)
  kernel = w.reshape(columns.shape[1], -1)
  return (columns @ kernel + b).reshape(*windows.shape[:3], -1)


def _signed_root(x: np.ndarray) -> np.ndarray:
  return np.sign(x) * np.sqrt(np.abs(x))
