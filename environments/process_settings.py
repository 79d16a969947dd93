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
from collections.abc import Iterator

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

  float_errors, filters = np.geterr(), list(warnings.filters)
  handlers = {number: signal.getsignal(number) for number in _SIGNALS}
  try:
    yield
  finally:
    raising = {
      k: float_errors[k] for k, v in np.geterr().items() if v == "raise"
    }
    np.seterr(**raising)
    now: typing.Any = warnings.filters  # a list, despite its annotation
    kept = [f for f in now if f[0] != "error" or f in filters]
    if len(kept) < len(now):
      now[:] = kept
      with warnings.catch_warnings():
        pass  # makes Python forget which warnings the removed filters matched
    # Python allows only the main thread to set handlers. It can't restore those
    # that Python code did not set.
    if threading.current_thread() is threading.main_thread():
      for number, handler in handlers.items():
        if handler is not None and signal.getsignal(number) != handler:
          signal.signal(number, handler)
