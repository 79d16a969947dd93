"""PPO. Schulman et al. 2017, "Proximal policy optimization algorithms".

Each batch of rollouts is collected with one version of the policy (mode
`sync`), learned from for several epochs, and not used again.
"""

import ml_collections

from slipway.configs import base, checks, fields, groups, presets

Field = fields.Field

FIELDS: fields.Fields = {
  **base.FIELDS,
  **groups.POLICY,
  **groups.NORMALIZED_OBSERVATIONS,
  **groups.NORMALIZED_REWARDS,
  **groups.LEARNER,
  **groups.QUEUE,
  "adder.unroll": Field(
    32,
    "T, environment steps of a rollout; RL Baselines3 Zoo, CartPole-v1",
    checks.at_least(1, "there would be nothing to learn from").up_to(
      100_000, "no memory holds such rollouts"
    ),
  ),
  "adder.discount": Field(
    0.98,
    "gamma, per environment step; RL Baselines3 Zoo, CartPole-v1",
    checks.within(0, 1, "returns would diverge"),
  ),
  "learner.gae_lambda": Field(
    0.8,
    "lambda of the advantages; RL Baselines3 Zoo, CartPole-v1",
    checks.within(0, 1, "advantages would diverge"),
  ),
  "learner.epochs": Field(
    20,
    "passes over each batch; RL Baselines3 Zoo, CartPole-v1",
    checks.at_least(1, "nothing would be learned").up_to(
      10_000, "an update could not be interrupted for hours"
    ),
  ),
  "learner.minibatch_size": Field(
    256,
    "environment steps per gradient step; RL Baselines3 Zoo, CartPole-v1",
    checks.at_least(1, "there would be no gradient").up_to(
      2**24, "no memory holds the minibatch"
    ),
  ),
  "learner.clip": Field(
    0.2,
    "epsilon, how far the ratio of probabilities may move; section 6.1",
    checks.above(0, "the policy could not change").up_to(
      1e3, "nothing would be clipped"
    ),
  ),
  "learner.value_weight": Field(
    1.0,
    "weight of half the squared error of the values; Stable-Baselines3 has 0.5 "
    "of the whole",
    checks.at_least(0, "values would be pushed away from the returns").up_to(
      1e6, "values would outweigh the policy"
    ),
  ),
  "learner.entropy_weight": Field(
    0.0,
    "weight of the entropy bonus; RL Baselines3 Zoo, CartPole-v1",
    checks.at_least(0, "the policy would be pushed to certainty").up_to(
      1e6, "the entropy would outweigh the returns"
    ),
  ),
  "learner.normalize_advantages": Field(
    True, "whether each minibatch's advantages have mean 0 and deviation 1"
  ),
  "learner.decay_steps": Field(
    390,
    "trainer steps over which step size and clip fall linearly, to 5 % of "
    "their values; 0: they stay; Zoo, CartPole-v1: 100,000 environment "
    "steps",
    checks.at_least(0, "time does not run backwards"),
  ),
}


def get_config(preset: str = "cartpole") -> ml_collections.ConfigDict:
  """Returns PPO with the numbers of RL Baselines3 Zoo.

  Args:
    preset: one of `PRESETS`.

  Raises:
    ValueError: the preset is unknown.
  """
  c = fields.make_config(FIELDS)
  c.agent = "ppo"
  c.mode = "sync"
  c.network.activation = "tanh"  # Stable-Baselines3's default
  c.network.orthogonal = True  # the same
  c.topology.workers = 1
  c.topology.environments_per_worker = 8
  c.learner.batch_size = 8  # rollouts: one per environment
  c.replay.capacity = 16  # rollouts, of use in mode `async`: the next batch
  c.learner.learning_rate = 1e-3
  c.learner.adam_epsilon = 1e-5  # Stable-Baselines3's default
  c.learner.max_gradient_norm = 0.5  # the same
  c.learner.steps_per_call = 1
  c.variables.publish_period = 1  # batches
  c.evaluation.period_steps = 10  # batches
  presets.apply(c, PRESETS, preset)
  return c


def check(config: ml_collections.ConfigDict) -> None:
  """Checks the fields that must fit together.

  Raises:
    ValueError: one line.
  """
  groups.check_queue(config)
  steps = config.learner.batch_size * config.adder.unroll
  if steps % config.learner.minibatch_size:
    raise ValueError(
      f"config.learner.minibatch_size={config.learner.minibatch_size} does not "
      f"divide the {steps} steps of a batch (learner.batch_size x "
      "adder.unroll), so some would not be learned from: change the one or the "
      "other"
    )


def _cartpole(c: ml_collections.ConfigDict) -> None:
  c.environment.name = "CartPole-v1"
  c.limits.target_return = 475.0  # gymnasium's reward threshold


PRESETS: presets.Presets = {"cartpole": _cartpole}
