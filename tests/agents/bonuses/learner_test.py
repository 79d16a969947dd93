"""Tests of bonuses: which steps are new, and what learners get."""

import numpy as np
import pytest
import tensorflow as tf

from slipway.agents import core
from slipway.agents.bonuses import icm, novelty, rnd
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
    config.replay.transitions_per_item = 1
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


def make_bonus(kind, rows=64, spec=SPEC, torso="mlp", **bonus):
  receiver = Receiver()
  config = make_config("dqn", kind, **bonus)
  config.learner.batch_size, config.network.torso = rows, torso
  return bonuses.add_bonus(config, spec, receiver), receiver


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
def test_rewards_alone_change(kind):
  learner, receiver = make_bonus(kind)
  random = np.random.default_rng(0)
  batch = make_transitions(
    random.normal(size=(64, 2)),
    random.integers(2, size=64),
    random.normal(size=(64, 2)),
  )
  metrics = learner.update(batch).metrics
  bonus = receiver.data.r_t.numpy() - 3.0
  assert (bonus > 0).all()
  np.testing.assert_allclose(metrics["bonus_mean"], bonus.mean(), rtol=1e-4)
  assert set(metrics) == {"loss", "bonus_mean", "bonus_loss"}
  for name in ("o_tm1", "a_tm1", "discount_t", "o_t"):
    np.testing.assert_array_equal(
      getattr(receiver.data, name), getattr(batch.data, name)
    )


def make_rollouts(random, first):
  """Returns rollouts of random observations, without rewards."""
  rows, steps = first.shape[0], first.shape[1] - 1
  sequence = sequences.Sequence(
    observation=tf.constant(
      random.normal(1, 3, size=(rows, steps + 1, 2)), tf.float32
    ),
    action=tf.zeros((rows, steps), tf.int32),
    reward=tf.zeros((rows, steps)),
    discount=tf.ones((rows, steps)),
    ended=tf.zeros((rows, steps), tf.bool),
    first=tf.constant(first),
    action_before=None,
    reward_before=None,
    extras={},
  )
  return dataset.Batch(sequence)


def test_bonuses_are_divided_by_the_deviation_of_their_returns():
  # Burda et al. 2019, section 2.4: intrinsic rewards i_t divided by the running
  # deviation of intrinsic returns R_t = i_t + gamma R_{t-1}, and observations
  # whitened and clipped to [-5, 5].
  learner, receiver = make_bonus("rnd", rows=3, weight=0.7, learning_rate=0.0)
  config = make_config("dqn", "rnd")
  network = rnd.RandomNetworkDistillation(
    config, SPEC.observations, SPEC.actions
  )
  random, gamma = np.random.default_rng(0), config.adder.discount
  observations, returns, sums = [], [], np.zeros(3)
  for _ in range(4):
    first = np.zeros((3, 6), bool)
    first[random.integers(3), random.integers(6)] = True
    batch = make_rollouts(random, first)
    learner.update(batch)
    after = batch.data.observation.numpy()[:, 1:].astype(np.float64)
    observations.extend(after.reshape(-1, 2))
    white = (after - np.mean(observations, 0)) / np.std(observations, 0)
    white = np.clip(white, -5, 5).reshape(-1, 2).astype(np.float32)
    found = network(novelty.Steps(None, None, tf.constant(white))).novelty
    found = found.numpy().astype(np.float64).reshape(3, 5)
    for t in range(5):
      for row in range(3):
        if not first[row, t + 1]:
          sums[row] = found[row, t] + gamma * sums[row]
          returns.append(sums[row])
    expected = np.where(first[:, 1:], 0, 0.7 * found / np.std(returns))
    np.testing.assert_allclose(receiver.data.reward, expected, rtol=1e-4)


