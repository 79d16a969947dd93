"""RunCounters: how far a run has come, as a snapshot keeps it."""

import dataclasses
import json
import pathlib
import typing

# Integers pass for floats, as JSON has one kind of number.
_TYPES = {"int": int, "float": (int, float), "list": list}


@dataclasses.dataclass(frozen=True)
class RunCounters:
  """What a resumed run counts on from.

  ```python
  counters.write(path / 'counters.json')
  counters = RunCounters.read(path / 'counters.json')
  ```
  """

  environment_steps: int  # of all workers
  trainer_steps: int
  variables_version: int  # last published; the next one is higher
  wall_s: float  # that the run has taken, without the time it stood still
  evaluations: list[dict[str, typing.Any]]  # rows of curves.csv, oldest first

  def write(self, path: pathlib.Path) -> None:
    """Writes JSON, from which `read` makes an equal value."""
    path.write_text(
      json.dumps(dataclasses.asdict(self), indent=2) + "\n", encoding="utf-8"
    )

  @classmethod
  def read(cls, path: pathlib.Path) -> "RunCounters":
    """Returns what was written.

    Raises:
      ValueError: the file cannot be read, or holds something else.
    """
    try:
      found = json.loads(path.read_text(encoding="utf-8"))
      _check(found)
    except (OSError, ValueError) as error:
      raise ValueError(
        f"{str(path)!r} cannot be read as a run's counters ({error}), so "
        "nothing can go on from there: resume from another snapshot"
      ) from error
    return cls(**found)


def _check(found: typing.Any) -> None:
  """Raises ValueError unless there is a fit value for each field."""
  fields = {field.name: field for field in dataclasses.fields(RunCounters)}
  if not isinstance(found, dict) or found.keys() != fields.keys():
    raise ValueError(f"it must hold {', '.join(fields)}")
  for name, field in fields.items():
    kind = getattr(field.type, "__name__", "list")
    value = found[name]
    if isinstance(value, bool) or not isinstance(value, _TYPES[kind]):
      raise ValueError(f"{name} is {value!r}")
    if kind != "list" and not value >= 0:
      raise ValueError(f"{name} is {value!r}, which nothing counts to")
