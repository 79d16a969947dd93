"""Tests of the DQN learner: updates, targets, weights and variables."""

import numpy as np
import pytest
import tensorflow as tf

from slipway.agents.dqn import learning
from slipway.configs import dqn, prioritized_dqn
from slipway.replay.items import priorities, transitions
from slipway.replay.tables import dataset
from tests.environments import given

BATCH, ACTIONS = 6, 2
SPEC = given.spec_of((3,), actions=ACTIONS)
PROBABILITIES = np.array([0.01, 0.02, 0.04, 0.1, 0.3, 0.5])


def make_config(base=dqn, **learner):
  config = base.get_config()
  config.network.hidden_sizes = (5,)
  config.learner.update(
    {
      "target_update_period": 3,
      "huber_delta": 1.0,
      "decay_steps": 0,
      "averaging": 0.0,
      **learner,
    }
  )
  return config


def make_batch(seed=0):
  random = np.random.default_rng(seed)
  return dataset.Batch(
    keys=tf.range(BATCH, dtype=tf.int64),
    probabilities=tf.constant(PROBABILITIES, tf.float64),
    table_size=tf.fill([BATCH], tf.constant(100, tf.int64)),
    versions=tf.ones([BATCH], tf.int64),
    data=transitions.Transition(
      o_tm1=tf.constant(random.normal(size=(BATCH, 3)), tf.float32),
      a_tm1=tf.constant(random.integers(0, ACTIONS, BATCH), tf.int32),
      r_t=tf.constant(3 * random.normal(size=BATCH), tf.float32),
      discount_t=tf.constant(
        np.where(random.random(BATCH) < 0.3, 0, 0.9), tf.float32
      ),
      o_t=tf.constant(random.normal(size=(BATCH, 3)), tf.float32),
    ),
  )


class SlowLearner:
  """DQN learner in NumPy with float64: one hidden layer, and Adam."""

  def __init__(self, config, variables):
    self._config = config
    names = [f"advantage/{x}" for x in
             ("hidden/w", "hidden/b", "output/w", "output/b")]  # fmt: skip
    self.names = names
    self.online = [variables[name].astype(float) for name in names]
    self.target = [x.copy() for x in self.online]
    self._m = [np.zeros_like(x) for x in self.online]
    self._v = [np.zeros_like(x) for x in self.online]
    self._steps = 0

  def update(self, batch, weights):
    """Returns TD errors, loss and the gradient's norm before clipping."""
    o_tm1, a_tm1, r_t, discount_t, o_t = (x.numpy() for x in batch.data[:5])
    index, c = np.arange(BATCH), self._config.learner
    _, _, w2, _ = self.online
    q_t, _, _ = self._forward(self.target, o_t)
    selector = self._forward(self.online, o_t)[0] if c.double else q_t
    q_tm1, hidden, active = self._forward(self.online, o_tm1)
    target = r_t + discount_t * q_t[index, selector.argmax(axis=1)]
    errors = target - q_tm1[index, a_tm1]
    size = np.abs(errors)
    losses = np.where(
        size < c.huber_delta, size**2 / 2,
        c.huber_delta * (size - c.huber_delta / 2),
    )  # fmt: skip
    slope = -np.clip(
      errors, -c.huber_delta, c.huber_delta
    )  # gradient by q_tm1[a_tm1]
    d_q = np.zeros_like(q_tm1)
    d_q[index, a_tm1] = weights * slope / BATCH
    d_hidden = (d_q @ w2.T) * active
    gradients = [
        o_tm1.T @ d_hidden, d_hidden.sum(0), hidden.T @ d_q, d_q.sum(0)
    ]  # fmt: skip
    norm = np.sqrt(sum((g**2).sum() for g in gradients))
    scale = min(1.0, c.max_gradient_norm / norm)
    self._adam([scale * g for g in gradients])
    if self._steps % c.target_update_period == 0:
      self.target = [x.copy() for x in self.online]
    return errors, (weights * losses).mean(), norm

  def _forward(self, variables, observation):
    w1, b1, w2, b2 = variables
    before = observation @ w1 + b1
    hidden = np.maximum(before, 0)
    return hidden @ w2 + b2, hidden, before > 0

  def _adam(self, gradients):
    """Takes a step of Adam, which adds epsilon to sqrt(v).

    Kingma and Ba 2015, end of section 2.
    """
    t, c = self._steps + 1, self._config.learner
    decay = max(0.05, 1 - self._steps / c.decay_steps) if c.decay_steps else 1
    self._steps = t
    rate = decay * c.learning_rate * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
    for i, g in enumerate(gradients):
      self._m[i] = 0.9 * self._m[i] + 0.1 * g
      self._v[i] = 0.999 * self._v[i] + 0.001 * g**2
      change = rate * self._m[i] / (np.sqrt(self._v[i]) + c.adam_epsilon)
      self.online[i] = self.online[i] - change


