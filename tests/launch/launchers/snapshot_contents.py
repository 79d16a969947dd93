"""Reads snapshots of runs in one process, so that `==` compares their bits."""

import pathlib
import pickle
import typing
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from slipway.launch.runs import run_counters


def read(path: pathlib.Path) -> dict[str, typing.Any]:
  """Returns all state that the next steps depend on, and the counts.

  Args:
    path: folder of the snapshot.
  """
  counters = run_counters.RunCounters.read(path)
  reader = tf.train.load_checkpoint(str(path / "trainer"))
  return {
    "learner": {
      name: np.asarray(reader.get_tensor(name)).tobytes()
      for name in reader.get_variable_to_shape_map()
      if name != "_CHECKPOINTABLE_OBJECT_GRAPH"
    },
    "table": {
      file.name: file.read_bytes() for file in (path / "table").iterdir()
    },
    "environment_steps": counters.status.env_steps,
    "trainer_steps": counters.status.trainer_steps,
    "variables_version": counters.status.variables.version,
    "evaluations": counters.status.evaluation.count,
    "eval_returns": counters.eval_returns,
    "best_eval_return": counters.status.evaluation.best_mean_return,
    "others": _read_others(path / "single.pkl"),
  }


def _read_others(path: pathlib.Path) -> typing.Any:
  """Returns the state of environments, actors, unfinished items, and others."""
  state = pickle.loads(path.read_bytes())
  del state["restarts"]
  version, _, variables = state["published"]
  state["published"] = version, variables
  for part in (state["evaluator"], state["worker"]["running"]):
    part["environment"] = pickle.loads(part["environment"])
  return _plain(state)


def _plain(x: typing.Any) -> typing.Any:
  """Returns a value; values are equal exactly if the inputs' bits are equal."""
  if isinstance(x, np.ndarray):
    return x.dtype.str, x.shape, x.tobytes()
  if isinstance(x, np.random.Generator):
    return x.bit_generator.state
  if isinstance(x, Mapping):
    return {name: _plain(value) for name, value in x.items()}
  if isinstance(x, tuple | list):
    return [_plain(value) for value in x]
  return repr(x)
