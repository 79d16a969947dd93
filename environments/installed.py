"""Installed: lists the ids of the environments that can be made here."""

import contextlib
import importlib
import importlib.util
import logging
import warnings
from collections.abc import Iterator

import gymnasium

# Package that the environments of a group of gymnasium's own need.
_NEEDED = {"box2d": "Box2D", "mujoco": "mujoco", "phys2d": "jax"}
_NEEDED["tabular"] = "jax"
# Module that registers the ids of a namespace, and the package that it needs.
_MODULES = {
  "ALE": ("ale_py", "ale_py"),
  "MinAtar": ("slipway.environments.minatar", "minatar"),
  "dm_control": ("shimmy", "dm_control"),
}
# Groups and names that are left out: older ids of ALE's games, and adapters
# that need another environment.
_SKIPPED = ("ale_py", "shimmy", "compatibility-env")


def list_groups() -> dict[str, list[str]]:
  """Returns the ids of installed environments, by group.

  Only the newest version of an id is listed. A group is the namespace of its
  ids, or else the folder of gymnasium or the package that has the classes. An
  id begins with its module where it is known only once that is imported.
  """
  groups: dict[str, list[str]] = {}
  _import_modules()
  newest = {}
  for spec in gymnasium.registry.values():
    key = spec.namespace, spec.name
    if key not in newest or (spec.version or 0) > (newest[key].version or 0):
      newest[key] = spec
  for spec in newest.values():
    entry_point = spec.entry_point
    if not isinstance(entry_point, str):
      entry_point = getattr(entry_point, "__module__", "gymnasium")
      if entry_point.startswith("gymnasium"):
        continue  # it only raises an error, with advice
    module = entry_point.partition(":")[0].split(".")
    is_own = module[:2] == ["gymnasium", "envs"]
    group = spec.namespace or (module[2] if is_own else module[0])
    needed = _NEEDED.get(group) if is_own else None
    if needed and importlib.util.find_spec(needed) is None:
      continue
    if group not in _SKIPPED and spec.name not in _SKIPPED:
      # `ids.find_spec` imports ale_py.
      imported = group in _MODULES and group != "ALE"
      prefix = f"{_MODULES[group][0]}:" if imported else ""
      groups.setdefault(group, []).append(prefix + spec.id)
  return {group: sorted(groups[group]) for group in sorted(groups)}


def _import_modules() -> None:
  """Imports the modules that register ids, if what they need is installed."""
  for module, package in _MODULES.values():
    if importlib.util.find_spec(package):
      with contextlib.suppress(Exception), _quiet():
        importlib.import_module(module)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
  """Drops what imported modules log and warn of."""
  disabled = logging.root.manager.disable
  logging.disable(logging.WARNING)
  try:
    with warnings.catch_warnings(action="ignore"):
      yield
  finally:
    logging.disable(disabled)