def test_the_bonus_fades_while_nothing_is_new():
  learner, _ = make_bonus("rnd", learning_rate=1e-3)
  update = tf.function(learner.update, autograph=False)
  batches = (make_corners([0, 1, 2, 3]) for _ in range(400))
  found = [update(x).metrics["bonus_mean"].numpy() for x in batches]
  assert max(found[-10:]) < 0.05 * np.mean(found[:10])


@pytest.mark.parametrize("torso", ["mlp", "minatar_cnn", "nature_cnn"])
def test_pixels_are_whitened(torso):
  # A pixel's mean and contrast make no difference.
  spec = given.spec_of((1, 36, 36), np.uint8, actions=2)
  random = np.random.default_rng(0)
  image = random.integers(0, 100, (2, 8, 1, 36, 36))
  shift = random.integers(0, 56, (1, 36, 36))
  found = []
  for observation in (image, shift + image, 2 * image):
    learner, receiver = make_bonus("rnd", rows=8, spec=spec, torso=torso)
    before, after = observation.astype(np.uint8)
    batch = make_transitions(before, np.zeros(8), after)
    learner.update(
      batch._replace(
        data=batch.data._replace(
          o_tm1=tf.constant(before), o_t=tf.constant(after)
        )
      )
    )
    found.append(receiver.data.r_t.numpy() - 3.0)
  assert found[0].min() > 0
  np.testing.assert_allclose(found[0], found[1], rtol=1e-3)
  np.testing.assert_allclose(found[0], found[2], rtol=1e-3)


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
  learner, receiver = make_bonus("rnd", rows=8)
  first = np.zeros((8, 6), bool)
  first[2, 3] = first[5, 1] = first[7, 0] = True
  learner.update(make_rollouts(np.random.default_rng(0), first))
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
    ("ppo", "icm", {"observation": "images_and_numbers"}),
    ("dqn", "rnd", {"observation": "small_image_and_numbers", "masked": True}),
  ],
)
def test_bonuses_fit_all_spaces(name, kind, kwargs):
  config = make_config(name, kind)
  with config.unlocked():
    config.environment.update(shaped.config_of(**kwargs))
  learner = collected.make_learner(config)
  batch = make_batch(config, learner)
  assert learner.update(batch).metrics["bonus_mean"] > 0


def test_icm_has_the_equations_of_the_paper():
  # Pathak et al. 2017: the inverse model's cross entropy of equation 3, the
  # forward loss of equation 5, the bonus of equation 6 and the sum of 7, in
  # NumPy.
  config = make_config("dqn", "icm", forward_weight=0.3, features=8)
  module = icm.IntrinsicCuriosity(config, SPEC.observations, SPEC.actions)
  b2, w2, b0, w0, b1, w1, *models = (
    x.numpy().astype(np.float64) for x in module.learned
  )

  def phi(x):
    hidden = np.maximum(np.maximum(x @ w0 + b0, 0) @ w1 + b1, 0)
    return hidden @ w2 + b2

  def model(x, y, variables):
    b0, w0, b1, w1 = variables
    return np.maximum(np.concatenate([x, y]) @ w0 + b0, 0) @ w1 + b1

  random = np.random.default_rng(0)
  before, after = random.normal(size=(2, 6, 2))
  action = random.integers(2, size=6)
  measured = module(
    novelty.Steps(
      tf.constant(before, tf.float32),
      tf.constant(action, tf.int32),
      tf.constant(after, tf.float32),
    )
  )
  for i in range(6):
    predicted = model(phi(before[i]), np.eye(2)[action[i]], models[:4])
    error = sum((predicted - phi(after[i])) ** 2) / 2
    logits = model(phi(before[i]), phi(after[i]), models[4:])
    inverse = np.log(np.exp(logits).sum()) - logits[action[i]]
    np.testing.assert_allclose(measured.novelty[i], error, rtol=1e-4)
    loss = 0.7 * inverse + 0.3 * error
    np.testing.assert_allclose(measured.loss[i], loss, rtol=1e-4)
