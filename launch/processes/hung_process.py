"""Hung process: ends a process in which an environment's call never returns."""

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator

from slipway.environments import hanging, user_code
from slipway.launch.display import standard_streams


@contextlib.contextmanager
def ending(
  timeout_s: float, status: int, command: str, clean_up: Callable[[], None]
) -> Iterator[None]:
  """Ends this process if an environment's reset or step takes too long.

  The thread of that call hangs in user code, so no error can be raised in it.
  One line on standard error describes the call, and its stack follows.

  Args:
    timeout_s: seconds that a call in the `with` block may take; 0 for no limit
      other than that of `hanging.detect_hanging` in a thread of the block.
    command: name of the user's command, with which the line begins.
    clean_up: function that is called before the line is printed, which kills
      the processes that this one has started.
  """
  before = threading.excepthook

  def end_process(args: threading.ExceptHookArgs) -> None:
    """Is `threading.excepthook` meanwhile."""
    if not isinstance(args.exc_value, user_code.UserCodeError):
      before(args)
      return
    try:
      clean_up()
    finally:
      print(f"{command}: {args.exc_value}", file=sys.stderr)
      standard_streams.exit_process(status)

  threading.excepthook = end_process
  try:
    with hanging.detect_hanging(timeout_s):
      yield
  finally:
    threading.excepthook = before
