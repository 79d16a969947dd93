"""Temporary folders, in which an output is written before it is moved."""

import pathlib
import tempfile


def make_folder_next_to(
  path: pathlib.Path, argument: str, remedy: str
) -> tempfile.TemporaryDirectory:
  """Makes a hidden folder next to a path, before an episode is played in vain.

  Args:
    path: Path to which the output will be moved; missing parents are created.
    argument: Name of the user's argument with the path.
    remedy: What the user can do if the parent can't be written.

  Raises:
    ValueError: The parent can't be written.
  """
  try:
    path.parent.mkdir(parents=True, exist_ok=True)
    return tempfile.TemporaryDirectory(
      prefix=f".{path.name}-", dir=path.parent, ignore_cleanup_errors=True
    )
  except OSError as error:
    raise ValueError(
      f"{argument} is {str(path)!r}, but {str(path.parent)!r} can't be written "
      f"({error.strerror}), so nothing can be saved there: {remedy}"
    ) from error
