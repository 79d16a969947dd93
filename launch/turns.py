"""Turns: a worker, a trainer and an evaluator that take turns, by rule.

What comes next follows from the config and the seed alone, never from time, so
that two runs are equal, and so is one that was saved between two turns.
"""

import enum
import math
import pathlib
import pickle
import typing
from collections.abc import Callable, Mapping

import ml_collections
import numpy as np
import tensorflow as tf
from absl import logging
from acme import specs

from agents import registry
from configs import sizes
from environments import saving
from launch import arena
from launch.nodes import collector as collector_lib
from launch.nodes import evaluation, policy_age
from launch.orchestration import messages
from launch.runs import checkpoints
from replay import dataset, local_table, priorities

_STATE, _TABLE = "single.pkl", "table"  # in a snapshot


class Turn(enum.Enum):
  """What is due."""

  EVALUATION = enum.auto()
  UPDATE = enum.auto()
  COLLECTION = enum.auto()


class Turns:
  """Worker, trainer and evaluator of one process.

  ```python
  turns = Turns(config, spec, saved=None)
  while turns.due is Turn.COLLECTION:
    turns.collect()
  turns.save(folder)
  ```

  Attributes:
    table: of transitions.
    version: of the variables that are acted by.
    variables: that are acted by, and evaluated.
    trainer_steps: updates so far.
    metrics: of the last update.
  """

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    spec: specs.EnvironmentSpec,
    saved: pathlib.Path | None,
  ):
    """Makes all parts.

    Args:
      config: the whole config; of its topology, only the environments count.
      spec: of one environment.
      saved: folder of the snapshot to go on from; None: begins.

    Raises:
      ValueError: one line: what was saved does not fit the config.
    """
    tf.config.experimental.enable_op_determinism()
    self._config = config
    builder = registry.make_builder(config.agent)
    self._layout = builder.make_layout(config, spec)
    self._learner = builder.make_learner(config, spec)
    self._update = tf.function(self._learn, autograph=False)
    replay, self._sizes = config.replay, sizes.Sizes.of(config)
    self._prioritized = replay.sampler == "prioritized"
    self.table = local_table.LocalTable(
      self._sizes.capacity,
      math.prod(self._layout.item_shape),
      replay.priority_exponent if self._prioritized else None,
      config.seed,
    )
    state = pickle.loads((saved / _STATE).read_bytes()) if saved else None
    self._lives = state["lives"] + 1 if state else 0
    self._collector = collector_lib.Collector(
      config, spec, builder, worker=0, lives=self._lives
    )
    self._savable = saving.is_exact(config.environment)
    self._arena = arena.Arena(config, spec, builder, self._lives, self._savable)
    self.version = 0
    self.trainer_steps = 0
    self.metrics: dict[str, typing.Any] = {}
    self._evaluation_due = False
    # Counts of earlier lives of the run.
    self._env_steps_before = self._inserted_before = self._version_before = 0
    if saved and state:
      self._load(saved, state)
    else:
      self._publish()
    if not self._savable:
      logging.warning(
        "%s cannot be saved in the middle of an episode: a run that is resumed "
        "goes on with new episodes, so it is not equal to one that never "
        "stopped",
        config.environment.name,
      )

  @property
  def env_steps(self) -> int:
    """Environment steps of the run."""
    return self._env_steps_before + self._collector.env_steps

  @property
  def worker(self) -> messages.WorkerReport:
    """Returns what a worker would report of this process."""
    items = self.table.inserted - self._inserted_before
    return messages.WorkerReport(
      env_steps=self._collector.env_steps,
      items_written=items,
      items_confirmed=items,
      variable_loads=self.version - self._version_before,
      training_return=self._collector.training_return,
      variables_age_s=0.0,
    )

  @property
  def due(self) -> Turn:
    """Whose turn it is."""
    if self._evaluation_due:
      return Turn.EVALUATION
    limit = self._config.limits.trainer_steps
    if limit and self.trainer_steps >= limit:
      return Turn.COLLECTION
    return Turn.UPDATE if self._owed_samples() > 0 else Turn.COLLECTION

  def collect(self) -> int:
    """Steps all environments once; returns how many steps that made."""
    before = self._collector.env_steps
    items = self._collector.step()
    if items is not None:
      self.table.insert(items.data(), items.priorities)
    return self._collector.env_steps - before

  def update(self) -> None:
    """Makes one update, and publishes where that is due."""
    keys, probabilities, size, rows = self.table.sample(self._sizes.batch_size)
    td_errors, metrics, versions = self._update(
      tf.constant(keys),
      tf.constant(probabilities),
      tf.constant(size, tf.int64),
      tf.constant(rows),
    )
    ages = policy_age.metrics(versions.numpy(), self.version)
    self.metrics = {**metrics, **ages}
    if self._prioritized:
      new = priorities.from_td_errors(td_errors.numpy())
      self.table.update_priorities(keys, priorities.of_items(new, len(keys)))
    self.trainer_steps += 1
    if self.trainer_steps % self._config.variables.publish_period == 0:
      self._publish()
    if self.trainer_steps % self._config.evaluation.period_steps == 0:
      self._evaluation_due = True

  def _learn(
    self,
    keys: tf.Tensor,
    probabilities: tf.Tensor,
    size: tf.Tensor,
    rows: tf.Tensor,
  ) -> tuple[tf.Tensor, dict[str, tf.Tensor], tf.Tensor]:
    """An update by what was drawn; also the versions that made it, [B]."""
    batch = dataset.make_batch(
      self._layout,
      keys,
      probabilities,
      tf.fill(tf.shape(keys), size),
      tf.reshape(rows, (-1, *self._layout.item_shape)),
    )
    return *self._learner.update(batch), batch.versions

  def evaluate(
    self, interrupted: Callable[[], bool]
  ) -> evaluation.Episodes | None:
    """Plays greedy episodes with the variables that are acted by.

    Args:
      interrupted: asked at each step.

    Returns:
      The episodes, or None if interrupted: then it is still due.
    """
    episodes = self._arena.play(self.variables, interrupted)
    self._evaluation_due = episodes is None
    return episodes

  def save(self, folder: pathlib.Path) -> None:
    """Writes all that the next turns depend on.

    Args:
      folder: of a snapshot.

    Raises:
      OSError: the disk refuses.
    """
    checkpoints.save(folder, self._learner)
    (folder / _TABLE).mkdir()
    self.table.save(folder / _TABLE)
    state = {
      "lives": self._lives,
      "env_steps": self.env_steps,
      "version": self.version,
      "variables": self.variables,
      "metrics": {name: float(x) for name, x in self.metrics.items()},
      "evaluation_due": self._evaluation_due,
      "earning": self._earning(),
      "collector": self._collector.get_state(self._savable),
      "arena": self._arena.get_state(),
    }
    (folder / _STATE).write_bytes(pickle.dumps(state))

  def close(self) -> None:
    """Closes the environments."""
    self._collector.close()
    self._arena.close()

  def _load(
    self, folder: pathlib.Path, state: Mapping[str, typing.Any]
  ) -> None:
    checkpoints.restore(folder, self._learner)
    self.table.load(folder / _TABLE)
    self.trainer_steps = int(self._learner.steps)
    self.version, self.variables = state["version"], state["variables"]
    self._collector.load(self.version, self.variables)
    self.metrics = state["metrics"]
    self._evaluation_due = state["evaluation_due"]
    self._env_steps_before = state["env_steps"]
    self._inserted_before = self.table.inserted
    self._version_before = self.version
    self._collector.set_state(state["collector"])
    self._arena.set_state(state["arena"])
    if state["earning"] != self._earning():
      # By other rules now: there is nothing to catch up, or to wait for.
      self.table.sampled += max(
        math.ceil(self._owed_samples()), -self.table.sampled
      )

  def _publish(self) -> None:
    """Lets the worker and the evaluator have the newest variables."""
    self.version += 1
    self.variables: Mapping[str, np.ndarray] = self._learner.get_variables()
    self._collector.load(self.version, self.variables)

  def _earning(self) -> tuple[float, float]:
    """Items before the first update, and samples that each one after earns."""
    ratio = self._config.replay.samples_per_insert or self._sizes.batch_size
    return self._sizes.min_size, ratio

  def _owed_samples(self) -> float:
    """Samples earned and not drawn yet; 0 or less: no update is due."""
    min_size, ratio = self._earning()
    return (self.table.inserted - min_size) * ratio - self.table.sampled
