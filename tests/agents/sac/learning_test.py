"""The SAC learner: critics, targets, policy and temperature."""

import numpy as np
import pytest
import tensorflow as tf

from slipway.agents import policies, registry
from slipway.configs import sac
from slipway.environments import factory
from tests.agents import collected

ITEMS = 32


def make_config(**learner):
  config = sac.get_config()
  config.network.hidden_sizes = (16, 16)
  config.learner.update({"batch_size": ITEMS, **learner})
  return config


def make_learner(config):
  spec = factory.make_spec(config.environment)
  return registry.make_builder("sac").make_learner(config, spec)


@pytest.fixture(scope="module")
def batch():
  config = make_config()
  spec = factory.make_spec(config.environment)
  table = registry.make_builder("sac").make_table(config, spec)
  variables = make_learner(config).get_variables()
  data = collected.collect(config, variables, ITEMS)
  return collected.make_batch(table.schema, data)


def make_update(learner):
  return tf.function(learner.update, autograph=False)


def part(values, name):
  return {key: x for key, x in values.items() if key.split("/")[0] == name}


def equal(one, other, name):
  one, other = part(one, name), part(other, name)
  assert one.keys() == other.keys() and one
  return all((one[key] == other[key]).all() for key in one)


def test_an_update_changes_all_parts(batch):
  learner = make_learner(make_config())
  before = collected.values_of(learner)
  metrics, priorities = make_update(learner)(batch)
  after = collected.values_of(learner)
  for name in ("policy", "critics", "targets", "log_temperature"):
    assert not equal(before, after, name), name
  assert learner.steps.numpy() == 1
  assert priorities is None
  for name, value in metrics.items():
    assert value.shape == () and np.isfinite(value), name


def test_the_critics_differ_and_their_targets_start_equal():
  values = collected.values_of(make_learner(make_config()))
  first, second = (
    [x for key, x in values.items() if key.startswith(f"critics/{i}/")]
    for i in range(2)
  )
  assert any((x != y).any() for x, y in zip(first, second, strict=True))
  for key, value in part(values, "critics").items():
    target = values[key.replace("critics", "targets")]
    np.testing.assert_array_equal(value, target)


def test_only_the_policy_is_published():
  names = make_learner(make_config()).get_variables()
  assert names
  assert all(name.startswith(f"{policies.POLICY}/") for name in names)


@pytest.mark.parametrize("tau", [0.0, 0.25, 1.0])
def test_targets_follow_by_tau(batch, tau):
  learner = make_learner(make_config(tau=tau))
  update = make_update(learner)
  for _ in range(3):
    before = collected.values_of(learner)
    update(batch)
    after = collected.values_of(learner)
    for key, online in part(after, "critics").items():
      key = key.replace("critics", "targets")
      expected = (1 - tau) * before[key] + tau * online
      np.testing.assert_allclose(after[key], expected, rtol=1e-5, atol=1e-6)


def test_the_critics_do_not_learn_from_the_policys_loss(batch):
  """Their step is the same whatever else an update does after it."""
  results = []
  for temperature in (1.0, 1e-6):
    learner = make_learner(make_config(temperature=temperature))
    # Without a bootstrap, the critics' loss has no temperature.
    data = batch.data._replace(discount_t=tf.zeros([ITEMS]))
    make_update(learner)(batch._replace(data=data))
    results.append(collected.values_of(learner))
  assert equal(*results, "critics")
  assert not equal(*results, "policy")


@pytest.mark.parametrize(("log_std", "rises"), [(-6.0, True), (-0.3, False)])
def test_the_temperature_moves_policies_to_their_target_entropy(
  batch, log_std, rises
):
  # Pendulum's actions are one number: the target is -1 nats.
  learner = make_learner(make_config())
  variables = learner.get_variables()
  name = f"{policies.POLICY}/output/b"
  variables[name] = np.float32([0.0, log_std])
  variables[f"{policies.POLICY}/output/w"] *= 0
  learner.checkpointed["policy"].load(variables)
  before = learner.checkpointed["log_temperature"].numpy()
  metrics, _ = make_update(learner)(batch)
  after = learner.checkpointed["log_temperature"].numpy()
  assert (metrics["entropy"] < -1) == rises
  assert (after > before) == rises


def test_a_terminated_step_does_not_see_what_comes_after(batch):
  batches = []
  for noise in (0.0, 2.0):
    data = batch.data._replace(
      discount_t=tf.zeros([ITEMS]), o_t=batch.data.o_t + noise
    )
    batches.append(batch._replace(data=data))
  results = collected.updated(make_learner(make_config()), batches)
  assert equal(*results, "critics") and equal(*results, "policy")


@pytest.mark.parametrize("restored", [False, True])
def test_updates_are_equal_for_a_seed_and_a_step(batch, restored, tmp_path):
  first, second = make_learner(make_config()), make_learner(make_config())
  updates = [make_update(first), make_update(second)]
  for _ in range(2):
    updates[0](batch)
    if not restored:
      updates[1](batch)
  if restored:
    collected.restored(first, second, tmp_path)
  for _ in range(2):
    for update in updates:
      update(batch)
  assert second.steps.numpy() == 4
  values = [collected.values_of(learner) for learner in (first, second)]
  for name in first.checkpointed:
    assert equal(*values, name), name
