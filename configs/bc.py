"""Behaviour cloning. Pomerleau 1991, "Efficient training of artificial neural
networks for autonomous navigation".

The learner imitates the actions of recorded episodes, without workers. `slipway
evaluate --record` and Minari write such recordings.
"""

import ml_collections

from slipway.configs import base, fields, groups, presets

# All config fields of behaviour cloning, by dotted name.
FIELDS: fields.Fields = {
  **base.FIELDS,
  **groups.POLICY,
  **groups.NORMALIZED_OBSERVATIONS,
  **groups.LEARNER,
  "dataset.path": fields.Field(
    "", "folder of a Minari dataset with recorded episodes; required"
  ),
}


def get_config(preset: str = "cartpole") -> ml_collections.ConfigDict:
  """Returns the config of behaviour cloning, which runs no workers.

  Args:
    preset: one of `PRESETS`.

  Raises:
    ValueError: the preset is unknown.
  """
  c = fields.make_config(FIELDS)
  c.agent = "bc"
  c.topology.workers = 0
  c.learner.batch_size = 64
  c.learner.learning_rate = 1e-3
  c.learner.steps_per_call = 50
  c.variables.publish_period = 100
  presets.apply(c, PRESETS, preset)
  return c


def check(config: ml_collections.ConfigDict) -> None:
  """Checks the rules between fields of behaviour cloning's config.

  Args:
    config: the whole config, valid field by field.

  Raises:
    ValueError: names the field, its value and the consequence.
  """
  workers = config.topology.workers
  if workers:
    raise ValueError(
      f"config.topology.workers={workers} with config.agent='bc', which learns "
      "from recorded episodes only: workers would have no effect; use 0"
    )
  if not config.dataset.path:
    raise ValueError(
      "config.dataset.path='' names no folder, so there would be nothing to "
      "learn from: give --config.dataset.path=FOLDER of recorded episodes"
    )


def _cartpole(c: ml_collections.ConfigDict) -> None:
  """Sets CartPole-v1; the run ends at a mean return of 475."""
  c.environment.name = "CartPole-v1"
  c.limits.target_return = 475.0  # gymnasium's reward threshold


# The presets of behaviour cloning, by name.
PRESETS: presets.Presets = {"cartpole": _cartpole}
