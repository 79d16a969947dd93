"""RunCounters: how far a run has come, as a snapshot keeps it."""

import dataclasses
import json
import pathlib
import typing

FILE = "run.json"  # in the folder of a snapshot

# Integers pass for floats, as JSON has one kind of number.
_NUMBERS = {int: (int,), float: (int, float)}


@dataclasses.dataclass(frozen=True)
class RunCounters:
  """What a resumed run counts on from.

  ```python
  counters.write(folder)
  counters = RunCounters.read(folder)
  ```
  """

  mode: str  # config.mode
  environment_steps: int  # of all workers
  trainer_steps: int
  variables_version: int  # last published; the next one is higher
  replay_size: int  # items in the table
  wall_s: float  # that the run has taken, without the time it stood still
  evaluations: int  # rows of curves.csv
  eval_return: float | None  # of the last one
  best_eval_return: float | None
  resumes: int
  lost: dict[str, int]  # where nodes began at a snapshot; the ledger's names
  nodes: dict[str, dict[str, typing.Any]]  # the ledger's, by 'worker/0'

  def to_json(self) -> str:
    """JSON, from which `from_json` makes an equal value."""
    return json.dumps(dataclasses.asdict(self), indent=2) + "\n"

  @classmethod
  def from_json(cls, text: str) -> "RunCounters":
    """Returns what was written.

    Raises:
      ValueError: the text holds something else.
    """
    found = json.loads(text)
    _check(found)
    return cls(**found)

  def write(self, folder: pathlib.Path) -> None:
    """Writes the file of a snapshot."""
    (folder / FILE).write_text(self.to_json(), encoding="utf-8")

  @classmethod
  def read(cls, folder: pathlib.Path) -> "RunCounters":
    """Reads the file of a snapshot.

    Raises:
      ValueError: the file cannot be read, or holds something else.
    """
    try:
      return cls.from_json((folder / FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
      raise ValueError(
        f"{str(folder / FILE)!r} cannot be read as a run's counters ({error}), "
        "so nothing can go on from there: resume from another snapshot"
      ) from error


def _check(found: typing.Any) -> None:
  """Raises ValueError unless there is a fit value for each field."""
  fields = typing.get_type_hints(RunCounters)
  if not isinstance(found, dict) or found.keys() != fields.keys():
    raise ValueError(f"it must hold {', '.join(fields)}")
  for name, kind in fields.items():
    if not _fits(found[name], kind):
      raise ValueError(f"{name} is {found[name]!r}")


def _fits(value: typing.Any, kind: typing.Any) -> bool:
  if kind in _NUMBERS:  # what nothing counts to is none
    return type(value) in _NUMBERS[kind] and value >= 0
  if kind == float | None:
    return value is None or type(value) in _NUMBERS[float]
  return isinstance(value, typing.get_origin(kind) or kind)
