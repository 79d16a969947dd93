"""Policy gradient: config fields of algorithms that learn from rollouts.

The algorithms differ in three choices: the estimator of advantages, the loss of
the policy, and the regularizer (entropy bonus, clipping, or bounds of the KL
divergence).
"""

import typing

import ml_collections

from slipway.configs import base, checks, fields, groups, recipes, rules, tasks

Field = fields.Field

# The valid values of the config fields "learner.advantage_estimator" and
# "learner.policy_loss".
ESTIMATORS = ("gae", "vtrace")
LOSSES = ("policy_gradient", "clipped", "vmpo")
# The valid values of the config field "network.distribution", which
# `agents/networks/distributions.py` implements.
DISTRIBUTIONS = ("gaussian", "conditional_gaussian", "tanh_gaussian")

# All config fields of the policy gradient family, by dotted name.
FIELDS: fields.Fields = {
  **base.FIELDS,
  **groups.POLICY,
  **groups.EVALUATION_POLICY,
  **groups.NORMALIZED_OBSERVATIONS,
  **groups.NORMALIZED_REWARDS,
  **groups.LEARNER,
  **groups.QUEUE,
  **groups.STACKED_FRAMES,
  "network.shared": Field(
    False,
    "whether the policy and the state values share one torso, and its core",
  ),
  **groups.OPTIONAL_CORE,
  "network.distribution": Field(
    "gaussian",
    "distribution of continuous actions: 'gaussian', whose standard deviation "
    "is the same for all observations; 'conditional_gaussian', whose standard "
    "deviation the network computes; 'tanh_gaussian', which is bounded",
    checks.one_of(DISTRIBUTIONS, "there would be no policy"),
  ),
  "adder.unroll": Field(
    32,
    "T, the number of environment steps in a rollout",
    checks.at_least(1, "there would be nothing to learn from", most=100_000),
  ),
  "adder.discount": Field(
    0.99,
    "gamma, the discount per environment step",
    checks.within(0, 1, "returns would diverge"),
  ),
  "learner.advantage_estimator": Field(
    "gae",
    "estimator of advantages: 'gae', Schulman et al. 2016; 'vtrace', Espeholt "
    "et al. 2018, which corrects for rollouts of older policies",
    checks.one_of(ESTIMATORS, "there would be no advantages"),
  ),
  "learner.policy_loss": Field(
    "policy_gradient",
    "loss of the policy: 'policy_gradient', Mnih et al. 2016; 'clipped', "
    "Schulman et al. 2017, equation 7; 'vmpo', Song et al. 2019",
    checks.one_of(LOSSES, "the policy would not be learned"),
  ),
  "learner.gae_lambda": Field(
    1.0,
    "lambda, the weight of longer returns in 'gae' and 'vtrace'; 1: returns "
    "over the whole rollout",
    checks.within(0, 1, "advantages would diverge"),
  ),
  "learner.max_rho": Field(
    1.0,
    "rho-bar of 'vtrace', the upper bound of the importance ratios that weight "
    "TD errors; Espeholt et al. 2018, table D.1",
    checks.above(0, "nothing would be learned"),
  ),
  "learner.max_c": Field(
    1.0,
    "c-bar of 'vtrace', the upper bound of the importance ratios that weight "
    "later TD errors; Espeholt et al. 2018, table D.1",
    checks.at_least(0, "importance ratios are never negative"),
  ),
  "learner.epochs": Field(
    1,
    "passes over each batch in one update",
    checks.at_least(1, "nothing would be learned", most=10_000),
  ),
  "learner.minibatch_size": Field(
    0,
    "environment steps per gradient step; 0: the whole batch",
    checks.at_least(
      0, "there would be no gradient", "0: the whole batch", most=2**24
    ),
  ),
  "learner.clip": Field(
    0.2,
    "epsilon of the loss 'clipped', which clips probability ratios to [1 - "
    "epsilon, 1 + epsilon]; Schulman et al. 2017, section 6.1",
    checks.above(0, "the policy could not change", most=1e3),
  ),
  "learner.value_clip": Field(
    0.0,
    "largest change of a state value in one update, to which the value loss "
    "clips the change; 0: no clipping",
    checks.at_least(0, "values could not be learned", "0: no clipping"),
  ),
  "learner.kl_limit": Field(
    0.0,
    "KL divergence of the policy from the one that collected a minibatch, in "
    "nats, above which the rest of the update is skipped; 0: no limit",
    checks.at_least(0, "nothing would be learned", "0: no limit"),
  ),
  "learner.value_weight": Field(
    0.5,
    "weight of the value loss, which is half the squared error",
    checks.above(
      0,
      "values that nothing trains would stand for the rewards after a rollout",
      most=1e6,
    ),
  ),
  "learner.entropy_weight": Field(
    0.0,
    "weight of the policy's entropy, a bonus in the objective",
    checks.at_least(0, "the policy would become deterministic", most=1e6),
  ),
  "learner.normalize_advantages": Field(
    False,
    "whether advantages are normalized to mean 0 and standard deviation 1 in "
    "each minibatch",
  ),
  "learner.temperature": Field(
    1.0,
    "initial eta of the loss 'vmpo', the temperature of the steps' weights; "
    "Song et al. 2019, Atari",
    checks.within(1e-6, 1e6, "float32 can't compute the steps' weights"),
  ),
  "learner.temperature_bound": Field(
    0.02,
    "eps_eta of the loss 'vmpo', in nats: the bound that determines the "
    "temperature; Song et al. 2019, Atari",
    checks.above(0, "all weight would go to one step"),
  ),
  "learner.kl_multiplier": Field(
    5.0,
    "initial alpha of the loss 'vmpo', the Lagrange multiplier of its KL "
    "bounds; Song et al. 2019, Atari",
    checks.within(1e-6, 1e6, "the KL divergence would have no bound"),
  ),
  "learner.kl_bound": Field(
    0.01,
    "eps_alpha of the loss 'vmpo', in nats: bound of the KL divergence between "
    "old and new policy, for a Gaussian that of its mean; Song et al. 2019 use "
    "0.001 to 0.01 on Atari",
    checks.above(0, "the policy could not change"),
  ),
  "learner.std_kl_bound": Field(
    1e-4,
    "eps_alpha of the loss 'vmpo' for the standard deviation of a Gaussian, in "
    "nats; Song et al. 2019 use 5e-6 to 5e-5",
    checks.above(0, "standard deviations could not change"),
  ),
  **groups.BONUS,
}


