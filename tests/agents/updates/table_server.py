"""Function of a test process that serves a table, and can be killed."""

import time

import numpy as np

from slipway.replay.items import transitions
from slipway.replay.items import writer as writer_lib
from slipway.replay.tables import tables, trajectory_manager
from slipway.replay.transport import routes
from tests.environments import given as environment
from tests.replay import given

BATCH = 32
SCHEMA = transitions.TransitionSchema(
  environment.spec_of((2,), actions=2), n_step=1
)
SPEC = given.make_table_spec(
  SCHEMA,
  batch_size=BATCH,
  min_size=1,
  samples_per_insert=0.0,
  priority_exponent=1.0,
)


def serve(port: int, first: int, priorities: list[float]) -> None:
  """Serves transitions that are numbered by their rewards, from `first`."""
  manager = trajectory_manager.TrajectoryManager(
    [tables.make_table(SPEC)], port
  )
  records = make_records(np.arange(first, first + len(priorities)))
  writer = writer_lib.ItemWriter(
    routes.DirectRoute(manager.address), tables.TRANSITIONS
  )
  assert writer.wait(timeout_s=30)
  writer.write(records, np.array(priorities))
  assert writer.close(timeout_s=30)
  print("ready", flush=True)
  time.sleep(600)
  manager.close()


def make_records(rewards: np.ndarray) -> np.ndarray:
  """Returns records of transitions with these rewards [M]."""
  count = len(rewards)
  return SCHEMA.record.pack(
    {
      "o_tm1": np.zeros((count, 2)),
      "a_tm1": np.zeros(count),
      "r_t": rewards,
      "discount_t": np.zeros(count),
      "o_t": np.zeros((count, 2)),
      transitions.VERSION: np.ones(count),
    }
  )
