"""Standard streams of a command: closed ones, and the last flush."""

import contextlib
import os
import sys
import typing


def replace_missing() -> None:
  """Opens /dev/null as standard output and error if these are closed.

  A shell closes them by `>&-`. `sys.stdout` is then None, and the next file
  that is opened would get all output of libraries.
  """
  for number, name in ((1, "stdout"), (2, "stderr")):
    if getattr(sys, name) is None:
      _discard(number)
      setattr(sys, name, os.fdopen(number, "w"))


def print_line(text: str) -> None:
  """Prints a line; ignores that the reader of standard output has closed it.

  After that, all further output is discarded.

  Args:
    text: the line, or several ones.
  """
  try:
    print(text, flush=True)
  except BrokenPipeError:
    discard_output()


def discard_output() -> None:
  """Redirects standard output to /dev/null, also in processes started later."""
  _discard(sys.stdout.fileno())


def exit_process(status: int) -> typing.NoReturn:
  """Flushes the standard streams, and exits this process at once.

  Exit handlers do not run and threads are not waited for, so code of the user
  can't prevent the exit.

  Args:
    status: exit status of the process.
  """
  for stream in (sys.stdout, sys.stderr):
    with contextlib.suppress(Exception):  # an environment may have closed it
      stream.flush()
  os._exit(status)


def _discard(number: int) -> None:
  """Makes /dev/null the file of a descriptor that child processes inherit."""
  os.dup2(os.open(os.devnull, os.O_WRONLY), number)
  os.set_inheritable(number, True)
