"""Rig of the benchmark `scale`: a server, and a process per component."""

import dataclasses
import os
import tempfile
import time
from collections.abc import Iterator

import ml_collections

from benchmarks import (
  collecting,
  processes,
  report,
  writing,
)
from benchmarks.scale import components, shapes
from slipway.launch.processes import processors

INSERTED, SAMPLED, TRAINED, RELAYED, FETCHED, COPIED, STEPPED = (
  *("replay: inserted", "replay: sampled", "trainer: trained"),
  *("proxy: relayed", "replay: fetched", "worker: copied", "worker: stepped"),
)
# Measured components, in the order of `plans.Capacities`.
PLANNED = (INSERTED, SAMPLED, TRAINED, RELAYED, FETCHED, STEPPED)

_CONNECT_S = 1.0  # for all streams, before the warm-up
_SHARED_MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None


@dataclasses.dataclass(frozen=True)
class Effort:
  """Size and duration of the measurements.

  Attributes:
    writers: number of writer processes.
    streams: total numbers of streams to measure, each at least `writers`.
    warm_up_s: seconds before a measurement.
    window_s: seconds of a measurement.
    batches: environment steps of each of a worker's environments.
  """

  writers: int = 8
  streams: tuple[int, ...] = (8, 64, 256)
  warm_up_s: float = 2.0
  window_s: float = 5.0
  batches: int = 1_000


QUICK = Effort(
  writers=2, streams=(2, 16), warm_up_s=0.3, window_s=0.7, batches=50
)


@dataclasses.dataclass(frozen=True)
class _Rig:
  """A running replay server, and the settings of measurements with it.

  Attributes:
    config: config of the server's table.
    shape: sizes that the config determines.
    records: records that writers write.
    server: process and address of the server.
    effort: size and duration of the measurements.
  """

  config: ml_collections.ConfigDict
  shape: shapes.Shape
  records: shapes.Records
  server: tuple[int, str]
  effort: Effort

  def write(self) -> Iterator[report.Row]:
    """Measures writing to the server, directly and through a proxy."""
    with (
      tempfile.TemporaryDirectory(dir=_SHARED_MEMORY) as folder,
      processes.serving(writing.serve_proxy, self.server[1], folder) as proxy,
      processes.crew(
        self.effort.writers, writing.prepare, processes.ONE_THREAD
      ) as crew,
    ):
      for part, (pid, address) in (
        (INSERTED, self.server),
        (RELAYED, proxy),
      ):
        for streams in self.effort.streams:
          done = self._write(crew, pid, address, streams)
          sent = self.shape.sent_bytes
          yield _row(part, streams, done, done.server_cpu_s, sent)

  def read(self) -> Iterator[report.Row]:
    """Measures sampling, training and fetching from the server."""
    effort, shape = self.effort, self.shape
    times = effort.warm_up_s, effort.window_s
    trainer = processors.make_role_variables("trainer", self.config)
    with processes.crew(1, components.prepare, trainer) as (member,):
      done = member.call(components.sample, self.config, self.server, *times)
      sampled_bytes = shape.item_bytes
      yield _row(SAMPLED, 1, done, done.server_cpu_s, sampled_bytes)
      done = member.call(components.train, self.config, self.server, *times)
      yield _row(
        TRAINED,
        1,
        done,
        done.own_cpu_s,
        sampled_bytes * shape.batch_size,
        carried=done.count / done.wall_s,
      )
      done = member.call(components.fetch, self.server, *times)
      yield _row(FETCHED, 1, done, done.server_cpu_s, shape.variables_bytes)

  def act(self) -> Iterator[report.Row]:
    """Measures copies of variables, and environment steps."""
    effort, shape = self.effort, self.shape
    with tempfile.TemporaryDirectory(dir=_SHARED_MEMORY) as folder:
      done = processes.call(
        components.copy,
        *(self.config, f"{folder}/variables"),
        *(effort.warm_up_s, effort.window_s),
        environment=processes.ONE_THREAD,
      )
    yield _row(
      COPIED,
      1,
      done,
      done.own_cpu_s,
      shape.variables_bytes,
      carried=done.count_per_cpu_s,
    )
    steps = effort.batches * self.config.topology.environments_per_worker
    with processes.serving(collecting.serve_ours, self.config) as server:
      collected = processes.call(
        collecting.collect_ours,
        *(self.config, server[1], server[0], steps // 10, steps),
        environment=processes.ONE_THREAD,
      )
    done = components.Done(
      collected.env_steps,
      collected.wall_s,
      collected.worker_cpu_s,
      collected.server_cpu_s,
    )
    yield _row(
      STEPPED,
      1,
      done,
      done.own_cpu_s,
      shape.sent_bytes / shape.steps_per_item,
      carried=done.count_per_cpu_s,
    )

  def _write(
    self, crew: list[processes.Member], pid: int, address: str, streams: int
  ) -> components.Done:
    """Runs all writers, and measures the CPU time of process `pid`."""
    effort = self.effort
    start_s = time.monotonic() + _CONNECT_S + effort.warm_up_s
    window = writing.Window(start_s, start_s + effort.window_s)
    for index, member in enumerate(crew):
      rows, records_per_item = self.records
      share = streams // len(crew) + (index < streams % len(crew))
      member.begin(
        writing.write, address, rows, window, records_per_item, share
      )
    time.sleep(max(0.0, window.start_s - time.monotonic()))
    start = processes.cpu(pid)
    time.sleep(max(0.0, window.end_s - time.monotonic()))
    passed = processes.since(start, pid)
    written = [member.end() for member in crew]
    # By rates: a writer's window ends with a flush of its own.
    per_s = sum(one.items / one.wall_s for one in written)
    return components.Done(
      per_s * passed.wall_s,
      passed.wall_s,
      sum(one.cpu_s for one in written),
      passed.cpu_s,
    )


def measure(
  config: ml_collections.ConfigDict, runs: int, effort: Effort
) -> tuple[list[report.Row], shapes.Shape]:
  """Measures all components, one after the other.

  Args:
    config: the whole config.
    runs: number of repetitions.
    effort: size and duration of each repetition.

  Returns:
    Rows of a raw file, and the sizes that the config determines.
  """
  shape, records, config = processes.call(shapes.describe, config)
  raw = []
  with processes.serving(components.serve, config) as server:
    rig = _Rig(config, shape, records, server, effort)
    for repetition in range(runs):
      for part in (rig.write, rig.read, rig.act):
        raw += [{"repetition": repetition, **row} for row in part()]
  return raw, shape


def _row(
  part: str,
  streams: int,
  done: components.Done,
  cpu_s: float,
  each_bytes: float,
  carried: float | None = None,
) -> report.Row:
  """Makes a row of a raw file.

  Args:
    part: name of the measured component.
    streams: number of its streams.
    done: work that it has done.
    cpu_s: CPU seconds of the component.
    each_bytes: bytes of each counted object.
    carried: capacity per second; None: computed from `done`.
  """
  per_s, busy = done.count / done.wall_s, cpu_s / done.wall_s
  return {
    "part": part,
    "streams": streams,
    "count": round(done.count),
    "per_s": per_s,
    "mb_per_s": per_s * each_bytes / 1e6,
    "busy_cores": busy,
    "cpu_us": 1e6 * cpu_s / done.count,
    "carried_per_s": (
      per_s / min(1.0, max(busy, 1e-3)) if carried is None else carried
    ),
  }
