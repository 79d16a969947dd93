"""Tests of bonuses: which steps are new, and what learners get."""

import numpy as np
import pytest
import tensorflow as tf

from slipway.agents import core
from slipway.agents.bonuses import learner as bonuses
from slipway.configs import dqn, mpo, ppo, sac
from slipway.replay.items import sequences, transitions
from slipway.replay.tables import dataset
from tests.agents import collected
from tests.environments import given, shaped

GET_CONFIG = {
  "dqn": dqn.get_config,
  "ppo": ppo.get_config,
  "sac": sac.get_config,
  "retrace": mpo.get_config,
}
KINDS = ("rnd", "icm")
SPEC = given.spec_of((2,), actions=2)


def make_config(name, kind, **bonus):
  config = GET_CONFIG[name]()
  config.network.hidden_sizes = (16, 16)
  config.topology.environments_per_worker = 4
  config.bonus.update({"kind": kind, **bonus})
  if name in ("sac", "retrace"):
    config.environment.time_limit = 30  # so that episodes end
  if name == "retrace":
    config.learner.update({"critic_target": "retrace", "batch_size": 8})
  if name == "dqn":
    config.adder.n_step = 1
  if name == "ppo":
    config.learner.epochs = 2  # to save time
  return config


class Receiver:
  """A learner that keeps the newest batch, and learns nothing."""

  def __init__(self):
    self.steps = tf.Variable(tf.zeros((), tf.int64))
    self.checkpointed = {"steps": self.steps}
    self.data = None

  def update(self, batch):
    self.data = batch.data
    self.steps.assign_add(1)
    return core.Update({"loss": tf.constant(0.0)})


def make_bonus(kind, **bonus):
  receiver = Receiver()
  config = make_config("dqn", kind, **bonus)
  return bonuses.add_bonus(config, SPEC, receiver), receiver


def make_transitions(before, action, after):
  size = len(action)
  return dataset.Batch(
    transitions.Transition(
      tf.constant(before, tf.float32),
      tf.constant(action, tf.int32),
      tf.fill([size], 3.0),
      tf.fill([size], 0.99),
      tf.constant(after, tf.float32),
    )
  )


def test_without_a_kind_the_learner_is_the_same():
  learner, receiver = make_bonus("none")
  assert learner is receiver


@pytest.mark.parametrize("kind", KINDS)
def test_rewards_rise_by_the_weight_on_average(kind):
  learner, receiver = make_bonus(kind, weight=0.5)
  random = np.random.default_rng(0)
  batch = make_transitions(
    random.normal(size=(64, 2)),
    random.integers(2, size=64),
    random.normal(size=(64, 2)),
  )
  metrics = learner.update(batch).metrics
  bonus = receiver.data.r_t.numpy() - 3.0
  assert (bonus >= 0).all()
  assert bonus.mean() == pytest.approx(0.5, rel=1e-4)
  np.testing.assert_allclose(metrics["bonus_mean"], bonus.mean(), rtol=1e-4)
  assert set(metrics) == {"loss", "bonus_mean", "bonus_loss"}
  for name in ("o_tm1", "a_tm1", "discount_t", "o_t"):
    np.testing.assert_array_equal(
      getattr(receiver.data, name), getattr(batch.data, name)
    )


def make_corners(corners, size=64):
  """Returns transitions that end near some of the four corners."""
  random = np.random.default_rng(len(corners))
  end = np.array([[-1, -1], [-1, 1], [1, -1], [1, 1]])[
    random.choice(corners, size=size)
  ]
  after = end + random.normal(0, 0.05, (size, 2))
  before = random.normal(0, 0.05, (size, 2))
  return make_transitions(before, random.integers(2, size=size), after)


def test_rnd_gives_more_for_observations_that_are_rare():
  learner, receiver = make_bonus("rnd", learning_rate=1e-3)
  update = tf.function(learner.update, autograph=False)
  for _ in range(300):
    update(make_corners([0, 1, 2]))
  learner.update(make_corners([0, 1, 2, 3]))
  is_rare = receiver.data.o_t.numpy().sum(axis=1) > 1
  bonus = receiver.data.r_t.numpy() - 3.0
  assert bonus[is_rare].min() > 5 * bonus[~is_rare].max()


