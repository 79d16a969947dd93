"""Distributing: a publisher and its server, the readers, the proxy between."""

import functools
import time
import typing

import numpy as np
import portpicker

# Of the Nature CNN for 18 actions.
_SHAPES = {
  "conv_0/w": (8, 8, 4, 32),
  "conv_0/b": (32,),
  "conv_1/w": (4, 4, 32, 64),
  "conv_1/b": (64,),
  "conv_2/w": (3, 3, 64, 64),
  "conv_2/b": (64,),
  "linear_0/w": (3136, 512),
  "linear_0/b": (512,),
  "linear_1/w": (512, 18),
  "linear_1/b": (18,),
}
_POLL_S = 0.001
_TIMEOUT_S = 60.0


class Published(typing.NamedTuple):
  """One version, at its publisher's."""

  version: int
  at_s: float  # unix seconds, before `publish`


class Copied(typing.NamedTuple):
  """One version, at a reader's."""

  version: int
  at_s: float  # unix seconds, after the poll that returned it
  poll_s: float  # what that poll took
  poll_cpu_s: float  # and of its process's CPU time, all threads


def make_variables(size: int) -> dict[str, np.ndarray]:
  """Arrays of noise, as a Nature CNN has them, padded.

  Args:
    size: bytes of all; under the CNN's 6.8 MB there is padding only.
  """
  random = np.random.default_rng(0)
  arrays = {
    name: random.standard_normal(shape, np.float32)
    for name, shape in _SHAPES.items()
  }
  left = size - sum(array.nbytes for array in arrays.values())
  if left < 0:
    arrays, left = {}, size
  return {**arrays, "padding": random.standard_normal(left // 4, np.float32)}


@functools.cache
def _publisher(size: int):
  """This process's server, with version 1, its publisher and variables."""
  from slipway.replay.tables import trajectory_manager
  from slipway.replay.variables import variables

  manager = trajectory_manager.TrajectoryManager(
    [variables.make_table()], portpicker.pick_unused_port()
  )
  publisher = variables.VariablesPublisher(manager.address)
  arrays = make_variables(size)
  publisher.publish(arrays)
  return manager, publisher, arrays


def prepare_publisher() -> None:
  """Imports what publishing needs; a reader without a proxy needs the same."""
  from slipway.replay.tables import trajectory_manager  # noqa: F401
  from slipway.replay.variables import variables  # noqa: F401


def prepare_shared_reader() -> None:
  """Imports what reading shared variables needs."""
  from slipway.replay.variables import shared_variables  # noqa: F401


def address(size: int) -> str:
  """The address of this process's server, started if needed, with version 1.

  Args:
    size: bytes of the variables that will be published.
  """
  return _publisher(size)[0].address


def publish(size: int, versions: int, period_s: float) -> list[Published]:
  """Publishes versions, the first of which is 2, by this process's publisher.

  Args:
    size: as given to `address`.
    versions: how many.
    period_s: seconds before each, counted from when the last one was due.
  """
  _, publisher, arrays = _publisher(size)
  published = []
  due_s = time.monotonic()
  for _ in range(versions):
    due_s += period_s
    time.sleep(max(0.0, due_s - time.monotonic()))
    at_s = time.time()
    published.append(Published(publisher.publish(arrays), at_s))
  return published


def samples(size: int) -> int:
  """How often this process's server has sent a version, since its start.

  Args:
    size: as given to `address`.
  """
  from slipway.replay.variables import variables

  return _publisher(size)[0].status(variables.TABLE).sampled


def read(side: str, place: str, last_version: int) -> list[Copied]:
  """Polls until a version is there.

  Args:
    side: 'proxy' or 'direct'.
    place: path of the shared variables, or address of the server; this process
      keeps what reads there for the next call.
    last_version: to wait for.

  Returns:
    Each version that was seen.

  Raises:
    TimeoutError: no new version for 60 s.
  """
  source = _source(side, place)
  copied: list[Copied] = []
  end_s = time.monotonic() + _TIMEOUT_S
  while not copied or copied[-1].version < last_version:
    start_s, start_cpu_s = time.perf_counter(), time.process_time()
    snapshot = source.poll()
    poll_s = time.perf_counter() - start_s
    if snapshot is not None:
      poll_cpu_s = time.process_time() - start_cpu_s
      copied.append(Copied(snapshot.version, time.time(), poll_s, poll_cpu_s))
      end_s = time.monotonic() + _TIMEOUT_S
    elif time.monotonic() > end_s:
      raise TimeoutError(f"{place} had no new version for {_TIMEOUT_S:.0f} s")
    else:
      time.sleep(_POLL_S)
  return copied


@functools.cache
def _source(side: str, place: str):
  if side == "proxy":
    from slipway.replay.variables import shared_variables

    return shared_variables.SharedVariables(place)
  from slipway.replay.variables import variables

  return variables.ServerVariables(place)
