"""Plain warnings: prints log records of a command as lines for its user."""

import logging


def enable() -> None:
  """Prints records as 'warning: message' on stderr, unless logging is set up.

  absl would print 'WARNING:absl:message'.
  """
  handler = logging.StreamHandler()
  handler.setFormatter(_Formatter())
  logging.basicConfig(handlers=[handler])


class _Formatter(logging.Formatter):
  """Formats a record as its level in lower case and its message."""

  def format(self, record: logging.LogRecord) -> str:
    """Returns one line, without a traceback."""
    return f"{record.levelname.lower()}: {record.getMessage()}"
