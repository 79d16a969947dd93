"""Fields: all declarations are checked, and each error is one line."""

import math

import ml_collections
import pytest

from slipway.agents import registry
from slipway.configs import base, catalog, checks, dqn, fields

CONFIGS = {
  (name, preset): module.get_config(preset)
  for name, module in catalog.algorithms().items()
  for preset in module.PRESETS
}
AGENTS = sorted({config.agent for config in CONFIGS.values()})


def declared(agent):
  return registry.make_builder(agent).fields


def config_of(agent):
  return next(c for c in CONFIGS.values() if c.agent == agent)


def change(config, field, value):
  """Returns a copy in which the field has the value, which may be invalid."""
  tree = config.to_dict()
  *sections, name = field.split(".")
  inner = tree
  for section in sections:
    inner = inner.setdefault(section, {})
  inner[name] = value
  return ml_collections.ConfigDict(tree)


def message_of(config, declarations):
  """Returns the error message of an invalid config, which is one line."""
  with pytest.raises(ValueError) as error:
    fields.validate(config, declarations)
  message = str(error.value)
  assert "\n" not in message
  return message


def each_field():
  return [(agent, name) for agent in AGENTS for name in declared(agent)]


@pytest.mark.parametrize(("agent", "name"), each_field())
def test_a_declaration(agent, name):
  field = declared(agent)[name]
  assert field.meaning and "\n" not in field.meaning
  if field.check is None:
    return
  assert field.check.accepts(field.default) or name == "agent"
  bad = field.check.invalid
  config = change(config_of(agent), name, bad)
  line = f"config.{name}={bad!r} must be {field.check.wanted}: "
  assert message_of(config, declared(agent)).startswith(line)


@pytest.mark.parametrize("agent", AGENTS)
def test_a_float_must_be_finite(agent):
  for name, field in declared(agent).items():
    if not isinstance(field.default, float):
      continue
    for value in (math.nan, math.inf, -math.inf):
      config = change(config_of(agent), name, value)
      if value == field.default:  # infinity, of limits.target_return
        fields.validate(config, declared(agent))
      else:
        message = message_of(config, declared(agent))
        wanted = "a number" if math.isnan(value) else "finite"
        assert message.startswith(f"config.{name}={value!r} must be {wanted}: ")


@pytest.mark.parametrize("agent", AGENTS)
def test_every_number_is_bounded(agent):
  for name, field in declared(agent).items():
    if isinstance(field.default, bool) or not isinstance(
      field.default, int | float
    ):
      continue
    for value in (2**63, 10**500, 10**5_000):
      config = change(config_of(agent), name, value)
      assert f"config.{name}=" in message_of(config, declared(agent))


# Values that float arithmetic, a timer or an error message could not handle.
@pytest.mark.parametrize(
  ("field", "value", "expected"),
  [
    ("network.lowest_return", -1e308, "float32"),
    ("network.highest_return", 1e308, "float32"),
    ("learner.munchausen_temperature", 1e-320, "in [1e-06, 1000000.0]"),
    ("learner.learning_rate", 1e-320, "float32"),
    ("learner.learning_rate", 10**30, "at most 1000.0"),
    ("evaluation.period_s", 1e308, "at most 1000000000.0"),
    ("evaluation.episodes", 65_537, "at most 65536"),
    ("replay.capacity", 2**63 - 1, "not exact"),
    ("replay.capacity", 10**500, "000... must be"),
    ("replay.priority_exponent", 10.5, "at most 10"),
    ("network.hidden_sizes", (65_537,), "sizes in [1, 65536]"),
    ("network.quantiles", 10_001, "at most 10000"),
    ("topology.environments_per_worker", 65_537, "at most 65536"),
    ("restarts.budget", 1_000_001, "at most 1000000"),
    ("adder.stacked_frames", 256, "at most 255"),
  ],
)
def test_a_value_that_is_too_extreme(field, value, expected):
  config = change(dqn.get_config(), field, value)
  message = message_of(config, declared("dqn"))
  assert message.startswith(f"config.{field}=")
  assert expected in message
  assert len(message) < 250