def test_published_variables_are_the_average_of_the_copies():
  config = make_config(target_update_period=2, averaging=0.4)
  agent = learning.DQNLearner(config, SPEC)
  initial, expected, copies = agent.get_variables(), {}, 0
  for step in range(9):
    agent.update(make_batch(step))
    if step % 2:  # the target network was updated
      copies += 1
      weight = max(0.4, 1 / copies)
      for name, value in agent.online.get_variables().items():
        before = expected.get(name, np.zeros_like(value))
        expected[name] = (1 - weight) * before + weight * value
    for name, value in agent.get_variables().items():
      wanted = expected.get(name, initial[name])
      np.testing.assert_allclose(value, wanted, rtol=1e-5, atol=1e-6)
  assert copies == 4


# Items of different probabilities count equally without prioritized sampling.
@pytest.mark.parametrize(
  "learner",
  [
    {},
    {"double": True, "learning_rate": 0.05, "target_update_period": 100},
    {"max_gradient_norm": 0.05},
    {"huber_delta": 0.3, "learning_rate": 0.01, "adam_epsilon": 1e-3},
    {"decay_steps": 5},
  ],
  ids=lambda learner: ",".join(learner) or "dqn",
)
def test_updates_equal_the_slow_ones(learner):
  config = make_config(**learner)
  agent = learning.DQNLearner(config, SPEC)
  slow = SlowLearner(config, agent.get_variables())
  update = tf.function(agent.update, autograph=False)
  for step in range(7):  # includes two updates of the target network
    batch = make_batch(step)
    metrics, found = update(batch)
    errors, loss, norm = slow.update(batch, np.ones(BATCH))
    expected = priorities.from_td_errors(errors)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(metrics["loss"], loss, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
      metrics["gradient_norm"], norm, rtol=1e-4, atol=1e-5
    )
    variables = agent.get_variables()
    for name, expected in zip(slow.names, slow.online, strict=True):
      np.testing.assert_allclose(
        variables[name], expected, rtol=1e-4, atol=1e-5, err_msg=name
      )
  assert agent.steps.numpy() == 7


def test_importance_weights_scale_the_loss_and_beta_is_annealed():
  config = make_config(prioritized_dqn, double=False)
  config.replay.importance_exponent_start = 0.2
  config.replay.importance_exponent_end = 0.8
  config.replay.importance_steps = 4
  agent = learning.DQNLearner(config, SPEC)
  slow = SlowLearner(config, agent.get_variables())
  update = tf.function(agent.update, autograph=False)
  for beta in (0.2, 0.35, 0.5, 0.65, 0.8, 0.8, 0.8):
    weights = (1 / (100 * PROBABILITIES)) ** beta
    weights /= weights.max()
    batch = make_batch(0)
    metrics, _ = update(batch)
    _, loss, _ = slow.update(batch, weights)
    np.testing.assert_allclose(metrics["loss"], loss, rtol=1e-4, atol=1e-5)


def test_equal_seeds_give_equal_initial_variables():
  def variables(seed):
    config = make_config()
    config.seed = seed
    agent = learning.DQNLearner(config, SPEC)
    return np.concatenate([x.ravel() for x in agent.get_variables().values()])

  np.testing.assert_array_equal(variables(1), variables(1))
  assert (variables(1) != variables(2)).any()


@pytest.mark.parametrize("averaging", [0.0, 0.4])
def test_checkpoint_restores_the_next_update(averaging, tmp_path):
  first = learning.DQNLearner(make_config(averaging=averaging), SPEC)
  for step in range(4):
    first.update(make_batch(step))
  path = tf.train.Checkpoint(**first.checkpointed).save(str(tmp_path / "c"))
  config = make_config(averaging=averaging)
  config.seed = 9
  second = learning.DQNLearner(config, SPEC)
  status = tf.train.Checkpoint(**second.checkpointed).restore(path)
  status.assert_existing_objects_matched()
  assert second.steps.numpy() == 4
  for step in range(4, 7):
    expected = first.update(make_batch(step))
    found = second.update(make_batch(step))
    np.testing.assert_array_equal(found.priorities, expected.priorities)
  published = second.get_variables()
  for name, value in first.get_variables().items():
    np.testing.assert_array_equal(published[name], value, err_msg=name)


