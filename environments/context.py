"""Context: where in a run an environment is, for constructors that need it."""

import contextlib
import contextvars
import typing
from collections.abc import Callable, Iterator


class EnvironmentContext(typing.NamedTuple):
  """The place of an environment in a run.

  Attributes:
    role: 'worker' or 'evaluator'; '' for an environment that only checks or
      describes the task, and outside of runs.
    worker: index of the worker in the run, from 0; 0 for other roles.
    index: index of the environment in its process, from 0.
  """

  role: str = ""
  worker: int = 0
  index: int = 0


# The role and the worker whose environments are made now, and a function that
# returns the index of the next one.
_constructing: contextvars.ContextVar[
  tuple[str, int, Callable[[], int]] | None
] = contextvars.ContextVar("constructing", default=None)


def environment_context() -> EnvironmentContext:
  """Returns the place of the environment whose constructor calls this.

  class Simulator(gymnasium.Env):
    def __init__(self, port=45_000):
      place = slipway.environment_context()
      self._port = port + 100 * place.worker + place.index
      if place.role == "evaluator":
        self._port += 10_000
  """
  current = _constructing.get()
  if current is None:
    return EnvironmentContext()
  role, worker, get_index = current
  return EnvironmentContext(role, worker, get_index())


@contextlib.contextmanager
def constructing(
  role: str, worker: int, get_index: Callable[[], int]
) -> Iterator[None]:
  """Sets the context of the environments that the block makes.

  Args:
    get_index: function that returns the index of the next environment.
  """
  token = _constructing.set((role, worker, get_index))
  try:
    yield
  finally:
    _constructing.reset(token)
