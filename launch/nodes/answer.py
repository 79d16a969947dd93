"""An answer of the control node, which may yet have to start."""

import contextlib
import time
import typing
from collections.abc import Callable

_WITHIN_S = 30.0
_AGAIN_S = 0.1


def of(method: Callable[..., typing.Any], *args: typing.Any) -> typing.Any:
  """Asks until there is an answer.

  Args:
    method: of a Courier client with a call timeout, or of the node itself.
    *args: of the method.

  Raises:
    RuntimeError: there was none for long.
  """
  end_s = time.monotonic() + _WITHIN_S
  while time.monotonic() < end_s:
    with contextlib.suppress(Exception):
      return method(*args)
    time.sleep(_AGAIN_S)
  raise RuntimeError(
    f"control has not answered for {_WITHIN_S:.0f} s, so this node can't know "
    "where to begin: its log may say why"
  )
