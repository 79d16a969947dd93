"""Plain warnings: prints log records as lines for the user of a command."""

import logging


def enable() -> None:
  """Prints log records as 'warning: message' on standard error from now on.

  Without this, absl prints 'WARNING:absl:message'. If the root logger has a
  handler already, nothing changes.
  """
  handler = logging.StreamHandler()
  handler.setLevel(logging.WARNING)
  handler.setFormatter(_Formatter())
  logging.basicConfig(handlers=[handler])


class _Formatter(logging.Formatter):
  """Formatter of log records as 'level: message', the level in lower case."""

  def format(self, record: logging.LogRecord) -> str:
    """Returns 'level: message', without the traceback of an error."""
    return f"{record.levelname.lower()}: {record.getMessage()}"