@pytest.mark.parametrize(
  ("field", "value", "wanted"),
  [
    ("replay.capacity", "many", "int"),
    ("replay.capacity", 7.5, "int"),
    ("replay.capacity", True, "int"),
    ("learner.learning_rate", "1e-3", "float"),
    ("learner.learning_rate", True, "float"),
    ("topology.proxy", 1, "bool"),
    ("environment.name", None, "str"),
    ("network.hidden_sizes", [64], "tuple of int"),
    ("network.hidden_sizes", (64, 8.5), "tuple of int"),
    ("environment.kwargs", 3, "ConfigDict"),
    ("environment.wrappers", "module:Name", "tuple of str"),
    ("environment.wrappers", ("module:Name", 3), "tuple of str"),
  ],
)
def test_a_value_of_another_type(field, value, wanted):
  config = change(dqn.get_config(), field, value)
  assert message_of(config, declared("dqn")).startswith(
    f"config.{field}={value!r} must be of type {wanted}: "
  )


@pytest.mark.parametrize(
  ("field", "remedy"),
  [
    ("learner.batch_sise", "did you mean config.learner.batch_size?"),
    ("learnr.batch_size", "did you mean config.learner.batch_size?"),
    ("batch_size", "did you mean config.learner.batch_size?"),
    ("snapshot.periods", "did you mean config.snapshot.period_s?"),
    ("snapshot.folder", "fields of config.snapshot are period_s, keep, url"),
    ("colour", "`slipway train --config=FILE --help` shows all"),
  ],
)
def test_a_field_that_is_not_declared(field, remedy):
  config = change(dqn.get_config(), field, 3)
  message = message_of(config, declared("dqn"))
  assert message.startswith(f"config.{field} is no field of config.agent='dqn'")
  assert remedy in message


@pytest.mark.parametrize(
  "field", ["mode", "replay.capacity", "environment.kwargs", "snapshot"]
)
def test_a_field_or_section_that_is_missing(field):
  config = dqn.get_config()
  section, _, name = field.rpartition(".")
  del fields.get(config, section, config)[name]
  message = message_of(config, declared("dqn"))
  first = "snapshot.period_s" if field == "snapshot" else field
  assert message.startswith(f"config.{first} is missing")


def test_arguments_of_an_environment_are_free_and_an_int_is_a_float():
  config = change(dqn.get_config(), "learner.learning_rate", 1)
  config.environment.kwargs.anything = {"nested": None}
  fields.validate(config, declared("dqn"))


DECLARED = {
  "seed": fields.Field(7, "a number"),
  "part.rate": fields.Field(0.5, "a share", checks.within(0, 1, "none")),
  "part.free": fields.Field({}, "anything"),
}


def test_a_config_from_groups():
  config = fields.make_config(
    DECLARED | {"part.more": fields.Field((1,), "a tuple")}
  )
  assert config.to_dict() == {
    "seed": 7,
    "part": {"rate": 0.5, "free": {}, "more": (1,)},
  }
  assert list(fields.flatten(config)) == ["seed", "part.rate", "part.more"]


def test_a_config_is_independent_of_the_defaults():
  fields.make_config(DECLARED).part.free.x = 1
  assert not DECLARED["part.free"].default


def test_one_shared_field_alone():
  base.check("limits.trainer_steps", 7)
  base.check("limits.target_return", math.inf)
  base.check("environment.name", "any")
  base.check("topology.workers", 0)
  with pytest.raises(ValueError, match="target_return=-inf must be finite"):
    base.check("limits.target_return", -math.inf)
  with pytest.raises(ValueError, match="trainer_steps=-1 must be at least 0"):
    base.check("limits.trainer_steps", -1)


@pytest.mark.parametrize("count", [0, 257])
def test_the_number_of_workers_that_collect(count):
  base.check_workers(256)
  with pytest.raises(ValueError, match=rf"workers={count} must be in \[1, 256"):
    base.check_workers(count)


@pytest.mark.parametrize(
  ("field", "value", "near"),
  [
    ("network.torso", "Nature_CNN", "'nature_cnn'"),
    ("replay.sampler", "prioritised", "'prioritized'"),
    ("mode", "Single", "'single'"),
    ("network.torso", "transformer", None),
  ],
)
def test_a_similar_choice_is_suggested(field, value, near):
  config = change(config_of("dqn"), field, value)
  message = message_of(config, declared("dqn"))
  assert f"config.{field}={value!r}" in message
  assert message.partition("did you mean ")[2] == (f"{near}?" if near else "")
