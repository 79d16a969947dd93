"""Standard streams of a command: closed ones, and the last flush."""

import contextlib
import errno
import os
import sys
import typing
from collections.abc import Iterator


def replace_missing() -> None:
  """Opens /dev/null as standard output and error if these are closed.

  A shell closes them by `>&-`. `sys.stdout` is then None, and the next file
  that is opened would get all output of libraries.
  """
  for number, name in ((1, "stdout"), (2, "stderr")):
    if getattr(sys, name) is None:
      discard(number)
      setattr(sys, name, os.fdopen(number, "w"))


def print_line(text: str, stream: typing.TextIO | None = None) -> None:
  """Prints a line; ignores that the stream's reader or terminal is closed.

  Args:
    text: the line, or several ones.
    stream: standard error, or None for standard output.
  """
  with ignoring_closed(stream):
    print(text, file=stream, flush=True)


@contextlib.contextmanager
def ignoring_closed(stream: typing.TextIO | None = None) -> Iterator[None]:
  """Ignores that a `with` block wrote to a stream that has been closed.

  The reader of a pipe has closed it, or the terminal is closed. After that, all
  further output to the stream is discarded.

  Args:
    stream: standard error, or None for standard output.

  Raises:
    OSError: the block failed for another reason, such as a full disk.
  """
  try:
    yield
  except OSError as error:
    if error.errno not in (errno.EPIPE, errno.EIO):
      raise
    discard((stream or sys.stdout).fileno())


@contextlib.contextmanager
def diverting_output(is_active: bool) -> Iterator[None]:
  """Sends all standard output of a `with` block to standard error.

  What an environment or a library prints would be among the command's JSON.

  Args:
    is_active: whether the command prints JSON; otherwise, nothing changes.
  """
  if not is_active:
    yield
    return
  sys.stdout.flush()
  kept = os.dup(1)
  os.dup2(2, 1)
  try:
    yield
  finally:
    with contextlib.suppress(ValueError):  # an environment has closed it
      sys.stdout.flush()
    os.dup2(kept, 1)
    os.close(kept)


@contextlib.contextmanager
def discarding(descriptor: int) -> Iterator[None]:
  """Drops all output of a `with` block to a descriptor, as `discard`."""
  kept = os.dup(descriptor)
  discard(descriptor)
  try:
    yield
  finally:
    os.dup2(kept, descriptor)
    os.close(kept)


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
  """
  for stream in (sys.stdout, sys.stderr):
    with contextlib.suppress(Exception):  # an environment may have closed it
      stream.flush()
  os._exit(status)
