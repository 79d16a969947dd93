"""Output: a text stream whose writes do not block."""

import io
import os
import threading
import typing

# Bytes of queued text from which on further text is dropped.
_MAX_PENDING_BYTES = 1 << 20


class Output(io.TextIOBase):
  """Text stream whose own thread writes to a file descriptor.

  A terminal that was stopped by Ctrl-S, or that no process reads, blocks only
  that thread. Text that the descriptor rejects is dropped; for example, the
  descriptor of a closed terminal rejects all text.

  ```python
  output = Output(sys.stdout)
  output.write("12 steps\\n")  # returns at once
  output.wait_written(timeout_s=1.0)
  ```

  Attributes:
    failed: whether the descriptor has rejected the last write.
    flush_timeout_s: seconds that `flush` may block; 0 at first.
  """

  def __init__(self, stream: typing.TextIO):
    """Starts the thread that writes.

    Args:
      stream: text stream whose file descriptor is written to.
    """
    self._descriptor, self._encoding = stream.fileno(), stream.encoding
    self._is_terminal = stream.isatty()
    self._changed = threading.Condition()
    self._pending = b""
    self.failed, self.flush_timeout_s = False, 0.0
    threading.Thread(target=self._run, name="output", daemon=True).start()

  @property
  def encoding(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
    """Name of the text encoding, such as 'utf-8'."""
    return self._encoding

  def fileno(self) -> int:
    """Returns the number of the file descriptor."""
    return self._descriptor

  def isatty(self) -> bool:
    """Returns whether the file descriptor is a terminal."""
    return self._is_terminal

  def write(self, text: str) -> int:
    """Queues text, or drops it if 1 MiB is queued; returns its length."""
    with self._changed:
      if len(self._pending) < _MAX_PENDING_BYTES:
        self._pending += text.encode(self._encoding, "replace")
        self._changed.notify_all()
    return len(text)

  def flush(self) -> None:
    """Waits until all queued text is written, for `flush_timeout_s` at most."""
    self.wait_written(self.flush_timeout_s)

  def wait_written(self, timeout_s: float) -> bool:
    """Waits until all queued text is written or dropped.

    Args:
      timeout_s: seconds to wait at most.

    Returns:
      Whether no text is queued any more; False after the timeout.
    """
    with self._changed:
      return self._changed.wait_for(lambda: not self._pending, timeout_s)

  def _run(self) -> None:
    """Writes queued text forever; the function of the thread."""
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
