"""All operations of all updates exist on GPUs, with their types.

TensorFlow would run an operation that a GPU lacks on the CPU, and copy its
inputs and results each time. The kernels are registered without a GPU, too, but
only in the TensorFlow of requirements-gpu.txt.
"""

import pytest
import tensorflow as tf
from tensorflow.python.framework import kernels

import slipway
from slipway.agents import devices
from slipway.agents.updates import graph_loop
from slipway.replay.tables import dataset
from tests.agents import collected

pytestmark = pytest.mark.skipif(
  not tf.test.is_built_with_cuda(),
  reason="needs the packages of requirements-gpu.txt: make setup-dev GPU=1",
)


def _has_kernel(node) -> bool:
  """Returns whether GPUs have an operation of a graph, with its types."""

  def fits(kernel) -> bool:
    for constraint in kernel.constraint:
      value = node.attr[constraint.name]
      types = [value.type] if value.type else value.list.type
      if not set(types) <= set(constraint.allowed_values.list.type):
        return False
    return kernel.device_type in ("GPU", "DEFAULT")

  found = kernels.get_registered_kernels_for_op(node.op).kernel
  return any(fits(kernel) for kernel in found)


def _find_missing(graph: tf.Graph) -> set[str]:
  """Returns the operations of a graph and its functions that GPUs lack."""
  definition = graph.as_graph_def()
  nodes = [*definition.node]
  for function in definition.library.function:
    nodes += function.node_def
  return {node.op for node in nodes if not _has_kernel(node)}


# One preset for each kind of update, network and observation.
@pytest.mark.parametrize(
  "name",
  [
    "rainbow:cartpole",
    "dqn:pong",
    "iqn:minatar_breakout",
    "r2d2:pong",
    "muzero:cartpole",
    "ppo:pong",
    "ppo:cartpole",
    "impala:pong",
    "vmpo:cartpole",
    "sac:pendulum",
    "d4pg:pendulum",
    "mpo:pendulum",
  ],
)
def test_gpus_have_all_operations(monkeypatch, name):
  monkeypatch.setattr(devices, "find_gpu", lambda: "/gpu:0")
  config = slipway.load_config(name)
  builder, spec = collected.build(config)
  learner = builder.make_learner(config, spec)
  table = builder.make_table(config, spec)
  assert table is not None
  # No server is needed for the types of a dataset's batches.
  batches = dataset.make_dataset("localhost:1", table)
  update = tf.function(graph_loop.GraphLoop(learner, table), autograph=False)
  traced = update.get_concrete_function(
    tf.data.IteratorSpec(batches.element_spec),
    tf.TensorSpec([], tf.int32),
    tf.TensorSpec([], tf.float32),
  )
  assert _find_missing(traced.graph) == set()
