"""Policy gradient: the fields of algorithms that learn policies from rollouts.

They differ along three axes: how advantages are estimated, the loss of the
policy, and what else keeps it from collapsing (entropy, clipping, bounds of the
divergence). A config chooses one of each.
"""

import ml_collections

from slipway.configs import base, checks, fields, groups

Field = fields.Field

ESTIMATORS = ("gae", "vtrace", "monte_carlo")
LOSSES = ("policy_gradient", "clipped", "vmpo")
# Distributions of continuous actions; `agents/networks/distributions.py`.
DISTRIBUTIONS = ("gaussian", "conditional_gaussian", "tanh_gaussian")

FIELDS: fields.Fields = {
  **base.FIELDS,
  **groups.POLICY,
  **groups.NORMALIZED_OBSERVATIONS,
  **groups.NORMALIZED_REWARDS,
  **groups.LEARNER,
  **groups.QUEUE,
  **groups.STACKED_FRAMES,
  "network.shared": Field(
    False, "whether the policy and the values share one torso"
  ),
  "network.lstm_size": Field(
    0,
    "outputs of an LSTM on the torso, which policy and values share; 0: there "
    "is none",
    checks.at_least(0, "there would be no features", "0: none").up_to(
      16_384, "no memory holds the weights"
    ),
  ),
  "network.distribution": Field(
    "gaussian",
    "of continuous actions: 'gaussian', with deviations that do not depend on "
    "the observation; 'conditional_gaussian', with deviations that do; or "
    "'tanh_gaussian', which is bounded",
    checks.one_of(DISTRIBUTIONS, "there would be no policy"),
  ),
  "adder.unroll": Field(
    32,
    "T, environment steps of a rollout",
    checks.at_least(1, "there would be nothing to learn from").up_to(
      100_000, "no memory holds such rollouts"
    ),
  ),
  "adder.discount": Field(
    0.99,
    "gamma, per environment step",
    checks.within(0, 1, "returns would diverge"),
  ),
  "learner.advantage_estimator": Field(
    "gae",
    "'gae', Schulman et al. 2016; 'vtrace', Espeholt et al. 2018, which "
    "corrects for older policies; or 'monte_carlo', returns of whole episodes",
    checks.one_of(ESTIMATORS, "there would be no advantages"),
  ),
  "learner.policy_loss": Field(
    "policy_gradient",
    "'policy_gradient'; 'clipped', Schulman et al. 2017, equation 7; or "
    "'vmpo', Song et al. 2019",
    checks.one_of(LOSSES, "the policy would not be learned"),
  ),
  "learner.gae_lambda": Field(
    1.0,
    "lambda, weight of longer returns in 'gae' and 'vtrace'; 1: returns of as "
    "many steps as the rollout has",
    checks.within(0, 1, "advantages would diverge"),
  ),
  "learner.max_rho": Field(
    1.0,
    "bound of the ratios of probabilities that weight errors in 'vtrace'; "
    "Espeholt et al. 2018, table D.1",
    checks.above(0, "nothing would be learned"),
  ),
  "learner.max_c": Field(
    1.0,
    "bound of the ratios that weight later errors in 'vtrace'; Espeholt et al. "
    "2018, table D.1",
    checks.at_least(0, "no ratio is negative"),
  ),
  "learner.epochs": Field(
    1,
    "passes over each batch",
    checks.at_least(1, "nothing would be learned").up_to(
      10_000, "an update could not be interrupted for hours"
    ),
  ),
  "learner.minibatch_size": Field(
    0,
    "environment steps per gradient step; 0: the whole batch",
    checks.at_least(
      0, "there would be no gradient", "0: the whole batch"
    ).up_to(2**24, "no memory holds the minibatch"),
  ),
  "learner.clip": Field(
    0.2,
    "epsilon of the loss 'clipped', how far the ratio of probabilities may "
    "move; Schulman et al. 2017, section 6.1",
    checks.above(0, "the policy could not change").up_to(
      1e3, "nothing would be clipped"
    ),
  ),
  "learner.value_clip": Field(
    0.0,
    "distance that values may move from those before the update until they "
    "get no gradient; 0: any",
    checks.at_least(0, "values could not be learned", "0: any"),
  ),
  "learner.kl_limit": Field(
    0.0,
    "divergence of a minibatch, in nats, after which the rest of the update "
    "is skipped; 0: none",
    checks.at_least(0, "nothing would be learned", "0: none"),
  ),
  "learner.value_weight": Field(
    0.5,
    "weight of half the squared error of the values",
    checks.at_least(0, "values would be pushed away from the returns").up_to(
      1e6, "values would outweigh the policy"
    ),
  ),
  "learner.entropy_weight": Field(
    0.0,
    "weight of the entropy bonus",
    checks.at_least(0, "the policy would be pushed to certainty").up_to(
      1e6, "the entropy would outweigh the returns"
    ),
  ),
  "learner.normalize_advantages": Field(
    False, "whether each minibatch's advantages have mean 0 and deviation 1"
  ),
  "learner.decay_steps": Field(
    0,
    "trainer steps over which step size and clip fall linearly, to 5 % of "
    "their values; 0: they stay",
    checks.at_least(0, "time does not run backwards", "0: they stay"),
  ),
  "learner.temperature": Field(
    1.0,
    "eta of the loss 'vmpo' at first; Song et al. 2019, Atari",
    checks.within(1e-6, 1e6, "weights could not be computed"),
  ),
  "learner.temperature_bound": Field(
    0.02,
    "eps_eta of the loss 'vmpo', in nats; Song et al. 2019, Atari",
    checks.above(0, "all weight would go to one step"),
  ),
  "learner.kl_multiplier": Field(
    5.0,
    "alpha of the loss 'vmpo' at first; Song et al. 2019, Atari",
    checks.within(1e-6, 1e6, "the divergence would have no bound"),
  ),
  "learner.kl_bound": Field(
    0.01,
    "eps_alpha of the loss 'vmpo', in nats: how far the policy may move, or "
    "its mean; Song et al. 2019 use 0.001 to 0.01 on Atari",
    checks.above(0, "the policy could not change"),
  ),
  "learner.std_kl_bound": Field(
    1e-4,
    "the same for the deviation of continuous actions; Song et al. 2019 use "
    "5e-6 to 5e-5",
    checks.above(0, "deviations could not change"),
  ),
}

