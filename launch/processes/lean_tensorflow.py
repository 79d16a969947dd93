"""Lean TensorFlow: imports it without packages that no process here needs."""

import contextlib
import gc
import importlib
import sys
from collections.abc import Iterator

# Packages that TensorFlow imports if they are installed: JAX for TensorFlow
# Lite's converter; Keras, which `tf.keras` imports once it is used; h5py,
# Pillow and SciPy for TensorFlow's own older copy of Keras.
_OPTIONAL = ("jax", "keras", "h5py", "PIL", "scipy")


def import_tensorflow() -> None:
  """Imports TensorFlow in about two thirds of the time.

  Afterwards the packages that were left out can be imported as usual.
  """
  hidden = [name for name in _OPTIONAL if name not in sys.modules]
  for name in hidden:  # None makes its import fail
    sys.modules[name] = None  # pyright: ignore[reportArgumentType]
  try:
    with paused_garbage_collection():
      importlib.import_module("tensorflow")
  finally:
    for name in hidden:
      del sys.modules[name]


@contextlib.contextmanager
def paused_garbage_collection() -> Iterator[None]:
  """Context without garbage collections, which find nothing among imports."""
  was_enabled = gc.isenabled()
  gc.disable()
  try:
    yield
  finally:
    if was_enabled:
      gc.enable()
