"""The trainer node: samples, learns, pushes priorities and variables."""

import functools
import time
import typing

import launchpad as lp
import ml_collections
from absl import logging
from acme import specs

from agents import registry, update_loop
from launch import checkpoints, link, policy_age, run_folder
from launch import replay as replay_node
from replay import dataset, priority_updater, tables
from replay import variables as variables_lib


class Trainer:
  """Runs a learner on the dataset of a table."""

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    spec: specs.EnvironmentSpec,
    folder: run_folder.RunFolder,
    server: lp.Address,
    control: typing.Any,
  ):
    """Makes the learner and publishes its first variables.

    Args:
      config: the whole config.
      spec: of one environment.
      folder: of the run, for checkpoints.
      server: of the TrajectoryManager, which is hosted here where
        config.topology.replay says so.
      control: Courier client of the control node.
    """
    self._config, self._control = config, control
    self._manager = None
    if config.topology.replay == "with_trainer":
      self._manager = replay_node.make_trajectory_manager(config, spec, server)
    address = server.resolve()
    builder = registry.make_builder(config.agent)
    self._learner = builder.make_learner(config, spec)
    self._publisher = variables_lib.VariablesPublisher(address)
    self._version = 0
    self._publish()
    prioritized = config.replay.sampler == "prioritized"
    packing = builder.make_packing(spec)
    self._loop = update_loop.UpdateLoop(
      self._learner,
      dataset.make_dataset(
        address,
        tables.TRANSITIONS,
        packing,
        config.learner.batch_size,
      ),
      priority_updater.PriorityUpdater(address, tables.TRANSITIONS)
      if prioritized
      else None,
      functools.partial(dataset.unpack, packing),
    )
    self._checkpoints = checkpoints.make_manager(config, folder, self._learner)
    self._steps = 0
    self._limit = config.limits.trainer_steps  # 0: none
    self._learned: dict[str, float] = {}
    self._first_step_at_s: float | None = None
    self._starved_since_s: float | None = time.monotonic()

  def step(self) -> int:
    """One call of the update loop, as `run` does; returns all steps so far."""
    if self._next_updates():
      self._update()
    return self._steps

  def run(self) -> None:
    """Learns until the run stops, then saves."""
    save_due_s = time.monotonic() + self._config.checkpoint.period_s
    with link.Link(self._control, "trainer", 0, self._metrics) as node_link:
      while not node_link.stopping:
        orders = node_link.directive
        if orders.trainer_steps is not None:
          self._limit = orders.trainer_steps
        if orders.paused:
          self._starved_since_s = None
        if orders.paused or not self._next_updates():
          node_link.wait(0.05)  # at the limit, the others stop first
          continue
        self._update()
        if time.monotonic() >= save_due_s:
          self._checkpoints.save()
          save_due_s = time.monotonic() + self._config.checkpoint.period_s
      logging.info("saving %s", self._checkpoints.save())
      self._publisher.close()
    if self._manager is not None:
      self._manager.close()

  def _update(self) -> None:
    last = self._loop.run(self._next_updates())
    before, self._steps = self._steps, int(self._learner.steps)
    if last is None:
      self._starved_since_s = self._starved_since_s or time.monotonic()
    else:
      ages = policy_age.metrics(last.versions, self._version)
      self._learned = {**last.metrics, **ages}
      self._starved_since_s = None
    if self._steps > 0:
      self._first_step_at_s = self._first_step_at_s or time.time()
    period = self._config.variables.publish_period
    if self._steps // period > before // period:
      self._publish()

  def _next_updates(self) -> int:
    """Updates of the next call, none of them beyond the limit."""
    updates = self._config.learner.steps_per_call
    if not self._limit:
      return updates
    return max(0, min(updates, self._limit - self._steps))

  def _publish(self) -> None:
    self._version = self._publisher.publish(self._learner.get_variables())

  def _metrics(self) -> dict[str, typing.Any]:
    starved_since_s = self._starved_since_s
    metrics = {
      "trainer_steps": self._steps,
      "first_step_at_s": self._first_step_at_s,
      "variables_version": self._version,
      "starved_s": starved_since_s and time.monotonic() - starved_since_s,
      "metrics": self._learned,
    }
    if self._manager is not None:
      metrics["replay"] = self._manager.status(tables.TRANSITIONS)._asdict()
    return metrics
