"""Hidden JAX: imports TensorFlow without JAX, which TensorFlow doesn't need.

TensorFlow Lite's converter imports JAX if it is installed, which takes a fifth
of the time of all imports.
"""

import contextlib
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def hidden_jax() -> Iterator[None]:
  """Makes `import jax` fail inside of the block, unless it is imported."""
  if "jax" in sys.modules:
    yield
    return
  sys.modules["jax"] = None  # pyright: ignore[reportArgumentType]
  try:
    yield
  finally:
    del sys.modules["jax"]  # an environment may need it
