"""Fuzz tests: an override or a run's file is accepted, or rejected in one line.

The tests generate all files that `slipway train --resume` and `slipway
evaluate` read before they start any node. `make fuzz` tries more examples, with
another seed each time.
"""

import datetime
import json
import shutil

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from slipway.agents import registry
from slipway.configs import dqn, fields
from slipway.environments import factory
from slipway.launch.checks import memory, run_config, train_flags
from slipway.launch.runs import (
  best_variables,
  config_file,
  curves,
  manifest,
  records,
  run_address,
  run_counters,
  run_folder,
  snapshot_store,
)
from tests.launch import fuzzing, saved

pytestmark = pytest.mark.timeout(0 if fuzzing.IS_LONG else 120)

_BUILDER = registry.make_builder("dqn")
_SPEC = factory.make_spec(dqn.get_config().environment)
_FIELDS = sorted(set(_BUILDER.fields) - {"mode", "environment.kwargs"})

fuzz = fuzzing.settings(100, datetime.timedelta(seconds=2))


def call_or_check_one_line(call, *names):
  """Returns a function's result, or None if it rejects its input.

  Args:
    call: function that may raise a ValueError or an OSError.
    *names: words; the error must be one line that contains one of them.
  """
  try:
    return call()
  except (ValueError, OSError) as error:
    line = str(error)
    assert len(line.splitlines()) == 1
    assert any(name in line for name in names), line
    return None


def check_before_start(config):
  """Checks a config as `slipway train` does before it starts anything."""
  fields.validate(config, _BUILDER.fields)
  _BUILDER.check(config, _SPEC)
  memory.check(config, _SPEC, _BUILDER.make_table(config, _SPEC), 24 * 2**30)
  config_file.to_json(config)


