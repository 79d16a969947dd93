"""TypedConfig: numbers get the type of their field, if no digit is lost."""

import copy
import pickle

import ml_collections
import numpy as np
import pytest

from slipway.configs import fields, ppo, typed_config


def config_with(value):
  return typed_config.TypedConfig({"a": {"b": value}})


# value before, new value, value afterwards
ACCEPTED = [
  (0, 1e5, 100_000),
  (0, np.int64(3), 3),
  (0, np.float32(3), 3),
  (0.5, 3, 3.0),
  (0.5, np.float32(0.25), 0.25),
  (0.5, np.int64(3), 3.0),
  ((64, 64), (1e2, 5), (100, 5)),
  ((64, 64), [8.0], (8,)),
  ("x", "y", "y"),
  (True, False, False),
]


@pytest.mark.parametrize(("old", "new", "stored"), ACCEPTED)
def test_a_number_gets_the_type_of_its_field(old, new, stored):
  config = config_with(old)
  config.a.b = new
  found = config.a.b
  assert found == stored and type(found) is type(stored)
  if isinstance(found, tuple):
    assert {*map(type, found)} == {int}


@pytest.mark.parametrize(
  ("old", "new"),
  [(0, 1.5), (0, float("inf")), (0, "3"), (0.5, "1e-3"), ("x", 3)],
)
def test_another_type_is_rejected_with_the_value(old, new):
  config = config_with(old)
  with pytest.raises(TypeError) as error:
    config.a.b = new
  assert repr(new) in str(error.value) and "'b'" in str(error.value)
  assert "\n" not in str(error.value)
  assert config.a.b == old


@pytest.mark.parametrize("key", [1, (1, 2), None, b"a", "__float__"])
def test_a_key_that_is_no_text_is_rejected(key):
  config = typed_config.TypedConfig({"kwargs": {}})
  with pytest.raises(ValueError, match=r"of type|begin") as caught:
    config.kwargs = {"prices": {key: 2.0}}
  assert repr(key) in str(caught.value)
  assert config.kwargs.to_dict() == {}


def test_a_config_equals_a_config_dict_of_the_same_values():
  for value, is_equal in ((3, True), (4, False)):
    other = ml_collections.ConfigDict({"a": {"b": value}})
    assert (config_with(3) == other) is is_equal
    assert (other == config_with(3)) is is_equal


def test_copies_and_new_sections_convert_too():
  config = config_with(0)
  config.new = {"c": 0}
  config.a.inner = {"d": 0}
  for other in (
    config,
    copy.deepcopy(config),
    pickle.loads(pickle.dumps(config)),
    config.copy_and_resolve_references(),
  ):
    other.new.c = other.a.inner.d = other.a.b = 2e3
    assert (other.new.c, other.a.inner.d, other.a.b) == (2000,) * 3


def test_numbers_of_a_file_get_the_declared_types():
  config = ppo.get_config("cartpole")
  declared = {"seed": fields.Field(1, ""), "limits.x": fields.Field(0.5, "")}
  tree = {**config.to_dict(), "seed": 1e5, "limits": {"x": 2}}
  config = fields.convert_numbers(typed_config.TypedConfig(tree), declared)
  assert type(config.seed) is int and config.seed == 100_000
  assert type(config.limits.x) is float and config.limits.x == 2.0


@pytest.mark.parametrize(
  ("text", "number"), [("5_000", 5000), ("1e5", 100_000), ("-2.0", -2)]
)
def test_texts_of_whole_numbers(text, number):
  assert typed_config.parse_int(text) == number


def test_a_number_beyond_floats_is_rejected():
  config = config_with(0.5)
  with pytest.raises(TypeError, match=r"'b' is .* of type float"):
    config.a.b = 10**400


@pytest.mark.parametrize("text", ["", "1.5", "inf", "nan", "1k", "1e400"])
def test_texts_that_are_no_whole_numbers(text):
  with pytest.raises(ValueError):
    typed_config.parse_int(text)
