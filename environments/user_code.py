"""User code: loads the user's own code, and reports its errors.

User code means environments, wrappers, networks, hooks and config files that
are not part of Slipway. Such code may raise any BaseException, such as
SystemExit, the panic of a Rust library or asyncio.CancelledError. Only
KeyboardInterrupt, which the terminal sends, is passed on unchanged.

Other errors are shown as one line and the traceback of the user's own code,
without the frames of Slipway and of the libraries that call user code.
"""

import contextlib
import difflib
import importlib
import itertools
import os
import pathlib
import sys
import sysconfig
import threading
import traceback
import types
import typing
from collections.abc import Callable, Iterator

from slipway.environments import process_settings

# Folder of the package `slipway`.
_SLIPWAY = pathlib.Path(__file__).resolve().parents[1]
# Folders of `slipway` whose code is not user code. `configs/` is not among
# them, since users may add files to it.
_SLIPWAY_PACKAGES = frozenset(("agents", "environments", "launch", "replay"))
# Installed packages whose code is not user code, since they call user code.
_LIBRARIES = frozenset(
  ("absl", "ale_py", "gymnasium", "ml_collections", "slipway")
)
# Folder of Python's standard library.
_STANDARD_LIBRARY = pathlib.Path(sysconfig.get_paths()["stdlib"]).resolve()
# Names of the user's modules that are being imported, the newest one last.
_importing: list[str] = []
# Lines of a text of user code that are shown of its beginning and of its end.
_MOST_LINES = 50
# The longest line of an error about user code, in characters.
_LONGEST_LINE = 2_000
# Names of the folders in which pip and Debian install packages.
_INSTALLED = ("site-packages", "dist-packages")


class UserCodeError(RuntimeError):
  """The user's own code raised an error, or returned an unusable value.

  Attributes:
    line: text without line breaks, with the failed object and the reason.
    traceback: traceback of the user's own code, or '' if it raised no error.
  """

  def __init__(self, line: str, cause: BaseException | None = None):
    """Makes the error, and formats the traceback of its cause.

    Args:
      cause: the error that the user's code raised, or None if it raised none.
    """
    self.line = make_printable(line, _LONGEST_LINE)
    super().__init__(self.line)
    self.traceback = format_traceback(cause) if cause else ""

  def __str__(self) -> str:
    """Returns `line`, followed by the traceback of the user's code, if any."""
    return f"{self.line}\n{self.traceback}".rstrip()


@contextlib.contextmanager
def exit_as_error() -> Iterator[None]:
  """Makes `os._exit` raise SystemExit in this thread while a `with` block runs.

  Otherwise user code that calls `os._exit` would end the process without a
  message, possibly with status 0. In other threads and in forked processes,
  `os._exit` still ends the process.
  """
  end_process, owner = os._exit, (os.getpid(), threading.get_ident())

  def raise_exit(status: int) -> typing.NoReturn:
    """Replaces `os._exit`: raises SystemExit, or exits in other threads."""
    if (os.getpid(), threading.get_ident()) != owner:
      end_process(status)
    raise SystemExit(f"os._exit({status})")

  os._exit = raise_exit
  try:
    yield
  finally:
    os._exit = end_process


def describe(error: BaseException) -> str:
  """Returns an error's type and its text's first line: 'ValueError: boom'.

  Control characters are escaped, and a long line is cut.
  """
  lines = format_object(error, str).strip().splitlines()
  if lines and lines[0].startswith("Exception encountered when calling layer"):
    lines = lines[2:]  # Keras names the layer before the reason
  return make_printable(": ".join([type(error).__name__, *lines[:1]]))


def format_object(
  value: object, to_text: Callable[[object], str] = repr
) -> str:
  """Returns an object's text, '<unprintable TYPE object>' if `to_text` fails.

  Args:
    value: object whose `__repr__` and `__str__` may be user code.
  """
  try:
    return to_text(value)
  except BaseException as error:
    raise_interrupt(error)
    return f"<unprintable {type(value).__name__} object>"


