"""Errors of code that is the user's: environments and config files.

User code may raise any BaseException: besides SystemExit there are those of
libraries, such as a panic of Rust code or asyncio.CancelledError. A
KeyboardInterrupt alone is the terminal's, and is passed on.

Such an error is shown as one line and the traceback of the user's own code.
Frames of Slipway and of the libraries that call the user's code are left out.
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

_HOUSE = pathlib.Path(__file__).resolve().parents[1]
# configs/ is not here: a file in it may be the user's.
_HOUSE_PACKAGES = frozenset(("agents", "environments", "launch", "replay"))
_LIBRARIES = frozenset(
  ("absl", "ale_py", "gymnasium", "ml_collections", "slipway")
)
_STANDARD_LIBRARY = pathlib.Path(sysconfig.get_paths()["stdlib"]).resolve()
_INSTALLED = ("site-packages", "dist-packages")


class UserCodeError(RuntimeError):
  """Code of the user's failed.

  Attributes:
    line: what failed and why.
    traceback: of the user's own code, with the error; '' if nothing was raised.
  """

  def __init__(self, line: str, cause: BaseException | None = None):
    """Keeps what to show.

    Args:
      line: what failed and why.
      cause: the error that the user's code raised; None: it raised none.
    """
    super().__init__(line)
    self.line = line
    self.traceback = format_traceback(cause) if cause else ""

  def __str__(self) -> str:
    """Returns the line, followed by the traceback."""
    return f"{self.line}\n{self.traceback}".rstrip()


@contextlib.contextmanager
def exits_raised() -> Iterator[None]:
  """Makes `os._exit` raise SystemExit in this thread while the block runs.

  User code would end the process by it without a message, and with status 0 as
  if all were well. Other threads, and forks, still end their process.
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
    value: whose `__repr__` or `__str__` may be the user's code.
    to_text: repr or str.
  """
  try:
    return to_text(value)
  except KeyboardInterrupt:
    raise
  except BaseException:
    return f"<unprintable {type(value).__name__} object>"


def is_in_user_code(error: BaseException) -> bool:
  """Returns whether a frame of the user's own code raised or passed an error.

  A syntax error is raised where the user's code is imported, but is in it.
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
  """Imports a part of the user's that a config names.

  Args:
    shown: begins the message of an error: the field with its value.
    name: 'module:Name'; the module is found as Python's imports are, and in the
      working directory of the command.
    wanted: what the name has to be, for the message.

  Raises:
    ValueError: one line: there is no such module or name.
    UserCodeError: the module itself failed.
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
  """Returns the line of `file` where an error happened; None: elsewhere."""
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

  Where there are none, the frames of the libraries that failed are kept.
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
      frames = [f for f in one.stack if not _is_house_frame(f)]
    one.stack[:] = frames
    pending += [e for e in (one.__cause__, one.__context__) if e is not None]
  return "".join(whole.format())


def format_stack(
  innermost: types.FrameType | None, outermost: types.FrameType | None = None
) -> str:
  """Returns where the user's own code is in the stack of a thread.

  Args:
    innermost: frame; None: the thread has ended.
    outermost: frame of which only those that it called count; None: all do.
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
  return "".join(["It is here (most recent call last):\n", *lines])


def _is_house_frame(frame: traceback.FrameSummary) -> bool:
  path = pathlib.Path(frame.filename).resolve()
  if not path.is_relative_to(_HOUSE):
    return False
  return path.relative_to(_HOUSE).parts[0] in _HOUSE_PACKAGES


def _is_own_frame(frame: traceback.FrameSummary) -> bool:
  parts = pathlib.Path(frame.filename).resolve().parts
  return _is_user_frame(frame) and not any(x in parts for x in _INSTALLED)


def _is_user_frame(frame: traceback.FrameSummary) -> bool:
  if frame.filename.startswith("<frozen ") or _is_house_frame(frame):
    return False
  path = pathlib.Path(frame.filename).resolve()
  for folder in _INSTALLED:
    if folder in path.parts:
      return path.parts[path.parts.index(folder) + 1] not in _LIBRARIES
  return not path.is_relative_to(_STANDARD_LIBRARY)
