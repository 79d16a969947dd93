"""Signals: the launcher's handlers, and how nodes outlive the same signals."""

import contextlib
import os
import signal
import typing
from collections.abc import Callable

# Signals to the launcher that stop the run in the stop order.
STOP_SIGNALS = (
  signal.SIGINT,
  signal.SIGTERM,
  signal.SIGHUP,
  signal.SIGQUIT,
  # Batch systems, such as Slurm and SGE, announce the end of a job by these.
  signal.SIGUSR2,
  signal.SIGXCPU,
)
# Signals that a terminal or a batch system sends to a whole process group: the
# stop signals, and SIGUSR1 for a snapshot. Only the launcher acts on them.
GROUP_SIGNALS = (*STOP_SIGNALS, signal.SIGUSR1)
# Signal by which the runner makes a node save and end.
SHUTDOWN_SIGNAL = signal.SIGRTMIN


# The original `os._exit`, because `user_code.exit_as_error` replaces it.
_exit_now = os._exit


def outlive() -> None:
  """Makes this process outlive `GROUP_SIGNALS`, but nothing that it starts.

  The handlers do nothing. To ignore a signal instead would be inherited by all
  programs that an environment starts, which could then not be terminated.
  """
  for number in GROUP_SIGNALS:
    signal.signal(number, _do_nothing)
    signal.siginterrupt(number, False)
  signal.pthread_sigmask(signal.SIG_UNBLOCK, GROUP_SIGNALS)


def reset_in_forks(*handlers: Callable[[int, typing.Any], None]) -> None:
  """Makes processes that this one forks end by `GROUP_SIGNALS` as usual.

  Args:
    handlers: further handlers to remove there.
  """
  ours = (_do_nothing, *handlers)

  def reset() -> None:
    for number in GROUP_SIGNALS:
      if signal.getsignal(number) in ours:
        signal.signal(number, signal.SIG_DFL)

  os.register_at_fork(after_in_child=reset)


def _do_nothing(number: int, frame: typing.Any) -> None:
  """Is a handler."""


class SecondInterrupt(KeyboardInterrupt):
  """A second Ctrl-C, which kills the run at once.

  It is a class of its own because of CPython (3.11, too): once a plain
  KeyboardInterrupt has left a text that `eval` or `exec` runs, as in many
  imports, the process ends by SIGINT instead of with its exit status.
  """


def _interrupt() -> None:
  """Raises SecondInterrupt: the default effect of a second Ctrl-C."""
  raise SecondInterrupt


class Signals:
  """The launcher's handlers of signals that stop the run or request a snapshot.

  Processes that this one forks, such as environments, do not have the handlers.

  Before `begin_run`, a stop signal ends this process at once, with a message
  and exit status 0, because no node has been started.

  SIGHUP stays ignored if it was ignored before, as by `nohup`. SIGCHLD does
  not, because the kernel would then discard the exit statuses of all children.

  Attributes:
    first: the first stop signal that was received, or None before that.
    snapshot_requested: whether SIGUSR1 has requested a snapshot; the caller
      that begins the snapshot sets it to False.
    run_started: whether the run's nodes may have started, so that its folder is
      kept; set by the controller.
    clean_up: function that kills what this process has started, which a stop
      signal before `begin_run` calls; set by the caller.
  """

  def __init__(self):
    """Installs the handlers; must be called in the main thread."""
    self.first: signal.Signals | None = None
    self.snapshot_requested = False
    self.run_started = False
    self._interrupted_again = False
    self._run_has_begun = False
    self.clean_up: Callable[[], None] = lambda: None
    self._on_second_interrupt: Callable[[], None] = _interrupt
    self._set_handlers()
    reset_in_forks(self._handle_stop, self._handle_save)

  def begin_run(self) -> None:
    """Makes stop signals stop the run in order, instead of ending this process.

    To be called when the run begins.
    """
    self._run_has_begun = True
    self._set_handlers()  # set again, because Ray replaces them on connecting

  def set_second_interrupt_handler(self, handler: Callable[[], None]) -> None:
    """Sets the function that a second Ctrl-C calls.

    Until this call, a second Ctrl-C raises SecondInterrupt. Code that runs at
    that time, such as an import, may catch it, and the run would continue.
    Therefore this method calls `handler` if a second Ctrl-C has already come.

    Args:
      handler: function without arguments, which kills the run.
    """
    self._on_second_interrupt = handler
    if self._interrupted_again:
      handler()

  def ignore(self) -> None:
    """Makes this process ignore stop signals, because the run has ended.

    A late Ctrl-C would otherwise replace the exit status: Python's own handlers
    are gone before the interpreter ends.
    """
    for number in STOP_SIGNALS:
      signal.signal(number, signal.SIG_IGN)

  def _set_handlers(self) -> None:
    """Installs the signal handlers."""
    for number in STOP_SIGNALS:
      if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
        continue
      signal.signal(number, self._handle_stop)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGUSR1, self._handle_save)

  def _handle_stop(self, number: int, frame: typing.Any) -> None:
    """Handles a stop signal: records the first one, and a second Ctrl-C."""
    if not self._run_has_begun:
      # An import in progress could catch an exception, so none is raised.
      text = (
        f"train: ended by {signal.Signals(number).name} before anything began"
      )
      with contextlib.suppress(OSError):  # the terminal may be closed
        os.write(2, f"{text}\n".encode())
      self.clean_up()
      _exit_now(0)
    is_second = self.first is not None
    self.first = self.first or signal.Signals(number)
    if is_second and number == signal.SIGINT:
      self._interrupted_again = True
      self._on_second_interrupt()

  def _handle_save(self, number: int, frame: typing.Any) -> None:
    """Handles SIGUSR1: records the request of a snapshot."""
    self.snapshot_requested = True