# The fields that have an effect only with memory, or with certain estimators of
# advantages or losses.
_REQUIREMENTS: rules.Requirements = {
  **rules.BONUS_REQUIREMENTS,
  ("network.core_size",): tuple(groups.CORE),
  **rules.CORE_REQUIREMENTS,
  ("learner.advantage_estimator", "vtrace"): [
    *("learner.max_rho", "learner.max_c"),
  ],
  ("learner.policy_loss", "clipped"): ["learner.clip"],
  ("learner.policy_loss", "vmpo"): [
    *("learner.temperature", "learner.temperature_bound"),
    *("learner.kl_multiplier", "learner.kl_bound", "learner.std_kl_bound"),
  ],
}


# The values of the family, which each algorithm changes.
RECIPE = recipes.Recipe(
  {
    "agent": "policy_gradient",
    "network.activation": "tanh",  # Stable-Baselines3's default
    "network.initializer": "orthogonal",  # Andrychowicz et al. 2021, 3.2
    "learner.adam_epsilon": 1e-5,  # Stable-Baselines3's default
    "learner.max_gradient_norm": 0.5,  # the same
    "learner.steps_per_call": 1,
    "variables.publish_period": 1,  # batches
  },
  fields=FIELDS,
)


# CartPole for rollouts that get one gradient step.
CARTPOLE: recipes.Values = {
  **tasks.CARTPOLE,
  # 0.98 does not see the edge of the track, and falls back; docs/learning.md.
  "adder.discount": 0.99,
  "environment.reward_scale": 0.05,  # so that values are at most 5
  # No entropy bonus (A2C: 0.01, section 5.2; IMPALA: 5e-5 to 0.01, table D.1):
  # once all episodes are long, it would outweigh the small advantages, and the
  # policy would get worse again.
  "learner.learning_rate": 2e-3,
  "learner.decay_steps": 625,  # batches: 200,000 environment steps
  "evaluation.period_steps": 100,  # batches
}


