"""Error text: formats errors for messages, which have one line."""


def one_line(error: BaseException) -> str:
  """Returns an error's message in one line, or its type without a message."""
  return " ".join(str(error).split()) or type(error).__name__
