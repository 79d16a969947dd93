"""Output: a text stream whose writes do not block."""

import io
import os
import threading
import typing

_MAX_PENDING_BYTES = 1 << 20


class Output(io.TextIOBase):
  """Writes text to the descriptor of a stream, in a thread of its own.

  A terminal that was stopped by Ctrl-S, or that no process reads, blocks its
  writers. Here it only blocks the thread. Text that the descriptor rejects, as
  that of a closed terminal does, is dropped.

  ```python
  output = Output(sys.stdout)
  output.write("12 steps\\n")  # returns at once
  output.wait_written(timeout_s=1.0)
  ```

  Attributes:
    failed: whether the descriptor has rejected the last write.
  """

  def __init__(self, stream: typing.TextIO):
    """Starts the thread.

    Args:
      stream: a text stream with a file descriptor.
    """
    self._descriptor, self._encoding = stream.fileno(), stream.encoding
    self._is_terminal = stream.isatty()
    self._changed = threading.Condition()
    self._pending = b""
    self.failed = False
    threading.Thread(target=self._run, name="output", daemon=True).start()

  @property
  def encoding(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
    """Returns the stream's encoding."""
    return self._encoding

  def fileno(self) -> int:
    """Returns the stream's descriptor."""
    return self._descriptor

  def isatty(self) -> bool:
    """Returns whether the stream is a terminal."""
    return self._is_terminal

  def write(self, text: str) -> int:
    """Queues text; drops it if too much is queued."""
    with self._changed:
      if len(self._pending) < _MAX_PENDING_BYTES:
        self._pending += text.encode(self._encoding, "replace")
        self._changed.notify_all()
    return len(text)

  def wait_written(self, timeout_s: float) -> bool:
    """Waits until all text is written or dropped; False after a timeout.

    Args:
      timeout_s: seconds to wait at most.
    """
    with self._changed:
      return self._changed.wait_for(lambda: not self._pending, timeout_s)

  def _run(self) -> None:
    """Writes the queued text; runs in the thread."""
    while True:
      with self._changed:
        self._changed.wait_for(lambda: self._pending)
        text = self._pending
      try:
        written, self.failed = os.write(self._descriptor, text), False
      except OSError:
        written, self.failed = len(text), True
      with self._changed:
        self._pending = self._pending[written:]
        self._changed.notify_all()
