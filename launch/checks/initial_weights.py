"""Initial weights: checks the run from which another one takes its weights."""

import ml_collections

from slipway.configs import fields
from slipway.environments import specs
from slipway.launch.checks import run_config
from slipway.launch.runs import recorded_spaces, run_folder, snapshot_store

# Fields, or whole sections, with which the networks of two runs are equal.
_SHARED = ("agent", "network", "normalization.observations")


def check(
  config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
) -> None:
  """Checks that the weights of `config.learner.init_from` fit a config.

  Args:
    config: the whole config of the new run.

  Raises:
    ValueError: there is no such run, it has no snapshot, or its networks or
      spaces are others.
  """
  path = config.learner.get("init_from", "")
  if not path:
    return
  flag = f"config.learner.init_from={path!r}"
  other = run_config.read(path)
  before, now = (fields.flatten(each) for each in (other, config))
  for name in sorted(before.keys() | now.keys()):
    is_shared = any(f"{name}.".startswith(f"{x}.") for x in _SHARED)
    if is_shared and before.get(name) != now.get(name):
      raise ValueError(
        f"{flag} has {name}={fields.format_value(before.get(name))}, and this "
        f"run has {fields.format_value(now.get(name))}, so its weights would "
        "not fit: use that value, or leave init_from out"
      )
  folder = run_folder.RunFolder.open(path)
  recorded_spaces.check(folder, config.environment.name, spec)
  if not snapshot_store.SnapshotStore(folder).has_snapshots():
    raise ValueError(
      f"{flag} has no complete snapshot, so there are no weights to begin "
      "with: let that run save, or leave init_from out"
    )
