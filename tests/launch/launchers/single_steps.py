"""Checks a run in one process, step by step.

The checks run in their own process, as op determinism can't be switched off:

  python -m tests.launch.launchers.single_steps ALGORITHM FOLDER CHECK...
"""

import itertools
import pathlib
import shutil
import sys
import time
import typing

import numpy as np

from slipway.agents import core
from slipway.agents.dqn import builder as builder_lib
from slipway.agents.dqn import learning
from slipway.configs import catalog
from slipway.environments import factory
from slipway.launch.control import rates as rates_lib
from slipway.launch.control import run_control
from slipway.launch.launchers import single_loop
from slipway.launch.runs import run as run_lib
from slipway.launch.runs import run_folder, snapshot_store
from slipway.replay.tables import table_status
from tests.launch.launchers import snapshot_contents

ENVIRONMENTS, PERIOD = 4, 30  # trainer steps between evaluations
EVALUATION, UPDATE, COLLECTION = "evaluation", "update", "collection"
# Per algorithm, the phases before which the run is saved and restarted. These
# are few, since TensorFlow traces all functions again after each restart.
SAVED_BEFORE = {
  "apex_dqn": (EVALUATION, COLLECTION, UPDATE),
  "mpo": (UPDATE,),
  "muzero": (UPDATE, COLLECTION),
  "ppo": (UPDATE, COLLECTION),
  "r2d2": (UPDATE,),
  "rainbow": (COLLECTION,),
  "sac": (EVALUATION,),
}


class FrozenLearner(learning.DQNLearner):
  """A learner that only counts its updates, so that it is traced quickly."""

  def update(self, batch):
    self.steps.assign_add(1)
    return core.Update({}, batch.probabilities)


class FrozenBuilder(builder_lib.Builder):
  """A builder of DQN for checks that do not depend on the learner."""

  def make_learner(self, config, spec):
    return FrozenLearner(config, spec)


def make_config(algorithm: str):
  """Returns a small config of an algorithm."""
  frozen = algorithm == "frozen"
  algorithms = catalog.algorithms()
  config = algorithms["apex_dqn" if frozen else algorithm].get_config()
  if frozen:
    config.agent = "tests.launch.launchers.single_steps:FrozenBuilder"
    config.adder.n_step = 3  # steady inserts, although episodes are short
  config.mode = "single"
  config.network.hidden_sizes = (8,)
  config.topology.update(workers=1, environments_per_worker=ENVIRONMENTS)
  config.variables.publish_period = 7
  config.evaluation.update({"episodes": 3, "period_steps": PERIOD})
  config.limits.target_return = float("inf")
  if config.agent in ("policy_gradient", "actor_critic"):
    config.normalization.update(observations=True, rewards=True)
  if config.agent == "policy_gradient":
    config.adder.unroll = 2
    config.learner.update(batch_size=4, minibatch_size=4, epochs=2)
    return config
  config.learner.batch_size = 8
  config.replay.update(
    {"capacity": 300, "min_size": 20, "samples_per_insert": 4.0}
  )
  config.replay.transitions_per_item = 1  # so that items are transitions
  if config.agent == "r2d2":
    config.network.core_size = 4
    config.adder.update({"burn_in": 2, "unroll": 4, "period": 2})
  if config.agent == "muzero":
    config.network.latent_size, config.search.simulations = 4, 3
    config.adder.update({"unroll": 2, "n_step": 3})
  if algorithm == "mpo":
    config.learner.update({"critic_target": "retrace", "action_samples": 2})
    config.adder.update({"unroll": 4, "period": 2})
    config.replay.sampler = "prioritized"
    config.exploration.random_steps = 50
    config.environment.time_limit = 7  # many sequences contain an episode's end
  if "exploration" in config:
    config.exploration.schedule = "linear"
    config.learner.target_update_period = 9
  return config


class Stepped:
  """A run in one process that is stepped, in its own folder."""

  def __init__(self, config, path: pathlib.Path):
    """Makes a run, or resumes the one in the folder."""
    self.config, self.path = config, path
    self.folder = run_folder.RunFolder(path)
    if not self.folder.is_run():
      self.folder = run_folder.RunFolder.create(
        path.parent, path.name, overwrite=False
      )
    self.folder.write_config(config)
    spec = factory.make_spec(config.environment)
    self.rates = rates_lib.Rates.from_config(config, spec)
    run = run_lib.Run(config, spec, self.folder, time.time())
    self.control = run_control.RunControl(
      *(config, self.folder, {"worker": 1, "trainer": 1}),
      *(run.started_at_s, self.rates),
    )
    self.single = single_loop.SingleLoop(run, self.control)
    self._counts: dict[str, typing.Any] | None = None  # None: outdated

  def counts(self) -> dict[str, typing.Any]:
    """Returns the counts that are equal in equal runs."""
    if self._counts is None:
      self._counts = self._read_counts()
    return self._counts

  def _read_counts(self) -> dict[str, typing.Any]:
    self.single.report()
    status = self.control.status()
    replay = status.replay
    return {
      "env_steps": status.env_steps,
      "trainer_steps": status.trainer_steps,
      "version": status.variables.version,
      "training_return": status.training_return,
      "evaluations": status.evaluation.count,
      "mean_return": status.evaluation.mean_return,
      "table": (replay.size, replay.inserted, replay.sampled),
    }

  @property
  def due(self) -> str:
    """The phase that is due next according to the rules, if no limit is set."""
    counts = self.counts()
    if counts["trainer_steps"] // PERIOD > counts["evaluations"]:
      return EVALUATION
    status = table_status.TableStatus.from_counts(
      *counts["table"], self.rates.table.min_size
    )
    return UPDATE if self.rates.is_update_due(status) else COLLECTION

  def step(self, *interrupted) -> tuple[str, typing.Any]:
    """Makes a step; returns its phase, the counts, and an update's metrics."""
    before = self.counts()
    self.single.step(*interrupted)
    self._counts = None
    after = self.counts()
    metrics = self.control.status().learner
    if after["evaluations"] > before["evaluations"]:
      return EVALUATION, (after, None)
    if after["trainer_steps"] > before["trainer_steps"]:
      assert after["trainer_steps"] == before["trainer_steps"] + 1
      return UPDATE, (after, repr(metrics))
    return COLLECTION, (after, None)

  def step_until(self, due: str) -> None:
    """Makes steps until a phase is due."""
    while self.due != due:
      self.step()

  def save(self) -> typing.Any:
    """Saves a snapshot, and returns its content."""
    self.single.save()
    newest = snapshot_store.open_store(self.config, self.folder).newest()
    return snapshot_contents.read(newest.path)

  def copy(self, name: str, config=None) -> "Stepped":
    """Saves a snapshot, and returns a copy of the run that resumes from it.

    Args:
      name: name of the copy's folder.
      config: config of the copy; None: the same config.
    """
    self.single.save()
    path = self.path.with_name(name)
    shutil.copytree(self.path, path)
    return Stepped(config or self.config, path)