# Fields that have an effect with some choices only: a field, the field that
# chooses, and those choices.
_EFFECTIVE = (
  ("gae_lambda", "advantage_estimator", ("gae", "vtrace")),
  ("max_rho", "advantage_estimator", ("vtrace",)),
  ("max_c", "advantage_estimator", ("vtrace",)),
  ("clip", "policy_loss", ("clipped",)),
  ("temperature", "policy_loss", ("vmpo",)),
  ("temperature_bound", "policy_loss", ("vmpo",)),
  ("kl_multiplier", "policy_loss", ("vmpo",)),
  ("kl_bound", "policy_loss", ("vmpo",)),
  ("std_kl_bound", "policy_loss", ("vmpo",)),
)


def make_config() -> ml_collections.ConfigDict:
  """Returns the values that all algorithms of the family start from."""
  c = fields.make_config(FIELDS)
  c.agent = "policy_gradient"
  c.network.orthogonal = True  # Andrychowicz et al. 2021, section 3.2
  c.learner.adam_epsilon = 1e-5  # Stable-Baselines3's default
  c.learner.max_gradient_norm = 0.5  # the same
  c.learner.steps_per_call = 1
  c.variables.publish_period = 1  # batches
  return c


def check(config: ml_collections.ConfigDict) -> None:
  """Checks the fields that must fit together.

  Args:
    config: the whole config, valid field by field.

  Raises:
    ValueError: one line with the fields, their values and the consequence.
  """
  groups.check_queue(config)
  groups.check_stacked_frames(config)
  _check_minibatches(config)
  for name, chooser, choices in _EFFECTIVE:
    value, choice = config.learner[name], config.learner[chooser]
    if choice not in choices and value != FIELDS[f"learner.{name}"].default:
      wanted = " or ".join(map(repr, choices))
      raise ValueError(
        f"config.learner.{name}={value!r} has no effect with config.learner."
        f"{chooser}={choice!r}, so the run would not be what it seems: leave "
        f"it out, or use {wanted}"
      )
  if config.network.lstm_size and config.network.shared is False:
    raise ValueError(
      f"config.network.lstm_size={config.network.lstm_size} with config."
      "network.shared=False: actors store the state of one LSTM, so the values "
      "would have none; use --config.network.shared"
    )


def _check_minibatches(config: ml_collections.ConfigDict) -> None:
  size, unroll = config.learner.minibatch_size, config.adder.unroll
  steps = config.learner.batch_size * unroll
  if size and steps % size:
    raise ValueError(
      f"config.learner.minibatch_size={size} does not divide the {steps} steps "
      "of a batch (learner.batch_size x adder.unroll), so some would not be "
      "learned from: change the one or the other"
    )
  if config.network.lstm_size and size % unroll:
    raise ValueError(
      f"config.learner.minibatch_size={size} has no whole rollouts of "
      f"config.adder.unroll={unroll} steps, which an LSTM needs: use a multiple"
    )
