"""Behaviour cloning. Pomerleau 1991, "Efficient training of artificial neural
networks for autonomous navigation".

The learner imitates the actions of recorded episodes, without workers. `slipway
record` and Minari write such recordings.
"""

import ml_collections

from slipway.configs import base, fields, groups, recipes, rules, tasks

# All config fields of behaviour cloning, by dotted name.
FIELDS: fields.Fields = {
  **base.FIELDS,
  **groups.POLICY,
  **groups.EVALUATION_POLICY,
  **groups.NORMALIZED_OBSERVATIONS,
  **groups.LEARNER,
  **groups.DATASET,
}


_PAPER = {
  "agent": "bc",
  "topology.workers": 0,
  "learner.learning_rate": 1e-3,
  "learner.steps_per_call": 50,
  "variables.publish_period": 100,
}

RECIPE = recipes.Recipe(_PAPER, {"cartpole": tasks.CARTPOLE}, fields=FIELDS)
PRESETS, get_config = RECIPE.presets, RECIPE.get_config


def check(config: ml_collections.ConfigDict) -> None:
  """Checks the rules between fields of behaviour cloning's config."""
  workers = config.topology.workers
  if workers:
    raise ValueError(
      f"config.topology.workers={workers} with config.agent='bc', which learns "
      "from recorded episodes only: workers would have no effect; use 0"
    )
  rules.check_dataset(config)
  rules.check_requirements(config, FIELDS, {})
