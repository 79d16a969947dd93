"""Value: the config fields of the DQN family, which learns action values."""

import ml_collections

from slipway.configs import base, checks, fields, groups, rules

Field = fields.Field

# The valid values of the config field "network.head".
HEADS = ("expected", "categorical", "quantile", "implicit_quantile")

# The config fields that only the DQN family has, by dotted name.
_DQN_ONLY_FIELDS: fields.Fields = {
  "network.head": Field(
    "expected",
    "statistic of the returns' distribution that the network learns: "
    "'expected', the mean; 'categorical' (C51), Bellemare et al. 2017; "
    "'quantile' (QR-DQN), Dabney et al. 2018a; 'implicit_quantile' (IQN), "
    "Dabney et al. 2018b",
    checks.one_of(HEADS, "the network would have no outputs"),
  ),
  "network.quantiles": Field(
    200,
    "number of quantiles of each return in the loss, for 'quantile' and "
    "'implicit_quantile'; Dabney et al. 2018a, section 5",
    checks.at_least(1, "there would be no distribution", most=10_000),
  ),
  "network.cosines": Field(
    64,
    "number of cosine features that encode a quantile's fraction, for "
    "'implicit_quantile'; Dabney et al. 2018b, section 3.1",
    checks.at_least(
      1, "the values of all quantiles would be equal", most=10_000
    ),
  ),
  "network.layer_norm": Field(
    "none",
    "layer normalization before the activations of the linear layers: 'none' "
    "or 'all', which keeps values from diverging (Gallici et al. 2024)",
    checks.one_of(("none", "all"), "the layers could not be computed"),
  ),
  "network.bcq_threshold": Field(
    0.0,
    "tau, the least probability of an action in the data, relative to that of "
    "the most probable one, with which it is chosen, for acting and as the "
    "bootstrap; Fujimoto et al. 2019: 0.3; 0: all actions",
    checks.at_least(0, "a probability is never negative", "0: all", most=0.999),
  ),
  "network.noisy": Field(
    False,
    "whether the head's weights have learned, factorised Gaussian noise; "
    "Fortunato et al. 2018, section 3",
  ),
  "network.noisy_std": Field(
    0.5,
    "sigma_0, the initial scale of the noise; Fortunato et al. 2018, section "
    "3.2",
    checks.above(0, "there would be no noise", most=1e3),
  ),
  "learner.double": Field(
    False,
    "whether the online network chooses the action of the bootstrap (double "
    "Q-learning); van Hasselt et al. 2016, equation 4",
  ),
  "learner.cql_weight": Field(
    0.0,
    "alpha, the weight of the penalty by which CQL lowers values of actions "
    "that the data lacks; Kumar et al. 2020, equation 4; 0: no penalty",
    checks.at_least(
      0, "values of unseen actions would rise", "0: none", most=1e6
    ),
  ),
  "learner.margin_weight": Field(
    0.0,
    "weight of the loss by which values of a demonstrator's actions, those of "
    "dataset.path, exceed all others by learner.margin; Hester et al. 2018, "
    "section 4: 1; 0: no such loss",
    checks.at_least(
      0, "the demonstrator's actions would be avoided", "0: none", most=1e6
    ),
  ),
  "learner.margin": Field(
    0.8,
    "least difference, in units of the returns, between the value of a "
    "demonstrator's action and those of others; Hester et al. 2018, section 5",
    checks.above(0, "equal values would have no loss", most=1e6),
  ),
  "learner.munchausen_scale": Field(
    0.0,
    "alpha, the weight of the action's log-probability, which is added to the "
    "reward as a bonus; Vieillard et al. 2020; 0: no bonus",
    checks.within(0, 1, "the bonus would outweigh the rewards", "0: no bonus"),
  ),
  "learner.munchausen_temperature": Field(
    0.03,
    "tau, the temperature of the softmax policy of the bonus; Vieillard et al. "
    "2020, section 4",
    checks.within(1e-6, 1e6, "the policy could not be computed"),
  ),
  "learner.munchausen_lowest": Field(
    -1.0,
    "l_0, the lower bound of the bonus before its weight; Vieillard et al. "
    "2020, section 4",
    checks.below(0, "there would be no bonus"),
  ),
}

