"""Key folder: keeps files that no other user may ever have read."""

import os
import pathlib


def make(folder: pathlib.Path) -> None:
  """Makes a folder of this user alone, in one that is there.

  Raises:
    FileExistsError: it is there.
  """
  folder.mkdir(mode=0o700)
  folder.chmod(0o700)  # As below.


def write(path: pathlib.Path, data: bytes) -> None:
  """Makes or replaces a file of this user alone, which is never half there."""
  new = path.with_suffix(".new")
  new.unlink(missing_ok=True)
  # With these rights from the start: there is no moment to open it in.
  flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
  with open(os.open(new, flags, 0o600), "wb") as file:
    os.fchmod(file.fileno(), 0o600)  # Whatever the umask takes away.
    file.write(data)
  new.replace(path)


def read(folder: pathlib.Path, *names: str) -> list[bytes]:
  """The files of those names.

  Raises:
    ValueError: one is not there, or other users may open the folder.
  """
  if folder.exists() and folder.stat().st_mode & 0o077:
    raise ValueError(
      f"{str(folder)!r} is open to other users, who could have taken its key:"
      " remove it, and make a new one."
    )
  try:
    return [(folder / name).read_bytes() for name in names]
  except OSError as error:
    raise ValueError(
      f"{error.filename!r} can't be read ({error.strerror}), so nothing can be"
      " proven with it: have it made first, and keep the folder."
    ) from error