NUMBERS = st.one_of(
  st.integers(),
  st.floats(),
  st.integers(0, 10_000).map(lambda digits: 10 ** (digits // 10)),
  st.sampled_from([0, 1, -1, 2**31, 2**32, 2**53, 2**63 - 1, 2**64, 10**500]),
  st.sampled_from([1e308, -1e308, 1e-320, float("inf"), float("nan")]),
)
TEXTS = st.one_of(
  NUMBERS.map(str),
  st.lists(NUMBERS, max_size=3).map(lambda x: str(tuple(x))),
  st.text(max_size=20),
  st.sampled_from(["[" * 500, "{[]: 1}", "()", "9" * 5_000, "1e", "(1,", "\0"]),
)
JSON = st.recursive(
  st.none() | st.booleans() | NUMBERS | st.text(max_size=5),
  lambda inner: (
    st.lists(inner, max_size=3)
    | st.dictionaries(
      st.sampled_from(["__list__", "__float__", "a", "a.b", "", "keys", "_x"])
      | st.text(max_size=5),
      inner,
      max_size=3,
    )
  ),
  max_leaves=5,
)


@st.composite
def damaged(draw, whole):
  """Samples a damaged copy of bytes.

  Args:
    draw: function of hypothesis that samples from a strategy.
    whole: the bytes, which are cut, changed by one bit, extended by inserted
      bytes, or replaced.
  """
  kind = draw(st.sampled_from(["cut", "flip", "put", "other"]))
  if kind == "other":
    return draw(st.binary(max_size=50) | JSON.map(dump))
  position = draw(st.integers(0, len(whole) - 1))
  if kind == "cut":
    return whole[:position]
  if kind == "flip":
    flipped = bytes([whole[position] ^ 1 << draw(st.integers(0, 7))])
    return whole[:position] + flipped + whole[position + 1 :]
  return whole[:position] + draw(st.binary(max_size=9)) + whole[position:]


@st.composite
def exchanged(draw, tree):
  """Samples the JSON text of a tree with one value replaced or removed."""
  tree = json.loads(json.dumps(tree))
  inner = tree
  while True:
    name = draw(st.sampled_from(sorted(inner)))
    if isinstance(inner[name], dict) and inner[name] and draw(st.booleans()):
      inner = inner[name]
    elif draw(st.booleans()):
      inner[name] = draw(JSON)
      return dump(tree)
    else:
      del inner[name]
      return dump(tree)


def dump(tree):
  try:
    return json.dumps(tree).encode()
  except ValueError:  # an int with more digits than Python converts to text
    return b"9" * 5_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  return run_folder.RunFolder.create(
    tmp_path_factory.mktemp("runs"), "a-run", overwrite=False
  )


CONFIG = config_file.to_json(dqn.get_config())


@fuzz
@hypothesis.given(
  field=st.sampled_from(_FIELDS)
  | st.text(max_size=20).map(lambda name: f"environment.kwargs.{name}"),
  text=TEXTS,
)
def test_an_override(folder, field, text):
  folder.config.write_text(CONFIG)
  argument = f"--config.{field}={text}"
  call_or_check_one_line(
    lambda: check_before_start(
      train_flags.parse(
        ["train", f"--resume={folder.path}", argument], ""
      ).config
    ),
    f"config.{field.partition('kwargs')[0]}",
  )


@fuzz
@hypothesis.given(
  content=damaged(CONFIG.encode()) | exchanged(json.loads(CONFIG))
)
def test_config_json(folder, content):
  folder.config.write_bytes(content)
  config = call_or_check_one_line(
    lambda: run_config.read(folder.path), str(folder.config)
  )
  if config is not None:
    call_or_check_one_line(lambda: check_before_start(config), "config.")


VARIABLES = {"w": np.ones((2, 3), np.float32), "b/c:0": np.zeros(2)}


@fuzz
@hypothesis.given(data=st.data())
def test_best_npz(folder, data):
  best_variables.save(folder.best, 7, VARIABLES)
  folder.best.write_bytes(data.draw(damaged(folder.best.read_bytes())))
  loaded = call_or_check_one_line(
    lambda: best_variables.load(folder.best), str(folder.best)
  )
  if loaded is not None:  # a changed bit is not used, such as one of a date
    assert loaded[0] == 7
    np.testing.assert_equal(loaded[1], VARIABLES)


CURVES = ",".join(curves.COLUMNS) + "\n" + "1,200,3.5,,5,6,7,8,9,1e-3\n" * 3


@fuzz
@hypothesis.given(content=damaged(CURVES.encode()))
def test_curves_csv(folder, content):
  folder.curves_csv.write_bytes(content)
  rows = call_or_check_one_line(
    lambda: curves.read(folder.curves_csv), str(folder.curves_csv)
  )
  assert rows is not None  # Only the damaged line is lost.
  assert {len(column) for column in rows.values()} <= {0, 1, 2, 3, 4}


@fuzz
@hypothesis.given(data=st.data())
def test_a_snapshot(folder, data):
  path = folder.snapshots / "000001"
  shutil.rmtree(path, ignore_errors=True)
  path.mkdir()
  saved.COUNTERS.write(path)
  (path / "other").write_bytes(b"other")
  manifest.write(path)
  name = data.draw(st.sampled_from([manifest.FILE, run_counters.FILE, "other"]))
  whole = (path / name).read_bytes()
  content = data.draw(
    damaged(whole) | exchanged(json.loads(whole))
    if name == manifest.FILE
    else damaged(whole)
  )
  (path / name).write_bytes(content)
  found = snapshot_store.SnapshotStore(folder).newest()
  if found is not None:
    call_or_check_one_line(
      lambda: run_counters.RunCounters.read(found.path),
      str(found.path / run_counters.FILE),
    )


@fuzz
@hypothesis.given(
  content=damaged(records.to_json(saved.COUNTERS))
  | exchanged(json.loads(records.to_json(saved.COUNTERS)))
)
def test_run_json(folder, content):
  (folder.path / run_counters.FILE).write_bytes(content)
  call_or_check_one_line(
    lambda: run_counters.RunCounters.read(folder.path),
    str(folder.path / run_counters.FILE),
  )


ADDRESS = {"address": "localhost:7000", "pid": 2**22 + 1, "host": "a"}


@fuzz
@hypothesis.given(content=damaged(dump(ADDRESS)) | exchanged(ADDRESS))
def test_control_json(folder, content):
  path = run_address.path_in(folder)
  path.write_bytes(content)
  found = call_or_check_one_line(lambda: run_address.read(folder), str(path))
  assert found is None or found.is_local in (True, False)
