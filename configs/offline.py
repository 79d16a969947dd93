"""Offline: what actor-critic algorithms on recorded episodes share.

`slipway record` and Minari write such episodes. Without a preset,
observations and rewards are normalized, so `environment.name` is enough.
"""

from slipway.configs import actor_critic, recipes, tasks

_TASKS: dict[str, recipes.Values] = {
  "generic": {
    **tasks.PENDULUM,
    **tasks.GENERIC,
    "evaluation.period_s": 2.0,
    "evaluation.period_steps": 2_500,
  },
}

RECIPE = recipes.Recipe(
  {
    **actor_critic.RECIPE.paper,
    "adder.n_step": 1,
    "topology.workers": 0,
    "limits.trainer_steps": 100_000,
  },
  _TASKS,
  fields=actor_critic.FIELDS,
)