# All config fields of the DQN family, by dotted name.
FIELDS: fields.Fields = {
  **base.FIELDS,
  **groups.TORSO,
  **groups.ATOMS,
  **groups.NORMALIZED_OBSERVATIONS,
  **groups.NORMALIZED_REWARDS,
  **groups.Q_LEARNING,
  **groups.N_STEP,
  **groups.STACKED_FRAMES,
  **groups.EPSILON,
  **groups.REPLAY,
  **groups.HINDSIGHT,
  **groups.PRIORITIES,
  **groups.LEARNER,
  **groups.AUGMENTATION,
  **groups.DATASET,
  **groups.DATASET_RATIO,
  **_DQN_ONLY_FIELDS,
  **groups.BONUS,
}

# The fields that have an effect only with certain values of others. Fields that
# users may set for a task, whatever the head, are missing: lowest_return and
# highest_return of the network, learner.huber_delta (without effect with the
# head 'categorical') and learner.double (without effect with a Munchausen
# bonus).
_REQUIREMENTS: rules.Requirements = {
  **rules.EPSILON_REQUIREMENTS,
  **rules.BONUS_REQUIREMENTS,
  **rules.HINDSIGHT_REQUIREMENTS,
  ("network.head", "categorical"): ["network.atoms"],
  ("network.head", "quantile", "implicit_quantile"): ["network.quantiles"],
  ("network.head", "implicit_quantile"): ["network.cosines"],
  ("network.noisy", True): ["network.noisy_std"],
  ("learner.munchausen_scale",): [
    *("learner.munchausen_temperature", "learner.munchausen_lowest"),
  ],
  ("learner.margin_weight",): ["learner.margin"],
  ("replay.sampler", "prioritized"): tuple(groups.PRIORITIES),
}


def check(config: ml_collections.ConfigDict) -> None:
  """Checks the rules between fields of the DQN family's configs."""
  threshold = config.network.bcq_threshold
  if (config.learner.cql_weight or threshold) and not config.topology.workers:
    rules.check_dataset(config)
  if config.learner.margin_weight:
    rules.check_dataset(config)
  rules.check_replay(config)
  rules.check_stacked_frames(config)
  rules.check_bonus(config)
  rules.check_hindsight(config)
  if config.network.head == "categorical":
    rules.check_atoms(config)
  _check_munchausen(config)
  # With 'categorical', the trainer computes them.
  by_workers = config.network.head != "categorical"
  prioritized = config.replay.sampler == "prioritized"
  if config.normalization.rewards and prioritized and by_workers:
    raise ValueError(
      "config.normalization.rewards=True is computed by the trainer, but with "
      "config.replay.sampler='prioritized' workers compute initial priorities "
      "from unnormalized rewards: use 'uniform', or config.environment."
      "reward_scale"
    )
  if config.replay.hindsight != "none" and prioritized and by_workers:
    raise ValueError(
      f"config.replay.hindsight={config.replay.hindsight!r} adds transitions "
      "with goals for which workers know no TD error, but with config.replay."
      "sampler='prioritized' they compute initial priorities from it: use "
      "'uniform', or config.network.head='categorical'"
    )
  rules.check_requirements(config, FIELDS, _REQUIREMENTS)


def _check_munchausen(config: ml_collections.ConfigDict) -> None:
  """Checks that a Munchausen bonus is used with mean values."""
  scale = config.learner.munchausen_scale
  threshold = config.network.bcq_threshold
  if scale and threshold:
    raise ValueError(
      f"config.learner.munchausen_scale={scale!r} expects all actions, but "
      f"config.network.bcq_threshold={threshold!r} excludes some: use 0 for one"
    )
  if scale and config.network.head != "expected":
    raise ValueError(
      f"config.learner.munchausen_scale={scale!r} derives a policy from mean "
      f"values, which config.network.head={config.network.head!r} does not "
      "learn: use 'expected', or a scale of 0"
    )