def make_image_tasks(
  learner: recipes.Values, workers: int, environments: int
) -> dict[str, recipes.Values]:
  """Returns the tasks 'minatar_breakout', 'pong' and 'atari57'.

  Their batches have one rollout per environment. The learning rate decays over
  the whole run.

  Args:
    workers: workers of MinAtar, which have 16 environments each, since these
      take little time.
  """

  def make(
    task: recipes.Values, workers: int, each: int, evaluations: int
  ) -> dict[str, typing.Any]:
    """Returns values with the periods that depend on the size of batches."""
    batch_size = workers * each
    steps_per_batch = batch_size * learner["adder.unroll"]
    batches = task["limits.environment_steps"] // steps_per_batch
    return {
      **task,
      **learner,
      "network.activation": "relu",
      "network.shared": True,  # Mnih et al. 2016, section 5.1
      "topology.workers": workers,
      "topology.environments_per_worker": each,
      "learner.batch_size": batch_size,
      "learner.decay_steps": batches,
      "evaluation.period_steps": batches // evaluations,
    }

  minatar = make(tasks.MINATAR, workers, 16, evaluations=50)
  # A worker acts on one core: half of the environments each take half the time.
  atari = {
    **make(tasks.ATARI, 2, environments // 2, evaluations=100),
    "learner.threads": 0,
    "evaluation.episodes": 5,
    "evaluation.period_s": 600.0,  # an evaluation takes 10 s of a core
  }
  return {
    "minatar_breakout": {**minatar, "evaluation.period_s": 10.0},
    "pong": {**atari, **tasks.PONG_SOLVED, "evaluation.period_s": 180.0},
    "atari57": atari,
  }


def check(config: ml_collections.ConfigDict) -> None:
  """Checks the rules between fields of a policy gradient's config."""
  rules.check_queue(config)
  rules.check_stacked_frames(config)
  rules.check_bonus(config)
  _check_minibatches(config)
  rules.check_requirements(config, FIELDS, _REQUIREMENTS)
  rules.check_core(config)
  learner = config.learner
  if learner.max_c > learner.max_rho:
    raise ValueError(
      f"config.learner.max_c={learner.max_c} is above config.learner.max_rho="
      f"{learner.max_rho}, so V-trace would weight later TD errors more than "
      "the first one, and need not converge (Espeholt et al. 2018, theorem 1): "
      "lower max_c, or raise max_rho"
    )


def _check_minibatches(config: ml_collections.ConfigDict) -> None:
  """Checks that minibatches divide a batch into equal parts."""
  size, unroll = config.learner.minibatch_size, config.adder.unroll
  steps = config.learner.batch_size * unroll
  if size and steps % size:
    raise ValueError(
      f"config.learner.minibatch_size={size} does not divide the {steps} steps "
      "of a batch (learner.batch_size x adder.unroll), so some steps would not "
      "be learned from: change one of the sizes"
    )
  if (size or steps) == 1:
    for name, value in (
      ("learner.normalize_advantages", True),
      ("learner.policy_loss", "vmpo"),
    ):
      if fields.get(config, name) == value:
        raise ValueError(
          f"config.{name}={value!r} compares the advantages of steps, but each "
          "gradient step has only one (learner.minibatch_size or "
          "learner.batch_size x adder.unroll), so the policy would not learn: "
          "use at least 2"
        )
  longest = groups.LONGEST_UNROLL
  if config.network.core_size and unroll > longest:
    raise ValueError(
      f"config.adder.unroll={unroll} with config.network.core_size="
      f"{config.network.core_size}: the unrolled graph could not be built; use "
      f"at most {longest:,} steps"
    )
  if config.network.core_size and size % unroll:
    raise ValueError(
      f"config.learner.minibatch_size={size} has no whole rollouts of "
      f"config.adder.unroll={unroll} steps, which a core needs: use a multiple"
    )
  if config.learner.epochs == 1 and size in (0, steps):
    for name in ("learner.value_clip", "learner.kl_limit"):
      if value := fields.get(config, name):
        raise ValueError(
          f"config.{name}={value!r} has no effect with one gradient step per "
          "batch, so the run would ignore it: use 0, or raise config.learner."
          "epochs=1"
        )