def make_moves(surprising, size=64):
  """Returns steps by +1 or -1, by the action; surprising ones by the other."""
  random = np.random.default_rng(int(surprising))
  before, action = (
    random.uniform(-2, 2, (size, 2)),
    random.integers(2, size=size),
  )
  move = (2 * action - 1) * (-1 if surprising else 1)
  after = before + np.stack([move, np.zeros(size)], axis=1)
  return make_transitions(before, action, after)


def test_icm_gives_more_for_results_that_no_model_expects():
  learner, receiver = make_bonus("icm", learning_rate=1e-3)
  update = tf.function(learner.update, autograph=False)
  for _ in range(500):
    update(make_moves(surprising=False))
  found = {}
  for surprising in (False, True):
    learner.update(make_moves(surprising))
    found[surprising] = (receiver.data.r_t.numpy() - 3.0).mean()
  assert found[True] > 5 * found[False]


def test_the_weight_of_the_forward_model_changes_the_features():
  batch, found = make_moves(surprising=False), []
  for weight in (0.1, 0.9):
    learner, _ = make_bonus("icm", forward_weight=weight)
    update = tf.function(learner.update, autograph=False)
    for _ in range(20):
      update(batch)
    found.append(collected.get_values(learner))
  # Adam's steps hardly depend on the scale of a loss, only on the sum of the
  # gradients of both models.
  networks = [name for name in found[0] if name.startswith("bonus/")]
  changes = [np.abs(found[0][x] - found[1][x]).max() for x in networks]
  assert np.median(changes) > 1e-3


def test_autoresets_have_no_bonus():
  learner, receiver = make_bonus("rnd")
  random = np.random.default_rng(0)
  first = np.zeros((8, 6), bool)
  first[2, 3] = first[5, 1] = first[7, 0] = True
  sequence = sequences.Sequence(
    observation=tf.constant(random.normal(size=(8, 6, 2)), tf.float32),
    action=tf.zeros((8, 5), tf.int32),
    reward=tf.zeros((8, 5)),
    discount=tf.ones((8, 5)),
    ended=tf.zeros((8, 5), tf.bool),
    first=tf.constant(first),
    action_before=None,
    reward_before=None,
    extras={},
  )
  learner.update(dataset.Batch(sequence))
  np.testing.assert_array_equal(receiver.data.reward == 0, first[:, 1:])


def make_batch(config, learner):
  items = config.learner.batch_size
  items //= config.replay.get("transitions_per_item", 1)
  return collected.collect_batch(config, learner.get_variables(), items)


@pytest.mark.parametrize(
  ("name", "kind"),
  [
    ("dqn", "rnd"),
    ("dqn", "icm"),
    ("ppo", "icm"),
    ("sac", "rnd"),
    ("retrace", "icm"),
  ],
)
def test_a_restored_learner_continues_equally(name, kind, tmp_path):
  config = make_config(name, kind, batch_size=100)
  builder, spec = collected.build(config)
  learner, other = (builder.make_learner(config, spec) for _ in range(2))
  batch = make_batch(config, learner)
  before = collected.get_values(learner)
  update = tf.function(learner.update, autograph=False)
  metrics = update(batch).metrics
  assert metrics["bonus_mean"] > 0 and np.isfinite(metrics["bonus_loss"])
  after = collected.get_values(learner)
  assert any((before[x] != after[x]).any() for x in before if "bonus" in x)
  collected.restore(learner, other, tmp_path)
  one, two = (x.update(batch).metrics for x in (learner, other))
  for metric, value in one.items():
    np.testing.assert_allclose(value, two[metric], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
  ("name", "kind", "kwargs"),
  [
    ("ppo", "icm", {"action": "multi_discrete", "masked": True}),
    ("dqn", "rnd", {"action": "multi_discrete", "masked": True}),
    ("dqn", "icm", {"action": "multi_binary", "observation": "bytes"}),
    ("dqn", "icm", {"observation": "hwc"}),
    ("ppo", "rnd", {"observation": "hwc"}),
  ],
)
def test_bonuses_fit_all_spaces(name, kind, kwargs):
  config = make_config(name, kind)
  with config.unlocked():
    config.environment.update(shaped.config_of(**kwargs))
  learner = collected.make_learner(config)
  batch = make_batch(config, learner)
  assert learner.update(batch).metrics["bonus_mean"] > 0
