"""Tests of learning from recorded actions, against sums in float64."""

import numpy as np
import pytest

from slipway.agents.networks import distributions, numpy_ops
from slipway.configs import catalog
from tests.agents import collected

ITEMS = 16


def make(name, environment="Pendulum-v1", **learner):
  """Returns a learner, and a batch that its own workers collected."""
  config = catalog.algorithms()[name].get_config()
  config.topology.environments_per_worker = 1
  config.normalization.update({"observations": False, "rewards": False})
  config.replay.transitions_per_item = 1
  config.adder.n_step = 1
  config.network.hidden_sizes = (16, 16)
  config.environment.name = environment
  config.learner.update({"batch_size": ITEMS, "tau": 1e-9, **learner})
  learner = collected.make_learner(config)
  batch = collected.collect_batch(config, learner.get_variables(), ITEMS)
  for name, tracked in learner.checkpointed.items():
    if name in ("critics", "target_critics", "value"):
      # So that the networks differ, and advantages are neither equal nor small.
      scale = 5.0 if name == "critics" else 8.0
      for variable in tracked.trainable_variables:
        variable.assign(scale * variable)
  return learner, batch


def evaluate(learner, name, *inputs):
  return learner.checkpointed[name](*inputs).numpy().astype(float)


def log_prob(learner, data):
  policy = evaluate(learner, "policy", data.o_tm1)
  return distributions.make_distribution(
    "tanh_gaussian", numpy_ops, policy
  ).log_prob(np.float64(data.a_tm1))


def test_iql_bootstraps_from_and_compares_with_the_expectiles():
  """Compares with Kostrikov et al. 2021, equations 5 to 7."""
  learner, batch = make("iql", advantage_temperature=0.5, max_weight=3.0)
  data = batch.data
  v_t = evaluate(learner, "value", data.o_t)[:, 0, 0]
  v_tm1 = evaluate(learner, "value", data.o_tm1)[:, 0, 0]
  q_tm1 = evaluate(learner, "critics", data.o_tm1, data.a_tm1)[:, :, 0]
  target_q = evaluate(learner, "target_critics", data.o_tm1, data.a_tm1)
  log_probs = log_prob(learner, data)
  metrics, _ = learner.update(batch)
  critic_loss = policy_loss = advantage = 0.0
  for i in range(ITEMS):
    y = float(data.r_t[i]) + float(data.discount_t[i]) * v_t[i]
    critic_loss += sum(0.5 * (y - q) ** 2 for q in q_tm1[i]) / ITEMS
    above = min(target_q[i, :, 0]) - v_tm1[i]
    advantage += above / ITEMS
    weight = min(np.exp(above / 0.5), 3.0)
    policy_loss -= weight * log_probs[i] / ITEMS
  assert float(metrics["critic_loss"]) == pytest.approx(critic_loss, rel=1e-4)
  assert float(metrics["advantage"]) == pytest.approx(advantage, rel=1e-4)
  assert float(metrics["policy_loss"]) == pytest.approx(policy_loss, rel=1e-3)


@pytest.mark.parametrize("expectile", [0.5, 0.95])
def test_state_values_become_the_expectile_of_the_targets(expectile):
  """With one observation, and constant critics, V is a single number."""
  learner, batch = make("iql", expectile=expectile, learning_rate=0.02)
  first = batch.data.o_tm1[:1]
  data = batch.data._replace(o_tm1=np.repeat(first, ITEMS, axis=0))
  q = evaluate(learner, "target_critics", data.o_tm1, data.a_tm1).min(axis=1)
  update = collected.make_update(learner)
  for _ in range(300):
    update(batch._replace(data=data))
  found = evaluate(learner, "value", first).item()
  errors = q[:, 0] - found
  weights = np.where(errors > 0, expectile, 1 - expectile)
  assert abs((weights * errors).mean()) < 0.02 * errors.std()


