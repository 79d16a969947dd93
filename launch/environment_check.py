"""Environment check: makes and steps an environment before a run starts.

The user's code may hang meanwhile. So a background thread reports a long wait,
and ends the process after a timeout, or after a signal that the hanging code
prevents Python from handling.
"""

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator

import ml_collections

from slipway.environments import factory, hanging, specs, user_code
from slipway.launch.display import standard_streams
from slipway.launch.processes import signals

# Seconds after which the user is informed that the command waits.
_NOTICE_AFTER_S = 15.0
_POLL_S = 0.2  # seconds between two checks for a signal


def make_spec(
  config: ml_collections.ConfigDict,
  command: str,
  clean_up: Callable[[], None],
  signal_handler: signals.Signals | None,
) -> specs.EnvironmentSpec:
  """Returns the spec of a config's environments; see `factory.make_spec`.

  If that takes longer than 15 s, one line on standard error names the
  environment. If its reset or step takes longer than `step_timeout_s`, this
  process ends with the line of that error, and with exit status 2.

  Args:
    config: section `environment` of a config.
    command: name of the user's command, with which each line begins.
    clean_up: function that kills what the environment has started; it is called
      if the environment hangs.
    signal_handler: handler of the signals that this process receives, or None
      if they have Python's own handlers.

  Raises:
    Exception: as `factory.make_spec`.
  """
  with (
    _watched(config, command, signal_handler),
    _hanging_ends_process(command, clean_up),
    hanging.detect_hanging(config.step_timeout_s),
  ):
    return factory.make_spec(config)


@contextlib.contextmanager
def _watched(
  config: ml_collections.ConfigDict,
  command: str,
  signal_handler: signals.Signals | None,
) -> Iterator[None]:
  """Runs `_watch` in a background thread while the block runs."""
  ended = threading.Event()
  watcher = threading.Thread(
    target=_watch, args=(config, command, signal_handler, ended), daemon=True
  )
  watcher.start()
  try:
    yield
  finally:
    ended.set()
    watcher.join()


def _watch(
  config: ml_collections.ConfigDict,
  command: str,
  signal_handler: signals.Signals | None,
  ended: threading.Event,
) -> None:
  """Reports a long wait, and ends the process after a stop signal.

  Args:
    config: as for `make_spec`.
    command: as for `make_spec`.
    signal_handler: as for `make_spec`.
    ended: event that ends the function.
  """
  notice_s = time.monotonic() + _NOTICE_AFTER_S
  while not ended.wait(_POLL_S):
    if signal_handler is not None:
      signal_handler.end_if_stopped()
    if time.monotonic() > notice_s:
      notice_s = float("inf")
      print(
        f"{command}: still waits after {_NOTICE_AFTER_S:.0f} s for the "
        f"environment {factory.get_name_and_kwargs(config)[0]}, which is made, "
        "reset, stepped and closed before the start: Ctrl-C ends the command; "
        f"config.environment.step_timeout_s={config.step_timeout_s:g} limits "
        "reset and step (0: no limit)",
        file=sys.stderr,
        flush=True,
      )


@contextlib.contextmanager
def _hanging_ends_process(
  command: str, clean_up: Callable[[], None]
) -> Iterator[None]:
  """Ends this process if a thread raises a UserCodeError in the block.

  The main thread hangs in user code, so it can't raise the error.

  Args:
    command: as for `make_spec`.
    clean_up: as for `make_spec`.
  """
  before = threading.excepthook

  def end_process(args: threading.ExceptHookArgs) -> None:
    """Is `threading.excepthook` meanwhile."""
    if not isinstance(args.exc_value, user_code.UserCodeError):
      before(args)
      return
    print(f"{command}: {args.exc_value}", file=sys.stderr)
    try:
      clean_up()
    finally:
      standard_streams.exit_process(2)

  threading.excepthook = end_process
  try:
    yield
  finally:
    threading.excepthook = before
