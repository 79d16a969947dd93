"""SAC. Haarnoja et al. 2018, "Soft actor-critic algorithms and applications".

The learner adapts the temperature to a target entropy. The targets of the
critics use the lower value of two target networks.
"""

import ml_collections

from slipway.configs import base, checks, fields, groups, presets, tasks

Field = fields.Field

# All config fields of SAC, by dotted name.
FIELDS: fields.Fields = {
  **base.FIELDS,
  **groups.POLICY,
  **groups.NORMALIZED_OBSERVATIONS,
  **groups.NORMALIZED_REWARDS,
  **groups.LEARNER,
  **groups.REPLAY,
  **groups.N_STEP,
  "learner.tau": Field(
    0.005,
    "tau, the weight of the critics in the moving average that each update "
    "makes of the target networks; Haarnoja et al. 2018, table 1",
    checks.within(0, 1, "targets would not follow the critics"),
  ),
  "learner.temperature": Field(
    1.0,
    "initial value of alpha, the weight of the entropy in the objective; the "
    "learner adapts it",
    checks.above(0, "the policy would become deterministic").up_to(
      1e6, "the entropy would outweigh the returns"
    ),
  ),
}


def get_config(preset: str = "pendulum") -> ml_collections.ConfigDict:
  """Returns the config of SAC, with values of the paper's table 1.

  Args:
    preset: one of `PRESETS`.

  Raises:
    ValueError: the preset is unknown.
  """
  c = fields.make_config(FIELDS)
  c.agent = "sac"
  c.network.hidden_sizes = (256, 256)
  c.adder.discount = 0.99
  c.learner.batch_size = 256
  c.learner.learning_rate = 3e-4
  c.learner.max_gradient_norm = 1e6  # the paper does not clip gradients
  c.replay.sampler = "uniform"
  c.topology.workers = 1
  presets.apply(c, PRESETS, preset)
  return c


def check(config: ml_collections.ConfigDict) -> None:
  """Checks the rules between fields of SAC's config.

  Args:
    config: the whole config, valid field by field.

  Raises:
    ValueError: names the field, its value and the consequence.
  """
  groups.check_replay(config)
  if config.replay.sampler != "uniform":
    raise ValueError(
      f"config.replay.sampler={config.replay.sampler!r} samples by priorities, "
      "which config.agent='sac' does not compute: use 'uniform'"
    )
  if config.network.torso != "mlp":
    raise ValueError(
      f"config.network.torso={config.network.torso!r} can't be used with "
      "config.agent='sac', whose critics take flat vectors: use 'mlp'"
    )


def _pendulum(c: ml_collections.ConfigDict) -> None:
  """Sets Pendulum-v1, with one update per environment step."""
  tasks.pendulum(c)
  c.topology.environments_per_worker = 4
  c.learner.learning_rate = 1e-3  # RL Baselines3 Zoo
  c.replay.capacity = 50_000
  c.replay.min_size = 1_000
  c.replay.samples_per_insert = 256.0  # one update per environment step
  c.sync.environment_steps = 100
  c.learner.steps_per_call = 10
  c.learner.threads = 0  # arithmetic-bound: all cores
  c.variables.publish_period = 20
  c.evaluation.period_steps = 1_000
  c.evaluation.period_s = 2.0


# The presets of SAC, by name.
PRESETS: presets.Presets = {"pendulum": _pendulum}