def test_td3_bc_equals_the_papers_loss_and_td3_without_a_weight():
  """Compares with Fujimoto and Gu 2021, section 5."""
  results = []
  for weight in (0.4, 0.0):
    learner, batch = make("td3_bc", bc_weight=weight, policy_period=1)
    data = batch.data
    action = evaluate(learner, "policy", data.o_tm1)
    metrics, _ = learner.update(batch)
    # The policy's loss uses the critics after their update.
    q = evaluate(learner, "critics", data.o_tm1, action.astype(np.float32))
    results.append((metrics, action, q[:, 0, 0], np.float64(data.a_tm1)))
  metrics, action, q, recorded = results[0]
  size = np.abs(q).mean()
  expected = 0.0
  for i in range(ITEMS):
    expected += 0.4 * (action[i, 0] - recorded[i, 0]) ** 2 - q[i] / size
  expected /= ITEMS
  assert float(metrics["policy_loss"]) == pytest.approx(expected, rel=1e-4)
  metrics, _, q, _ = results[1]
  assert float(metrics["policy_loss"]) == pytest.approx(-q.mean(), rel=1e-4)


@pytest.mark.parametrize("kind", ["exp", "binary"])
def test_crr_with_discrete_actions_equals_the_papers_sums(kind):
  """Means over the policy's actions are exact; section 3."""
  learner, batch = make(
    "crr",
    "CartPole-v1",
    advantage_weight=kind,
    **(
      {"advantage_temperature": 0.5, "max_weight": 3.0} if kind == "exp" else {}
    ),
  )
  data = batch.data
  logits, logits_t = (
    evaluate(learner, name, x)
    for name, x in (("policy", data.o_tm1), ("target_policy", data.o_t))
  )
  q_tm1 = evaluate(learner, "critics", data.o_tm1)
  q_t = evaluate(learner, "target_critics", data.o_t)
  metrics, _ = learner.update(batch)
  after = evaluate(learner, "critics", data.o_tm1)  # for the policy's loss
  critic_loss = policy_loss = 0.0
  for i in range(ITEMS):
    taken = int(data.a_tm1[i])
    p, p_t = (np.exp(x[i]) / np.exp(x[i]).sum() for x in (logits, logits_t))
    value = sum(p_t[a] * min(q_t[i, :, a]) for a in range(2))
    y = float(data.r_t[i]) + float(data.discount_t[i]) * value
    critic_loss += sum(0.5 * (y - q[taken]) ** 2 for q in q_tm1[i]) / ITEMS
    lowest = after[i].min(axis=0)
    advantage = lowest[taken] - sum(p[a] * lowest[a] for a in range(2))
    weight = float(advantage > 0)
    if kind == "exp":
      weight = min(np.exp(advantage / 0.5), 3.0)
    policy_loss -= weight * np.log(p[taken]) / ITEMS
  assert float(metrics["critic_loss"]) == pytest.approx(critic_loss, rel=1e-4)
  assert float(metrics["policy_loss"]) == pytest.approx(policy_loss, rel=1e-4)


def test_the_baseline_of_crr_is_the_mean_value_of_the_policys_actions():
  learner, batch = make("crr", action_samples=500)
  data = batch.data
  found = learner.update(batch).metrics["advantage"]
  samples = distributions.make_distribution(
    "tanh_gaussian", numpy_ops, evaluate(learner, "target_policy", data.o_tm1)
  )
  random, total = np.random.default_rng(0), 0.0
  taken = evaluate(learner, "critics", data.o_tm1, data.a_tm1)
  for _ in range(500):
    action = samples.sample(random).astype(np.float32)
    others = evaluate(learner, "critics", data.o_tm1, action)
    total += (taken.min(axis=1) - others.min(axis=1)).mean() / 500
  assert abs(total) > 0.02
  assert float(found) == pytest.approx(total, abs=0.1 * abs(total))


def test_cql_adds_the_excess_of_the_mean_over_all_actions():
  """With one dimension, the integral of exp(q) is a sum over a grid."""
  losses = []
  for weight in (0.0, 2.0):
    learner, batch = make("cql_sac", cql_weight=weight, cql_actions=3_000)
    data = batch.data
    taken = evaluate(learner, "critics", data.o_tm1, data.a_tm1)[:, :, 0]
    grid, steps = np.zeros_like(taken), 201
    for action in np.linspace(-1, 1, steps):
      actions = np.full((ITEMS, 1), action, np.float32)
      q = evaluate(learner, "critics", data.o_tm1, actions)[:, :, 0]
      grid += 2.0 / steps * np.exp(q)
    losses.append(float(learner.update(batch).metrics["critic_loss"]))
  expected = 2.0 * (np.log(grid) - taken).sum(axis=1).mean()
  assert losses[1] - losses[0] == pytest.approx(expected, rel=0.02)


