"""Lean TensorFlow: imports TensorFlow without unused optional packages."""

import contextlib
import gc
import importlib
import sys
from collections.abc import Iterator

# Packages that TensorFlow imports if they are installed, and that Slipway's use
# of TensorFlow does not need: JAX for TensorFlow Lite's converter; Keras, which
# `tf.keras` imports once it is used; h5py, Pillow and SciPy for TensorFlow's
# own older copy of Keras.
_OPTIONAL = ("jax", "keras", "h5py", "PIL", "scipy")


def import_tensorflow() -> None:
  """Imports TensorFlow without its optional packages.

  This saves about a third of the time. Afterwards, the optional packages can be
  imported as usual.
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
  """Pauses Python's garbage collector during a `with` block of imports.

  Imports leave almost nothing to collect, so collections only cost time.
  """
  was_enabled = gc.isenabled()
  gc.disable()
  try:
    yield
  finally:
    if was_enabled:
      gc.enable()
