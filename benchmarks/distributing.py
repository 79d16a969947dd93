"""Distributing: publishes variables to readers, directly or by a proxy."""

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
  """The publication of one version of the variables.

  Attributes:
    version: number of the version.
    at_s: unix seconds, before `publish`.
  """

  version: int
  at_s: float  # unix seconds, before `publish`


class Copied(typing.NamedTuple):
  """The arrival of one version of the variables at a reader.

  Attributes:
    version: number of the version.
    at_s: unix seconds, after the poll that returned the version.
    poll_s: duration of that poll, in seconds.
    poll_cpu_s: CPU seconds of the reader's process during that poll.
  """

  version: int
  at_s: float  # unix seconds, after the poll that returned it
  poll_s: float  # duration of that poll
  poll_cpu_s: float  # and of its process's CPU time, all threads


def make_variables(size: int) -> dict[str, np.ndarray]:
  """Makes random variables with a Nature CNN's shapes, plus padding.

  Args:
    size: total bytes; below the CNN's 6.8 MB there is padding only.
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
  """Returns this process's server, publisher (at version 1) and variables."""
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
  """Imports the modules for publishing, and for readers without a proxy."""
  from slipway.replay.tables import trajectory_manager  # noqa: F401
  from slipway.replay.variables import variables  # noqa: F401


def prepare_shared_reader() -> None:
  """Imports the modules for reading shared variables."""
  from slipway.replay.variables import shared_variables  # noqa: F401


def address(size: int) -> str:
  """Returns the address of this process's server; starts it if needed.

  Args:
    size: bytes of the variables that will be published.
  """
  return _publisher(size)[0].address


def publish(size: int, versions: int, period_s: float) -> list[Published]:
  """Publishes new versions of the variables at equal intervals.

  Args:
    size: bytes of the variables, as for `address`.
    versions: number of versions to publish.
    period_s: seconds between the due times of two versions.

  Returns:
    The number of each version, and the time at which it was published.
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
  """Returns the number of versions that this process's server has sent.

  Args:
    size: bytes of the variables, as for `address`.
  """
  from slipway.replay.variables import variables

  return _publisher(size)[0].status(variables.TABLE).sampled


def read(side: str, place: str, last_version: int) -> list[Copied]:
  """Polls until a version of the variables arrives.

  Args:
    side: 'proxy' or 'direct'.
    place: path of the shared variables for 'proxy', or the server's address for
      'direct'. This process keeps the reader for the next call.
    last_version: version to wait for.

  Returns:
    One entry per version that has arrived.

  Raises:
    TimeoutError: no new version arrived for 60 s.
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
  """Returns this process's reader of variables, for the arguments of `read`."""
  if side == "proxy":
    from slipway.replay.variables import shared_variables

    return shared_variables.SharedVariables(place)
  from slipway.replay.variables import variables

  return variables.ServerVariables(place)
