"""Errors of user code: environments, wrappers, networks, hooks, config files.

User code may raise any BaseException, such as SystemExit, the panic of a Rust
library or asyncio.CancelledError. Only KeyboardInterrupt, which the terminal
sends, is passed on unchanged.

Other errors are shown as one line and the traceback of the user's own code,
without the frames of Slipway and of the libraries that call user code.
"""

import contextlib
import importlib
import itertools
import os
import pathlib
import sysconfig
import threading
import traceback
import types
import typing
from collections.abc import Callable, Iterator

_SLIPWAY = pathlib.Path(__file__).resolve().parents[1]
# Without configs/, since users may add files to it.
_SLIPWAY_PACKAGES = frozenset(("agents", "environments", "launch", "replay"))
_LIBRARIES = frozenset(
  ("absl", "ale_py", "gymnasium", "ml_collections", "slipway")
)
_STANDARD_LIBRARY = pathlib.Path(sysconfig.get_paths()["stdlib"]).resolve()
_INSTALLED = ("site-packages", "dist-packages")


class UserCodeError(RuntimeError):
  """User code failed.

  Attributes:
    line: one line with the failed object and the reason.
    traceback: traceback of the user's own code; '' if it raised no error.
  """

  def __init__(self, line: str, cause: BaseException | None = None):
    """Formats the traceback of `cause`.

    Args:
      line: one line with the failed object and the reason.
      cause: the error that the user's code raised; None: it raised none.
    """
    super().__init__(line)
    self.line = line
    self.traceback = format_traceback(cause) if cause else ""

  def __str__(self) -> str:
    """Returns the line, followed by the traceback."""
    return f"{self.line}\n{self.traceback}".rstrip()


@contextlib.contextmanager
def exit_as_error() -> Iterator[None]:
  """Makes `os._exit` raise SystemExit in this thread while the block runs.

  User code that calls it would end the process without a message, possibly with
  status 0. In other threads and in forks, `os._exit` still ends the process.
  """
  end_process, owner = os._exit, (os.getpid(), threading.get_ident())

  def raise_exit(status: int) -> typing.NoReturn:
    if (os.getpid(), threading.get_ident()) != owner:
      end_process(status)
    raise SystemExit(f"os._exit({status})")

  os._exit = raise_exit
  try:
    yield
  finally:
    os._exit = end_process


def describe(error: BaseException) -> str:
  """Returns an error's type and the first line of its text."""
  lines = show(error, str).strip().splitlines()
  return ": ".join([type(error).__name__, *lines[:1]])


def show(value: object, to_text: Callable[[object], str] = repr) -> str:
  """Returns the text of a user's object, or its type if that raises an error.

  Args:
    value: object whose `__repr__` and `__str__` may be user code.
    to_text: `repr` or `str`.
  """
  try:
    return to_text(value)
  except KeyboardInterrupt:
    raise
  except BaseException:
    return f"<unprintable {type(value).__name__} object>"


def is_in_user_code(error: BaseException) -> bool:
  """Returns whether an error's traceback has a frame of the user's own code.

  A syntax error counts too: Python raises it where the user's code is imported.
  """
  frames = traceback.extract_tb(error.__traceback__)
  return isinstance(error, SyntaxError) or any(map(_is_user_frame, frames))


def wrap(error: BaseException) -> UserCodeError:
  """Returns an error of code that is not installed as a `UserCodeError`.

  Any other error is raised, and so is a KeyboardInterrupt: it is the
  terminal's, or an error of Slipway or of a library.
  """
  own = any(map(_is_own_frame, traceback.extract_tb(error.__traceback__)))
  if isinstance(error, KeyboardInterrupt) or not own:
    raise error
  return UserCodeError(f"code of your own raised {describe(error)}", error)


def load(shown: str, name: str, wanted: str) -> typing.Any:
  """Imports an object of the user's code that a config names.

  Args:
    shown: the field with its value, which begin the error message.
    name: 'module:Name'; the module is on Python's path or in the working
      directory of the command.
    wanted: description of a valid object, for the error message.

  Raises:
    ValueError: the module or the name does not exist.
    UserCodeError: the module's own code failed.
  """
  module, _, attribute = name.partition(":")
  try:
    return getattr(importlib.import_module(module), attribute)
  except KeyboardInterrupt:
    raise
  except BaseException as error:
    line = (
      f"{shown} can't be imported ({describe(error)}), so nothing could run: "
      f"give 'module:Name' of {wanted}, in a module on the Python path"
    )
    is_missing = isinstance(error, ModuleNotFoundError) and (
      f"{module}.".startswith(f"{error.name}.")
    )
    if is_missing or not is_in_user_code(error):
      raise ValueError(line) from error
    raise UserCodeError(line, error) from error


def find_line(error: BaseException, file: str) -> int | None:
  """Returns the line of `file` in which an error occurred; None: in no line."""
  if isinstance(error, SyntaxError) and error.filename == file:
    return error.lineno
  lines = [
    frame.lineno
    for frame in traceback.extract_tb(error.__traceback__)
    if frame.filename == file
  ]
  return lines[-1] if lines else None


def format_traceback(error: BaseException) -> str:
  """Returns an error's traceback with the frames of the user's own code only.

  If there are none, it has the frames of the libraries that failed.
  """
  whole = traceback.TracebackException.from_exception(error)
  pending, seen = [whole], set()
  while pending:
    one = pending.pop()
    if id(one) in seen:
      continue
    seen.add(id(one))
    frames = [frame for frame in one.stack if _is_user_frame(frame)]
    if not frames and one.exc_type is not SyntaxError:
      frames = [f for f in one.stack if not _is_slipway_frame(f)]
    one.stack[:] = frames
    pending += [e for e in (one.__cause__, one.__context__) if e is not None]
  return "".join(whole.format())


def format_stack(
  innermost: types.FrameType | None, outermost: types.FrameType | None = None
) -> str:
  """Formats the frames of the user's own code in the stack of a thread.

  Args:
    innermost: innermost frame of the stack; None: the thread has ended.
    outermost: frame at which the stack is cut, excluded; None: the whole stack.
  """
  called = traceback.StackSummary.extract(
    itertools.takewhile(
      lambda pair: pair[0] is not outermost, traceback.walk_stack(innermost)
    )
    if innermost is not None
    else ()
  )
  own = list(filter(_is_user_frame, reversed(called)))
  if not own:
    return ""
  lines = traceback.format_list(own)
  return "".join(["Current line (most recent call last):\n", *lines])


def _is_slipway_frame(frame: traceback.FrameSummary) -> bool:
  path = pathlib.Path(frame.filename).resolve()
  if not path.is_relative_to(_SLIPWAY):
    return False
  return path.relative_to(_SLIPWAY).parts[0] in _SLIPWAY_PACKAGES


def _is_own_frame(frame: traceback.FrameSummary) -> bool:
  parts = pathlib.Path(frame.filename).resolve().parts
  return _is_user_frame(frame) and not any(x in parts for x in _INSTALLED)


def _is_user_frame(frame: traceback.FrameSummary) -> bool:
  if frame.filename.startswith("<frozen ") or _is_slipway_frame(frame):
    return False
  path = pathlib.Path(frame.filename).resolve()
  for folder in _INSTALLED:
    if folder in path.parts:
      return path.parts[path.parts.index(folder) + 1] not in _LIBRARIES
  return not path.is_relative_to(_STANDARD_LIBRARY)
