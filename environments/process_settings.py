"""Process settings: undoes changes of user code that would break Slipway.

User code shares its process with Slipway. An environment's constructor that
makes NumPy or `warnings` raise exceptions, or that ignores SIGINT, would change
Slipway's own code, too: its networks would fail on an underflow, an import on a
DeprecationWarning, and Ctrl-C would no longer stop the run.
"""

import contextlib
import signal
import threading
import typing
import warnings
from collections.abc import Iterator, Mapping

# Signals that Slipway handles or sends.
_SIGNALS = (
  signal.SIGINT,
  signal.SIGTERM,
  signal.SIGHUP,
  signal.SIGQUIT,
  signal.SIGUSR1,
  signal.SIGUSR2,
  signal.SIGCHLD,
)


@contextlib.contextmanager
def preserve() -> Iterator[None]:
  """Undoes changes of process-wide settings that a `with` block makes.

  After the block, NumPy's floating-point errors and Python's warnings raise
  exceptions only where they did before, and signals have their handlers from
  before. Other changes remain, such as warnings that user code ignores.
  """
  # Imported late: `slipway train` starts its fork server without NumPy.
  import numpy as np

  float_errors = np.geterr()
  filters = list(warnings.filters)
  handlers = {number: signal.getsignal(number) for number in _SIGNALS}
  try:
    yield
  finally:
    _restore_float_errors(float_errors)
    _restore_filters(filters)
    # Python allows only the main thread to set handlers.
    if threading.current_thread() is threading.main_thread():
      _restore_handlers(handlers)


def _restore_float_errors(before: Mapping[str, typing.Any]) -> None:
  """Restores the settings of `np.seterr` that have become 'raise'.

  Args:
    before: earlier result of `np.geterr`.
  """
  import numpy as np

  now = np.geterr()
  np.seterr(**{kind: before[kind] for kind in now if now[kind] == "raise"})


def _restore_filters(before: list[typing.Any]) -> None:
  """Removes new warning filters that raise exceptions.

  Args:
    before: earlier copy of `warnings.filters`.
  """
  filters: typing.Any = warnings.filters  # a list, despite its annotation
  kept = [f for f in filters if f[0] != "error" or f in before]
  if len(kept) == len(filters):
    return
  filters[:] = kept
  with warnings.catch_warnings():
    pass  # makes Python forget which warnings the removed filters matched


def _restore_handlers(before: dict[signal.Signals, typing.Any]) -> None:
  """Restores signal handlers that have changed.

  Args:
    before: earlier handlers by signal; None for a handler that Python code did
      not set, which can't be restored.
  """
  for number, handler in before.items():
    if handler is not None and signal.getsignal(number) != handler:
      signal.signal(number, handler)
