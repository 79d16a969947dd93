"""BUILD files: each folder with Python files is a library or a set of tests.

The files are parsed as text, so that these tests run without Bazel.
"""

import pathlib
import re

import pytest

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_TOP = (
  "configs",
  "environments",
  "replay",
  "agents",
  "launch",
  "benchmarks",
  "tests",
  "tools",
)
_RULE = re.compile(r"^(\w+)\((.*?)\)$", re.MULTILINE | re.DOTALL)
_GLOB = re.compile(r'glob\(\s*\[\s*"(\*\*/)?\*\.py"')


def _rules(build: str) -> list[tuple[str, str]]:
  """Returns the rules of a BUILD file: pairs of name and arguments."""
  return _RULE.findall(re.sub(r"#.*", "", build))


def _labels(build: str) -> set[str]:
  """Returns the labels of this project to which a BUILD file refers."""
  return set(re.findall(r'"(//(?!visibility:)[^"]*)"', build))


def _find_gaps(build: str, files: set[str]) -> list[str]:
  """Returns a line per Python file that no rule of a BUILD file includes.

  Args:
    build: text of the BUILD file.
    files: names of the .py files in the folder.
  """
  rules = _rules(build)
  libraries = [body for rule, body in rules if rule == "py_library"]
  tests = [body for rule, body in rules if rule == "py_test"]
  # The macro includes all tests of its folder, and their shared modules.
  if any(rule == "pytest_tests" for rule, _ in rules):
    return []
  gaps = []
  for name in sorted(files):
    if name.endswith("_test.py"):
      if not any(f'"{name}"' in body for body in tests):
        gaps.append(f"{name} is in no test rule")
    elif not any(_GLOB.search(b) or f'"{name}"' in b for b in libraries):
      gaps.append(f"{name} is in no py_library")
  return gaps


def _folders() -> list[str]:
  return sorted(
    {
      str(path.parent.relative_to(_ROOT))
      for top in _TOP
      for path in (_ROOT / top).rglob("*.py")
    }
  )


def _build(folder: str) -> str:
  path = _ROOT / folder / "BUILD"
  # One file covers all folders of agents/, so that a family needs none.
  path = _ROOT / "agents/BUILD" if folder.startswith("agents/") else path
  assert path.is_file(), f"{folder} has .py files and no BUILD file"
  return path.read_text()


@pytest.mark.parametrize("folder", _folders())
def test_folder_is_covered_by_its_build_file(folder):
  files = {path.name for path in (_ROOT / folder).glob("*.py")}
  assert _find_gaps(_build(folder), files) == []


@pytest.mark.parametrize("folder", _folders())
def test_labels_name_folders_with_build_files(folder):
  for label in _labels(_build(folder)):
    package = label[2:].partition(":")[0]
    assert (_ROOT / package / "BUILD").is_file(), f"{folder}: {label}"


@pytest.mark.parametrize(
  "folder", [folder for folder in _folders() if folder.startswith("tests")]
)
def test_tests_declare_the_folders_of_the_helpers_that_they_import(folder):
  labels = _labels(_build(folder))
  for path in (_ROOT / folder).glob("*.py"):
    for package in re.findall(
      r"^from (tests\S*) import", path.read_text(), re.M
    ):
      other = package.replace(".", "/")
      if other != folder:
        found = [label for label in labels if label.startswith(f"//{other}:")]
        assert found, f"{path.name} imports from {other}"


def test_tests_share_helpers_not_tests():
  # Each target has only one *_test.py, so it can't import another test.
  found = [
    (path.name, name)
    for path in (_ROOT / "tests").rglob("*_test.py")
    for name in re.findall(
      r"^from tests\S* import (\w+_test)$", path.read_text(), re.M
    )
    + re.findall(r"^from tests\S*?(\w+_test) import", path.read_text(), re.M)
  ]
  assert [pair for pair in found if pair[0] != f"{pair[1]}.py"] == []


def test_workspace_fetches_nothing():
  rules = _rules((_ROOT / "WORKSPACE").read_text())
  assert {rule for rule, _ in rules} == {
    "workspace",
    "local_repository",
    "register_toolchains",
  }
  paths = [
    re.findall(r'path = "(.*)"', body)
    for rule, body in rules
    if rule == "local_repository"
  ]
  assert paths
  for (path,) in paths:
    assert (_ROOT / path / "WORKSPACE").is_file(), path


_LIBRARY = 'py_library(\n  name = "a",\n  srcs = %s,\n)\n'
_TESTS = "pytest_tests(\n  deps = [],\n)\n"


@pytest.mark.parametrize(
  "build, gaps",
  [
    ("", ["a.py is in no py_library", "a_test.py is in no test rule"]),
    (_LIBRARY % 'glob(["*.py"])', ["a_test.py is in no test rule"]),
    (_LIBRARY % '["a.py"]', ["a_test.py is in no test rule"]),
    (
      "# " + _TESTS.replace("\n", " "),
      ["a.py is in no py_library", "a_test.py is in no test rule"],
    ),
    (_LIBRARY % 'glob(["*.py"])' + _TESTS, []),
    (_TESTS, []),
  ],
)
def test_a_file_without_a_rule_is_reported(build, gaps):
  assert _find_gaps(build, {"a.py", "a_test.py"}) == gaps
