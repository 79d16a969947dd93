"""Recorded spaces: the spaces of an environment when its run was made.

A policy gives other actions, and a resumed run learns from other ones, if the
environment's code has changed meanwhile, even where the shapes are the same.
"""

import json
from typing import Any

from slipway.environments import specs
from slipway.launch.runs import run_folder


def write(folder: run_folder.RunFolder, spec: specs.EnvironmentSpec) -> None:
  """Writes the spaces of a run's environment to its folder, if it has none.

  Raises:
    OSError: the file can't be written; the message has its path.
  """
  if folder.spaces.exists():
    return
  text = json.dumps(_describe(spec), indent=2) + "\n"
  with (
    run_folder.writing(folder.spaces),
    run_folder.replacing(folder.spaces) as path,
  ):
    path.write_text(text, encoding="utf-8")


def check(
  folder: run_folder.RunFolder, environment: str, spec: specs.EnvironmentSpec
) -> None:
  """Checks that an environment has the spaces with which a run was made.

  A run of an older version, whose folder has no record, is not checked.

  Args:
    folder: the run's folder.
    environment: gymnasium id, for the error message.
    spec: spec of the environment as it is now.

  Raises:
    ValueError: a space differs; the message has both.
  """
  try:
    recorded: Any = json.loads(folder.spaces.read_text(encoding="utf-8"))
  except FileNotFoundError:
    return
  except (OSError, ValueError) as error:
    raise ValueError(
      f"{str(folder.spaces)!r} can't be read ({error}), so it is not known "
      "whether the environment is that of the run: restore the file, or remove "
      "it if the environment has not changed"
    ) from error
  for field, now in _describe(spec).items():
    before = recorded.get(field) if isinstance(recorded, dict) else None
    if before != now:
      raise ValueError(
        f"environment {environment} has other {field} than when run "
        f"{str(folder.path)!r} was made, now {now}, then {before}, so its "
        "policy would be wrong: restore the environment's code, or train anew"
      )


def _describe(spec: specs.EnvironmentSpec) -> dict[str, str]:
  """Returns the texts by which spaces are compared."""
  return {
    "observations": str(spec.observations.name),
    "actions": str(spec.actions.name),
  }
