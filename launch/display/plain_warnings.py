"""Plain warnings: prints log records as lines for the user of a command."""

import logging

from slipway.environments import user_code

# The longest line of a message, which may quote an error of user code.
_LONGEST_LINE = 2_000


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
    message = user_code.make_printable(record.getMessage(), _LONGEST_LINE)
    return f"{record.levelname.lower()}: {message}"
