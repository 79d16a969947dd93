"""Layers: imports go one way, and one folder imports each outside library."""

import ast
import pathlib

import pytest

_ROOT = pathlib.Path(__file__).resolve().parents[2]

# Folders of this project that each folder may import.
_MAY_IMPORT = {
  "configs": {"configs"},
  "environments": {"configs", "environments"},
  "replay": {"configs", "replay"},
  "agents": {"configs", "environments", "replay", "agents"},
  "launch": {"configs", "environments", "replay", "agents", "launch"},
}
_OURS = {*_MAY_IMPORT, "benchmarks", "tests", "tools"}

# The only folder that may import each outside module.
_SOLE_IMPORTERS = {
  "reverb": "replay",
  "gymnasium": "environments",
  "ale_py": "environments",
  "minari": "environments",
  "launchpad": "launch",
  "ray": "launch",
  "fsspec": "launch",
  "optuna": "launch",
  "absl.flags": "launch",
}

# Folders of agents/ that all algorithms share; each folder with a builder is an
# algorithm.
_SHARED = {path.parent.name for path in _ROOT.glob("agents/*/__init__.py")} - {
  path.parent.name for path in _ROOT.glob("agents/*/builder.py")
}


def _imports(source: str, package: tuple[str, ...]) -> list[tuple[int, str]]:
  """Returns all imports of a module, also those in functions.

  Args:
    source: text of the module.
    package: names of the module's package, for relative imports.

  Returns:
    Pairs of line number and dotted name. `from a import b` results in both `a`
    and `a.b`, since b may be a module.
  """
  found = []
  for node in ast.walk(ast.parse(source)):
    if isinstance(node, ast.Import):
      found += [(node.lineno, alias.name) for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
      parent = (
        ("slipway", *package[: len(package) - node.level + 1])
        if node.level
        else ()
      )
      base = ".".join([*parent, *filter(None, [node.module])])
      found.append((node.lineno, base))
      found += [(node.lineno, f"{base}.{alias.name}") for alias in node.names]
  return found


def _algorithm(parts: tuple[str, ...]) -> str | None:
  """Returns the algorithm to which a module of agents/ belongs, or None."""
  if len(parts) < 2 or parts[0] != "agents" or parts[1] in _SHARED:
    return None
  return parts[1] if (_ROOT / "agents" / parts[1]).is_dir() else None


def _violations(path: str, source: str) -> list[str]:
  """Returns a line per import of a module that violates the layers.

  Args:
    path: path of the module, which determines its layer.
    source: text of the module.
  """
  package = pathlib.PurePosixPath(path).parent.parts
  folder = package[0]
  found = set()
  for line, name in _imports(source, package):
    parts = tuple(name.removeprefix("slipway.").split("."))
    where = f"{path}:{line}:"
    if name.partition(".")[0] in _MAY_IMPORT:
      found.add(
        f"{where} import {name} from slipway, or a user's would be used"
      )
    if parts[0] in _OURS and parts[0] not in _MAY_IMPORT[folder]:
      found.add(f"{where} {folder} may not import {parts[0]}")
    for module, importer in _SOLE_IMPORTERS.items():
      if f"{name}.".startswith(f"{module}.") and folder != importer:
        found.add(f"{where} only {importer} may import {module}")
    owner, other = _algorithm(package), _algorithm(parts)
    # The registry, and other modules directly in agents/, may import any
    # algorithm.
    if other and owner and owner != other:
      found.add(f"{where} algorithm {owner} may not import {other}")
    if other and len(package) > 1 and package[1] in _SHARED:
      found.add(f"{where} agents/{package[1]} may not import {other}")
  return sorted(found)


def _modules() -> list[str]:
  return sorted(
    str(path.relative_to(_ROOT))
    for folder in _MAY_IMPORT
    for path in (_ROOT / folder).rglob("*.py")
  )


@pytest.mark.parametrize("path", _modules())
def test_module_keeps_to_its_layer(path):
  assert _violations(path, (_ROOT / path).read_text()) == []


def test_every_folder_has_modules():
  assert {path.split("/")[0] for path in _modules()} == set(_MAY_IMPORT)


@pytest.mark.parametrize(
  "path, source, message",
  [
    ("configs/a.py", "import slipway.replay", "configs may not import replay"),
    (
      "replay/a.py",
      "from slipway.environments import vector",
      "replay may not import environments",
    ),
    (
      "replay/a.py",
      "def f():\n  from slipway.launch import program",
      "replay may not import launch",
    ),
    (
      "launch/a.py",
      "import configs",
      "import configs from slipway, or a user's would be used",
    ),
    ("launch/a.py", "from tests import x", "launch may not import tests"),
    ("launch/a.py", "import reverb as r", "only replay may import reverb"),
    (
      "agents/a.py",
      "from reverb import rate_limiters",
      "only replay may import reverb",
    ),
    (
      "agents/dqn/a.py",
      "import gymnasium.spaces",
      "only environments may import gymnasium",
    ),
    ("replay/a.py", "import ale_py", "only environments may import ale_py"),
    ("replay/a.py", "import launchpad", "only launch may import launchpad"),
    ("agents/a.py", "import ray", "only launch may import ray"),
    (
      "agents/a.py",
      "from absl import flags",
      "only launch may import absl.flags",
    ),
    (
      "agents/losses/a.py",
      "from slipway.agents.dqn import learning",
      "agents/losses may not import dqn",
    ),
    (
      "agents/losses/a.py",
      "from slipway.agents import dqn",
      "agents/losses may not import dqn",
    ),
  ],
)
def test_a_bad_import_is_reported(path, source, message):
  lines = _violations(path, source)
  assert [line.partition(": ")[2] for line in lines] == [message]


def test_algorithms_that_import_one_another_are_reported(monkeypatch, tmp_path):
  for name in ("one", "two"):
    (tmp_path / "agents" / name).mkdir(parents=True)
  monkeypatch.setitem(globals(), "_ROOT", tmp_path)
  lines = _violations("agents/one/a.py", "from slipway.agents import two")
  assert lines == ["agents/one/a.py:1: algorithm one may not import two"]


@pytest.mark.parametrize(
  "path, source",
  [
    ("agents/dqn/a.py", "from slipway.agents.losses import q_learning"),
    ("agents/registry.py", "from slipway.agents.dqn import builder"),
    ("launch/a.py", "from absl import flags, logging\nimport launchpad as lp"),
    ("replay/a.py", "from absl import logging\nimport reverb"),
    ("replay/a.py", "import reverb_settings\nfrom . import packing"),
  ],
)
def test_a_good_import_is_not_reported(path, source):
  assert _violations(path, source) == []


# Folders of a layer in order: each may import itself and those before it.
_ORDERS = {
  "replay": ("transport", "items", "tables", "variables"),
  "launch": (
    *("runs", "diagnosis", "hooks", "display", "control", "nodes"),
    *("processes", "launchers", "checks", "machines", "api", "doctor"),
    *("inspection", "profiling", "sweeps", "dashboard", "commands"),
  ),
}


@pytest.mark.parametrize(
  ("layer", "folder"),
  [(layer, folder) for layer, order in _ORDERS.items() for folder in order],
)
def test_folders_of_a_layer_import_one_way(layer, folder):
  order = _ORDERS[layer]
  allowed = {*order[: order.index(folder) + 1]}
  paths = sorted((_ROOT / layer / folder).glob("*.py"))
  assert paths
  for path in paths:
    imports = _imports(path.read_text(), (layer, folder))
    found = {
      name.split(".")[2]
      for _, name in imports
      if name.startswith(f"slipway.{layer}.")
    }
    assert found <= allowed, path.name


@pytest.mark.parametrize("layer", _ORDERS)
def test_all_folders_of_a_layer_have_an_order(layer):
  folders = {path.parent.name for path in (_ROOT / layer).glob("*/*.py")}
  assert folders == set(_ORDERS[layer])