def make_printable(text: str, most_characters: int = 500) -> str:
  """Returns a text of user code that a terminal can show, of some kB.

  Control characters, which could change the terminal, are escaped. Of long
  lines, the beginnings are kept, and of many lines, the first and last ones.
  """
  lines = text.splitlines()
  if len(lines) > 2 * _MOST_LINES + 1:
    left_out = f"... {len(lines) - 2 * _MOST_LINES:,} lines left out ..."
    lines[_MOST_LINES:-_MOST_LINES] = [left_out]
  shown = []
  for line in lines:
    if len(line) > most_characters:
      line = f"{line[:most_characters]}... ({len(line):,} characters)"
    if not line.isprintable():
      line = "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode()
        for c in line
      )
    shown.append(line)
  return "\n".join(shown) + ("\n" if text.endswith("\n") else "")


def is_in_user_code(error: BaseException) -> bool:
  """Returns whether an error's traceback has a frame of the user's own code.

  The result is also true for a SyntaxError, which Python raises where user code
  is imported, not in a frame of that code.
  """
  frames = traceback.extract_tb(error.__traceback__)
  return isinstance(error, SyntaxError) or any(map(_is_user_frame, frames))


def explain(line: str, error: BaseException) -> Exception:
  """Returns the error that reports, in one line, what user code has raised.

  Outside of user code, such as in a library that calls it, it is a ValueError.
  A KeyboardInterrupt is raised again.
  """
  raise_interrupt(error)
  return (
    UserCodeError(line, error) if is_in_user_code(error) else (ValueError(line))
  )


def raise_interrupt(error: BaseException) -> None:
  """Raises a KeyboardInterrupt again, which is never reported as an error."""
  if isinstance(error, KeyboardInterrupt):
    raise error


def wrap(error: BaseException) -> Exception:
  """Returns the error to show for one that has ended a command.

  It is a `UserCodeError` with a traceback if the user's own code raised it;
  installed packages are none. A RuntimeError or OSError of Slipway, whose text
  says enough, is returned, and any other error is raised again.
  """
  raise_interrupt(error)
  frames = traceback.extract_tb(error.__traceback__)
  is_own = any(_find_owner(frame) == "user" for frame in frames)
  if is_own and not isinstance(error, UserCodeError):
    return UserCodeError(f"code of your own raised {describe(error)}", error)
  if isinstance(error, (RuntimeError, OSError)):
    return error
  raise error


def import_module(name: str) -> types.ModuleType:
  """Imports a module of the user's own.

  See `process_settings` and `check_not_importing`.
  """
  _importing.append(name)
  try:
    with process_settings.preserve():
      return importlib.import_module(name)
  finally:
    _importing.pop()


def check_not_importing(function: str) -> None:
  """Checks that no module of the user's own is being imported.

  Each process of a run imports the modules that the config names. If one of
  them starts a run when it is imported, so would the processes of that run, and
  so on without end.

  Args:
    function: the called function, such as 'slipway.train', for the message.

  Raises:
    RuntimeError: a module is being imported.
  """
  if _importing:
    raise RuntimeError(
      f"module {_importing[-1]!r} calls {function} while a run imports it, so "
      "each process would start another run: put the call under "
      "if __name__ == '__main__':"
    )


def load(error_prefix: str, name: str, expected: str) -> typing.Any:
  """Imports an object of the user's own code, and returns the object.

  Args:
    error_prefix: text with the config field and its value, which begins the
      error message.
    name: 'module:Name'; the module is on Python's path or in the working
      directory of the command.

  Raises:
    ValueError: the module or the name does not exist, or the import failed
      outside of user code, such as in a library that calls user code.
    UserCodeError: the import failed in user code. Installed packages count as
      user code, except for the libraries that call it.
  """
  module, _, attribute = name.partition(":")
  try:
    return getattr(import_module(module), attribute)
  except BaseException as error:
    similar = _find_similar(module, attribute)
    advice = f"did you mean '{similar}'? " if similar else ""
    line = (
      f"{error_prefix} can't be imported ({describe(error)}), so nothing could "
      f"run: {advice}give 'module:Name' of {expected}, in a module on the "
      "Python path"
    )
    is_missing = isinstance(error, ModuleNotFoundError) and (
      f"{module}.".startswith(f"{error.name}.")
    )
    raise ValueError(line) if is_missing else explain(line, error) from error