def test_cql_without_a_weight_is_sac():
  found = []
  for name in ("cql_sac", "sac"):
    learner, batch = make(
      name, cql_weight=0.0, policy_learning_rate=0.0, learning_rate=3e-4
    )
    for _ in range(2):
      learner.update(batch)
    found.append(collected.get_values(learner))
  assert found[0].keys() == found[1].keys()
  for name, value in found[0].items():
    np.testing.assert_array_equal(value, found[1][name])


def test_rebrac_subtracts_the_error_of_the_next_actions():
  learner, batch = make("rebrac", target_noise=0.0, target_bc_weight=0.5)
  data = batch.data
  action = evaluate(learner, "target_policy", data.o_t)
  q_t = evaluate(
    learner, "target_critics", data.o_t, action.astype(np.float32)
  )[:, :, 0]
  q_tm1 = evaluate(learner, "critics", data.o_tm1, data.a_tm1)[:, :, 0]
  recorded, loss = data.a_t.numpy().astype(float), 0.0
  assert (recorded != data.a_tm1.numpy()).any()
  for i in range(ITEMS):
    error = (action[i, 0] - recorded[i, 0]) ** 2
    y = data.r_t[i] + data.discount_t[i] * (min(q_t[i]) - 0.5 * error)
    loss += sum(0.5 * (float(y) - q) ** 2 for q in q_tm1[i]) / ITEMS
  metrics, _ = learner.update(batch)
  assert float(metrics["critic_loss"]) == pytest.approx(loss, rel=1e-4)


def test_bcq_equals_the_papers_sums():
  """With a decoder that ignores the latents, all samples are one action."""
  learner, batch = make("bcq_continuous", perturbation=0.2)
  data = batch.data
  policies = {x: learner.checkpointed[x] for x in ("policy", "target_policy")}
  variables = policies["policy"].get_variables()
  variables["policy/decoder/linear_0/w"][3:] = 0.0
  policies["policy"].load(variables)
  variables["policy/perturbation/output/b"] += 1.0
  policies["target_policy"].load(variables)
  shown = {}
  for name, x in (("policy", data.o_tm1), ("target_policy", data.o_t)):
    shown[name] = evaluate(learner, name, x).astype(np.float32)
  q_tm1 = evaluate(learner, "critics", data.o_tm1, data.a_tm1)[:, :, 0]
  q_t = evaluate(learner, "target_critics", data.o_t, shown["target_policy"])
  metrics, _ = learner.update(batch)
  after = evaluate(learner, "critics", data.o_tm1, shown["policy"])
  loss = 0.0
  for i in range(ITEMS):
    value = 0.75 * min(q_t[i, :, 0]) + 0.25 * max(q_t[i, :, 0])
    y = float(data.r_t[i]) + float(data.discount_t[i]) * value
    loss += sum(0.5 * (y - q) ** 2 for q in q_tm1[i]) / ITEMS
  assert float(metrics["critic_loss"]) == pytest.approx(loss, rel=1e-4)
  expected = -after[:, 0, 0].mean()
  assert float(metrics["policy_loss"]) == pytest.approx(expected, rel=1e-4)


def test_bcq_acts_by_the_first_critic_among_the_generated_actions():
  learner, batch = make("bcq_continuous", perturbation=0.0)
  observation, variables = batch.data.o_tm1.numpy(), learner.get_variables()
  values, zeros = [], np.zeros(ITEMS, np.float32)
  for count in (2, 20):  # the second has those of the first, too
    config = catalog.algorithms()["bcq_continuous"].get_config()
    config.network.hidden_sizes = (16, 16)
    config.normalization.observations = False
    config.learner.action_samples = count
    builder, spec = collected.build(config)
    actor = builder.make_greedy_actor(config, spec)
    actor.load(variables)
    action = actor.act(observation, zeros, zeros > 0).action
    values.append(evaluate(learner, "critics", observation, action)[:, 0, 0])
  assert (values[1] >= values[0] - 1e-5).all()
  assert (values[1] > values[0] + 1e-5).any()


def test_bcqs_model_learns_the_recorded_actions():
  learner, batch = make("bcq_continuous", learning_rate=1e-2)
  update = collected.make_update(learner)
  losses = [float(update(batch).metrics["model_loss"]) for _ in range(200)]
  assert losses[-1] < 0.5 * losses[0]
