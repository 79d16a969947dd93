"""Recorded spaces: the spaces of an environment when its run was made.

A policy gives other actions, and a resumed run learns from other ones, if the
environment's code has changed meanwhile, even where the shapes are the same.
"""

import msgspec

from slipway.environments import specs
from slipway.launch.runs import records, run_folder


class _Spaces(msgspec.Struct):
  """The texts by which spaces are compared."""

  observations: str
  actions: str


def write(folder: run_folder.RunFolder, spec: specs.EnvironmentSpec) -> None:
  """Writes the spaces of a run's environment to its folder, if it has none.

  Raises:
    OSError: the file can't be written; the message has its path.
  """
  path = folder.spaces
  if path.exists():
    return
  with run_folder.writing(path), run_folder.replacing(path) as temporary:
    temporary.write_bytes(records.to_json(_describe(spec)))


def check(
  folder: run_folder.RunFolder, environment: str, spec: specs.EnvironmentSpec
) -> None:
  """Checks that an environment has the spaces with which a run was made.

  A run of an older version, whose folder has no record, is not checked.

  Args:
    environment: gymnasium id, for the error message.
    spec: spec of the environment as it is now.

  Raises:
    ValueError: a space differs; the message has both.
  """
  advice = (
    ", so it is not known whether the environment is that of the run: restore "
    "the file, or remove it if the environment has not changed"
  )
  try:
    recorded = records.read(folder.spaces, _Spaces, advice)
  except FileNotFoundError:
    return
  for field, now in msgspec.structs.asdict(_describe(spec)).items():
    if (before := getattr(recorded, field)) != now:
      raise ValueError(
        f"environment {environment} has other {field} than when run "
        f"{str(folder.path)!r} was made, now {now}, then {before}, so its "
        "policy would be wrong: restore the environment's code, or train anew"
      )


def _describe(spec: specs.EnvironmentSpec) -> _Spaces:
  return _Spaces(str(spec.observations.name), str(spec.actions.name))
