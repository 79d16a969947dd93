"""Algorithms: each has a page, a row in the README, and a learning test."""

import pathlib
import re

import pytest

from slipway.configs import catalog

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_ALGORITHMS = catalog.algorithms()


@pytest.mark.parametrize("name", _ALGORITHMS)
def test_an_algorithm_has_a_page(name):
  page = _ROOT / "docs/algorithms" / f"{name}.md"
  assert page.is_file(), f"write {page}, as those beside it"
  assert f"`configs/{name}.py`" in page.read_text()


@pytest.mark.parametrize("name", _ALGORITHMS)
def test_an_algorithm_has_a_row_in_the_readme(name):
  rows = re.findall(r"^\| \[.*\|$", (_ROOT / "README.md").read_text(), re.M)
  link, column = f"](docs/algorithms/{name}.md)", f" | `{name}` |"
  assert any(link in row and row.endswith(column) for row in rows), (
    f"add a row to README.md: | [NAME{link}{column}"
  )


@pytest.mark.parametrize("name", _ALGORITHMS)
def test_an_algorithm_has_a_learning_test(name):
  # Tests of `Catch` and `pendulum` find their algorithms by these presets.
  module = _ALGORITHMS[name]
  if {"cartpole", "pendulum"} & {*module.PRESETS} and (
    module.get_config().topology.workers
  ):
    return
  tests = [path.read_text() for path in (_ROOT / "tests/learning").glob("*.py")]
  assert any(f"--config={name}:" in test for test in tests), (
    f"add a test to tests/learning that trains --config={name}:PRESET"
  )


def test_every_page_of_a_config_is_of_an_algorithm():
  for page in (_ROOT / "docs/algorithms").glob("*.md"):
    for name in re.findall(r"^.*`configs/(\w+)\.py`", page.read_text(), re.M):
      assert (_ROOT / "configs" / f"{name}.py").is_file(), page