def check_saved_between_any_two_steps(algorithm, path):
  """A run resumes bit-identically before each phase, several times in a row."""
  run = Stepped(make_config(algorithm), path)
  run.step_until(EVALUATION)
  random, numbers = np.random.default_rng(0), itertools.count()
  for due in SAVED_BEFORE[algorithm]:
    for _ in range(random.integers(10, 40)):
      assert run.due == run.step()[0]
    run.step_until(due)
    other = run.copy(f"copy-{next(numbers)}")
    assert other.due == due
    for _ in range(50):
      assert other.step() == run.step(), due
    assert other.save() == run.save(), due
    run = other
  _, _, sampled = run.counts()["table"]
  assert sampled > 0


def check_interrupted_evaluation(algorithm, path):
  """An interrupted evaluation is repeated from its start."""
  run = Stepped(make_config(algorithm), path)
  returns = []
  for _ in range(2):
    run.step_until(EVALUATION)
    returns.append(run.step()[1][0]["mean_return"])
  run.step_until(EVALUATION)
  other = run.copy("other")
  for steps in (1, 8):
    interruptions = iter([False] * steps + [True])
    other.step(lambda left=interruptions: next(left))
    assert other.due == EVALUATION
  third = other.copy("third")
  expected = run.step()
  assert expected[0] == EVALUATION
  assert expected[1][0]["mean_return"] != returns[-1]
  assert other.step() == third.step() == expected
  assert run.due != EVALUATION


def check_limit_that_is_raised(algorithm, path):
  """Updates that a limit prevented are made once the limit is raised."""
  run, steps = Stepped(make_config(algorithm), path), []
  while run.counts()["trainer_steps"] < 100 or run.due != UPDATE:
    steps.append(run.step())
  limited = make_config(algorithm)
  limited.limits.trainer_steps = run.counts()["trainer_steps"]
  first = Stepped(limited, path.with_name("limited"))
  assert [first.step() for _ in steps] == steps
  second = first.copy("raised", make_config(algorithm))
  assert first.step()[0] == COLLECTION
  for _ in range(100):
    assert second.step() == run.step()
  assert second.save() == run.save()


def check_changed_ratio(algorithm, path):
  """Updates and steps alternate at the new ratio at once, without a burst."""
  run = Stepped(make_config(algorithm), path)
  for _ in range(500):
    run.step()
  for number, change in enumerate(
    (
      {"samples_per_insert": 40.0},
      {"samples_per_insert": 0.4},
      {"samples_per_insert": 0.0},
      {"min_size": 290},
    )
  ):
    changed = make_config(algorithm)
    changed.replay.update(change)
    other = run.copy(f"changed-{number}", changed)
    done = [other.step()[0] for _ in range(300)]
    ratio = changed.replay.samples_per_insert or changed.learner.batch_size
    per_item = ratio / changed.learner.batch_size  # updates per item
    steps = [i for i, phase in enumerate(done) if phase == COLLECTION]
    # The end of an episode completes its last n_step items in one step.
    most = ENVIRONMENTS * changed.adder.n_step
    assert np.diff([-1, *steps]).max() <= most * per_item + 3, change
    # Some steps are autoresets, which complete no item.
    updates = done.count(UPDATE)
    rate = updates / len(steps) / (ENVIRONMENTS * per_item)
    assert 0.75 < rate < 1.1, change


def check_larger_batch(algorithm, path):
  """Updates from a queue wait for the rollouts of the larger batch."""
  run = Stepped(make_config(algorithm), path)
  run.step_until(UPDATE)
  changed = make_config(algorithm)
  changed.learner.update({"batch_size": 12, "minibatch_size": 12})
  other = run.copy("larger", changed)
  done = [other.step()[0] for _ in range(60)]
  assert done.count(UPDATE) > 2


def check_evaluations_of_another_size(algorithm, path):
  """Evaluations with another number of episodes use new environments."""
  run = Stepped(make_config(algorithm), path)
  run.step_until(EVALUATION)
  changed = make_config(algorithm)
  changed.evaluation.episodes = 5
  other = run.copy("other", changed)
  assert other.step()[0] == EVALUATION
  assert other.control.status().evaluation.episodes == 5


if __name__ == "__main__":
  _, algorithm, path, *checks = sys.argv
  for check in checks:
    print(check, file=sys.stderr, flush=True)
    globals()[f"check_{check}"](algorithm, pathlib.Path(path) / check / "run")