def name_of_file(path: str) -> str:
  """Returns the name of the module in a file, such as 'folder/x.py'."""
  return path.removesuffix(".py").lstrip("./").replace("/", ".")


def _find_similar(module: str, attribute: str) -> str | None:
  """Returns the 'module:Name' that was probably meant, or None."""
  if module.endswith(".py"):
    return f"{name_of_file(module)}:{attribute}"
  known = vars(sys.modules[module]) if module in sys.modules else ()
  near = difflib.get_close_matches(attribute, known, n=1, cutoff=0.7)
  return f"{module}:{near[0]}" if near else None


def find_line(error: BaseException, file: str) -> int | None:
  """Returns the number of the line of a file at which an error was raised.

  Returns:
    Line number, from 1, of the syntax error in the file, or of the file's
    innermost frame in the traceback. None if the file has neither.
  """
  if isinstance(error, SyntaxError) and error.filename == file:
    return error.lineno
  lines = [
    frame.lineno
    for frame in traceback.extract_tb(error.__traceback__)
    if frame.filename == file
  ]
  return lines[-1] if lines else None


def format_traceback(error: BaseException) -> str:
  """Returns an error's traceback as text, with the frames of user code only.

  The text includes the error's causes and contexts. If an error has no frames
  of user code, its frames of libraries are shown.
  """
  whole = traceback.TracebackException.from_exception(error)
  pending, seen = [whole], set()
  while pending:
    current = pending.pop()
    if id(current) in seen:
      continue
    seen.add(id(current))
    frames = [frame for frame in current.stack if _is_user_frame(frame)]
    if not frames and current.exc_type is not SyntaxError:
      frames = [f for f in current.stack if _find_owner(f) != "slipway"]
    current.stack[:] = frames
    earlier = current.__cause__, current.__context__
    pending += [error for error in earlier if error is not None]
  return make_printable("".join(whole.format()))


def format_stack(
  innermost: types.FrameType | None, outermost: types.FrameType | None
) -> str:
  """Returns a thread's stack, with frames of user code only, or '' without any.

  Args:
    innermost: innermost frame of the stack, or None if the thread has ended.
    outermost: frame that is left out, with all frames outside of it; None for
      the whole stack.
  """
  frames = traceback.StackSummary.extract(
    itertools.takewhile(
      lambda pair: pair[0] is not outermost, traceback.walk_stack(innermost)
    )
    if innermost is not None
    else ()
  )
  user_frames = list(filter(_is_user_frame, reversed(frames)))
  if not user_frames:
    return ""
  lines = traceback.format_list(user_frames)
  return "".join(["Current line (most recent call last):\n", *lines])


def is_installed(path: pathlib.Path) -> bool:
  """Returns whether a file or folder is part of an installed package."""
  return any(folder in path.parts for folder in _INSTALLED)


def _is_user_frame(frame: traceback.FrameSummary) -> bool:
  """Returns whether a frame is in user code, packages included."""
  return _find_owner(frame) in ("user", "package")


def _find_owner(frame: traceback.FrameSummary) -> str:
  """Returns 'slipway', 'python', 'library' (ours), 'package' or 'user'."""
  path = pathlib.Path(frame.filename).resolve()
  if frame.filename.startswith("<frozen "):
    return "python"
  if path.is_relative_to(_SLIPWAY) and (
    path.relative_to(_SLIPWAY).parts[0] in _SLIPWAY_PACKAGES
  ):
    return "slipway"
  for folder in _INSTALLED:
    if folder in path.parts:
      package = path.parts[path.parts.index(folder) + 1]
      return "library" if package in _LIBRARIES else "package"
  return "python" if path.is_relative_to(_STANDARD_LIBRARY) else "user"
