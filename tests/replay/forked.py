"""Processes forked from one that has imported TensorFlow and Reverb."""

import contextlib
import multiprocessing
import typing
from collections.abc import Callable, Iterator

_CONTEXT = multiprocessing.get_context("forkserver")


class Forked:
  """A process and its messages to this one."""

  def __init__(self, function: Callable[..., None], *args: typing.Any):
    """Starts `function(send, *args)` in a process."""
    # Other tests may have set others. It matters for a server's start only.
    _CONTEXT.set_forkserver_preload(["reverb", "tests.agents.updates.given"])
    self._messages, messages = _CONTEXT.Pipe(duplex=False)
    self._process = _CONTEXT.Process(
      target=_run, args=(function, messages, *args), daemon=True
    )
    self._process.start()
    messages.close()

  def receive(self) -> typing.Any:
    """Waits for the next message; None: the process has ended."""
    try:
      return self._messages.recv()
    except (EOFError, OSError):  # it may end in the middle of a message
      return None

  def is_alive(self) -> bool:
    """Whether the process has not ended."""
    return self._process.is_alive()

  def kill(self) -> None:
    """Kills the process with SIGKILL and waits for its end."""
    self._process.kill()
    self._process.join()

  def close(self) -> None:
    """Kills the process and waits for its end."""
    self.kill()
    self._messages.close()


def _run(function, messages, *args):
  function(messages.send, *args)


@contextlib.contextmanager
def running(
  function: Callable[..., None], *args: typing.Any
) -> Iterator[Forked]:
  """A process, once it has sent its first message; killed in the end."""
  forked = Forked(function, *args)
  try:
    assert forked.receive() is not None, "it ended before it was ready"
    yield forked
  finally:
    forked.close()