def test_bcq_chooses_among_likely_actions_and_learns_which_these_are():
  """Compares with Fujimoto et al. 2019, discrete BCQ, in float64."""
  config = make_config(double=True, huber_delta=1e6)
  config.network.bcq_threshold = 0.5
  agent, batch = learning.DQNLearner(config, SPEC), make_batch(0)
  names = agent.online.get_variables()
  random = np.random.default_rng(2)
  for network in (agent.online, agent.target):
    network.load(
      {k: 0.5 * random.normal(size=x.shape) for k, x in names.items()}
    )
  o_tm1, a_tm1, r_t, discount_t, o_t = batch.data[:5]
  online, online_t = agent.online(o_tm1), agent.online(o_t)
  q_t = agent.target(o_t).values.numpy()
  excluded = loss = 0
  for i in range(BATCH):
    p = np.exp(online_t.behaviour[i].numpy().astype(float))
    likely = [a for a in range(ACTIONS) if p[a] / p.max() > 0.5]
    excluded += len(likely) < ACTIONS
    best = max(likely, key=lambda a, i=i: online_t.values[i, a])
    chosen = int(a_tm1[i])
    target = float(r_t[i]) + float(discount_t[i]) * q_t[i, best]
    logits = online.behaviour[i].numpy().astype(float)
    cloning = np.log(np.exp(logits).sum()) - logits[chosen]
    error = target - float(online.values[i, chosen])
    loss += (0.5 * error**2 + cloning) / BATCH
    assert online_t.choice[i].numpy().argmax() == best
  assert 0 < excluded < BATCH
  metrics, _ = agent.update(batch)
  assert float(metrics["loss"]) == pytest.approx(loss, rel=1e-4)


def test_bcq_with_the_lowest_threshold_has_the_values_of_double_dqn():
  found = []
  for threshold in (0.0, 1e-30):
    config = make_config(double=True, max_gradient_norm=1e6)
    config.network.bcq_threshold = threshold
    agent = learning.DQNLearner(config, SPEC)
    for step in range(4):
      agent.update(make_batch(step))
    found.append(agent.get_variables())
  base, same = found
  assert any(x.startswith("behaviour") for x in same)
  assert not any(x.startswith("behaviour") for x in base)
  for name, value in base.items():
    np.testing.assert_array_equal(value, same[name])


def record_last(batch, count):
  """Returns a batch whose last elements were recorded."""
  names = ("keys", "probabilities", "table_size", "versions")
  of_table = {x: getattr(batch, x)[: BATCH - count] for x in names}
  return batch._replace(**of_table, recorded=count)


@pytest.mark.parametrize("count", [0, 2, BATCH])
def test_only_recorded_actions_have_a_margin(count):
  config = make_config(margin_weight=0.3, margin=0.5)
  batch = make_batch(0)
  if count == BATCH:  # no workers
    config.dataset.path = "d"
  else:
    batch = record_last(batch, count)
  agent = learning.DQNLearner(config, SPEC)
  base = learning.DQNLearner(make_config(), SPEC)
  values = agent.online(batch.data.o_tm1).values.numpy().astype(float)
  expected = float(base.update(batch).metrics["loss"])
  for i in range(BATCH - count, BATCH):
    a = int(batch.data.a_tm1[i])
    raised = values[i] + 0.5 * (np.arange(ACTIONS) != a)
    expected += 0.3 * (raised.max() - values[i, a]) / BATCH
  found = float(agent.update(batch).metrics["loss"])
  assert found == pytest.approx(expected, rel=1e-5)
  if not count:
    for name, value in base.get_variables().items():
      np.testing.assert_array_equal(value, agent.get_variables()[name])


def test_recorded_elements_without_a_margin_count_like_others():
  agents = [learning.DQNLearner(make_config(), SPEC) for _ in range(2)]
  for step in range(4):
    agents[0].update(make_batch(step))
    agents[1].update(record_last(make_batch(step), 2))
  base, other = (agent.get_variables() for agent in agents)
  for name, value in base.items():
    np.testing.assert_array_equal(value, other[name])
