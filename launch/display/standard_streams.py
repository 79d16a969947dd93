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
      discard(number)
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
    discard(sys.stdout.fileno())


def discard(descriptor: int) -> None:
  """Drops all further output to a descriptor, also of processes started later.

  Args:
    descriptor: file descriptor, open or closed, which becomes /dev/null.
  """
  os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
  os.set_inheritable(descriptor, True)


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
