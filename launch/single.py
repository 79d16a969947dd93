"""One process, no servers: the same experiment, equal to the bit for a seed.

Reverb draws from unseeded generators in its server's threads, and processes
race. So this launch holds the transitions in a table of its own, and steps
worker, trainer and evaluator in turn at the ratio that the config asks for.
"""

import signal
import time
import typing

import ml_collections
import tensorflow as tf
from acme import specs

from agents import registry
from launch import (
  best_variables,
  checkpoints,
  directive,
  evaluation,
  evaluator,
  pace,
  policy_age,
  run_folder,
)
from launch import collector as collector_lib
from launch import control as control_lib
from launch import panel as panel_lib
from replay import (
  dataset,
  local_table,
  priorities,
  table_status,
  transitions,
)

_REPORT_PERIOD_S = 0.25


class Single:
  """A run of one worker, one trainer and one evaluator, in turns."""

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    spec: specs.EnvironmentSpec,
    folder: run_folder.RunFolder,
    control: control_lib.Control,
  ):
    """Makes all parts.

    Args:
      config: the whole config; of its topology, only the environments count.
      spec: of one environment.
      folder: of the run.
      control: counts, limits and results.
    """
    tf.config.experimental.enable_op_determinism()
    self._config, self._folder, self._control = config, folder, control
    builder = registry.make_builder(config.agent)
    self._packing = builder.make_packing(spec)
    self._learner = builder.make_learner(config, spec)
    self._update = tf.function(self._learner.update)
    self._collector = collector_lib.Collector(config, spec, builder, worker=0)
    self._version = 0
    self._publish()
    self._player = builder.make_greedy_actor(config, spec)
    self._arena = evaluation.make_environment(
      config.environment,
      config.evaluation.episodes,
      config.seed + evaluator.SEED,
    )
    replay = config.replay
    self._prioritized = replay.sampler == "prioritized"
    self._table = local_table.LocalTable(
      replay.capacity,
      self._packing.row_bytes,
      replay.priority_exponent if self._prioritized else None,
      config.seed,
    )
    self._checkpoints = checkpoints.make_manager(config, folder, self._learner)
    self._orders = directive.Directive(
      steps_per_s=config.rates.environment_steps_per_s
    )
    self._pace = pace.Pace()
    self._steps = 0
    self._learned: dict[str, typing.Any] = {}
    self._first_step_at_s: float | None = None

  def run(self, show: typing.Callable[[], None]) -> None:
    """Runs until a limit.

    Args:
      show: called a few times a second.
    """
    report_due_s = 0.0
    stopped = False
    while not stopped:
      now_s = time.monotonic()
      steps_per_s = self._orders.steps_per_s
      wait_s = self._pace.wait_s(steps_per_s, now_s)
      if wait_s > 0:
        time.sleep(min(wait_s, _REPORT_PERIOD_S))
      else:
        before = self._collector.env_steps
        self.step()
        steps = self._collector.env_steps - before
        self._pace.stepped(steps, steps_per_s, time.monotonic())
      # Limits of steps are exact; the rest is looked at now and then.
      stopped = self._report()
      if time.monotonic() >= report_due_s:
        report_due_s = time.monotonic() + _REPORT_PERIOD_S
        show()
    self._checkpoints.save()
    self._collector.close()
    self._arena.close()

  def step(self) -> None:
    """One step of all environments, and the updates that it earns."""
    items = self._collector.step()
    if items is None:
      return
    self._table.insert(items.rows, items.priorities)
    while self._owes_an_update():
      self._learn()
      if self._steps % self._config.variables.publish_period == 0:
        self._publish()
      if self._steps % self._config.evaluation.period_steps == 0:
        self._evaluate()

  def _publish(self) -> None:
    """Lets the worker and the evaluator have the newest variables."""
    self._version += 1
    self._published = self._learner.get_variables()
    self._collector.load(self._version, self._published)

  def _owes_an_update(self) -> bool:
    replay, table = self._config.replay, self._table
    earning = table.inserted - replay.min_size
    if earning < 0 or self._limit_reached():
      return False
    if not replay.samples_per_insert:
      return table.sampled < earning * self._config.learner.batch_size
    return table.sampled < earning * replay.samples_per_insert

  def _limit_reached(self) -> bool:
    limit = self._config.limits.trainer_steps
    return bool(limit) and self._steps >= limit

  def _learn(self) -> None:
    keys, probabilities, size, rows = self._table.sample(
      self._config.learner.batch_size
    )
    fields = self._packing.unpack(rows)
    versions = fields.pop(transitions.VERSION)
    td_errors, metrics = self._update(
      dataset.Batch(
        keys=tf.constant(keys),
        probabilities=tf.constant(probabilities),
        table_size=tf.fill(tf.shape(keys), tf.constant(size, tf.int64)),
        versions=tf.constant(versions),
        transitions=transitions.Transition(
          **{name: tf.constant(field) for name, field in fields.items()}
        ),
      )
    )
    self._learned = {**metrics, **policy_age.metrics(versions, self._version)}
    if self._prioritized:
      self._table.update_priorities(
        keys, priorities.from_td_errors(td_errors.numpy())
      )
    self._steps += 1
    self._first_step_at_s = self._first_step_at_s or time.time()

  def _evaluate(self) -> None:
    self._player.load(self._published)
    episodes = evaluation.play(
      self._arena, self._player, self._config.evaluation.episodes
    )
    assert episodes is not None
    if self._control.evaluated(*episodes, self._version):
      best_variables.save(self._folder.best, self._version, self._published)

  def _report(self) -> bool:
    """Reports as the nodes would; returns whether to stop."""
    self._control.report(
      "trainer",
      0,
      {
        "trainer_steps": self._steps,
        "first_step_at_s": self._first_step_at_s,
        "variables_version": self._version,
        "metrics": {k: float(v) for k, v in self._learned.items()},
        "replay": self._replay_status(),
      },
    )
    worker = {
      "env_steps": self._collector.env_steps,
      "items_written": self._table.inserted,
      "items_confirmed": self._table.inserted,
      "training_return": self._collector.training_return,
      "variables_age_s": 0.0,
    }
    self._control.tick()
    self._orders = directive.Directive(
      *self._control.report("worker", 0, worker)
    )
    return self._orders.stop

  def _replay_status(self) -> dict[str, float]:
    table = self._table
    return table_status.TableStatus.of(
      table.size, table.inserted, table.sampled, self._config.replay.min_size
    )._asdict()


def launch(
  config: ml_collections.ConfigDict,
  spec: specs.EnvironmentSpec,
  folder: run_folder.RunFolder,
  started_at_s: float,
) -> None:
  """Runs a config in this process, to its end.

  Args:
    config: the whole config, validated.
    spec: of one environment.
    folder: of the run.
    started_at_s: unix seconds of the user's command.
  """
  control = control_lib.Control(
    config, folder, {"worker": 1, "trainer": 1}, started_at_s
  )
  for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(
      number, lambda got, frame: control.stop(signal.Signals(got).name)
    )
  with panel_lib.Panel() as panel:
    Single(config, spec, folder, control).run(
      show=lambda: panel.update(control.status())
    )
    control.close()
    panel.update(control.status())
