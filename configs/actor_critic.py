"""Actor-critic: the config fields of DDPG, TD3, SAC, IQL and their kin.

The algorithms differ in the policy's loss, in the number and the outputs of the
critics, and in how their targets are made robust.
"""

import ml_collections

from slipway.configs import base, checks, fields, groups, recipes, rules, tasks

Field = fields.Field

# Lowest value at which the loss 'constrained' keeps its temperature.
_LOWEST_TEMPERATURE = 1e-6

# The values of "network.critic_head", "network.layer_norm",
# "learner.policy_loss", "learner.policy_value", "learner.critic_target",
# "exploration.noise" and "learner.advantage_weight".
HEADS = ("expected", "categorical", "quantile")
LAYER_NORMS = ("none", "first", "all")
LOSSES = (
  *("soft", "deterministic", "constrained", "advantage_weighted"),
  "batch_constrained",
)
POLICY_VALUES = ("lowest", "mean", "first")
CRITIC_TARGETS = ("n_step", "retrace", "expectile")
NOISES = ("gaussian", "ornstein_uhlenbeck")
ADVANTAGE_WEIGHTS = ("exp", "binary")

FIELDS: fields.Fields = {
  **base.FIELDS,
  **groups.POLICY,
  **groups.ATOMS,
  **groups.EVALUATION_POLICY,
  **groups.NORMALIZED_OBSERVATIONS,
  **groups.NORMALIZED_REWARDS,
  **groups.LEARNER,
  **groups.AUGMENTATION,
  **groups.DATASET,
  **groups.DATASET_RATIO,
  **groups.REPLAY,
  **groups.HINDSIGHT,
  **groups.PRIORITIES,
  **groups.N_STEP,
  **groups.SEQUENCES,
  **groups.BURN_IN,
  **groups.OPTIONAL_CORE,
  **groups.STACKED_FRAMES,
  "adder.unroll": Field(
    10,
    "T, the steps of a sequence after the burn-in, for 'retrace' or a core",
    checks.at_least(2, "there would be no later steps to trace", most=1_000),
  ),
  "network.critics": Field(
    2,
    "C, the number of critics, each with its own target network; Fujimoto et "
    "al. 2018, section 4.2",
    checks.at_least(
      1, "the policy would have no values to improve on", most=100
    ),
  ),
  "network.critic_head": Field(
    "expected",
    "statistic of the returns' distribution that the critics learn: "
    "'expected', the mean; 'categorical', Barth-Maron et al. 2018, appendix A; "
    "'quantile', Kuznetsov et al. 2020",
    checks.one_of(HEADS, "the critics would have no outputs"),
  ),
  "network.critic_quantiles": Field(
    25,
    "M, the number of quantiles of each critic with the head 'quantile'; "
    "Kuznetsov et al. 2020, section 5",
    checks.at_least(1, "there would be no distribution", most=1_000),
  ),
  "learner.dropped_quantiles": Field(
    2,
    "d, the number of highest quantiles per target critic that targets leave "
    "out, of all critics' together; Kuznetsov et al. 2020, section 4.2",
    checks.at_least(0, "there are none below 0"),
  ),
  "network.layer_norm": Field(
    "none",
    "layer normalization before the activations of policy and critics: 'none'; "
    "'first', of the first linear layer, whose activation is tanh then (Acme); "
    "'all', of every linear layer of the critics, but none of the policy "
    "(Hiraoka et al. 2022)",
    checks.one_of(LAYER_NORMS, "the layers could not be computed"),
  ),
  "learner.policy_loss": Field(
    "soft",
    "loss of the policy: 'soft', which rewards entropy, for a tanh-Gaussian, "
    "Haarnoja et al. 2018; 'deterministic', for a deterministic policy with a "
    "target network, Lillicrap et al. 2016; 'constrained', which stays close "
    "to a target network, for a tanh-Gaussian, Abdolmaleki et al. 2018; "
    "'advantage_weighted', which imitates the better ones of the stored "
    "actions, Wang et al. 2020; 'batch_constrained', the best of actions that "
    "a model of the stored ones generates, Fujimoto et al. 2019",
    checks.one_of(LOSSES, "the policy would not be learned"),
  ),
  "learner.policy_value": Field(
    "lowest",
    "value that the policy maximises: the 'lowest' of the critics, Haarnoja et "
    "al. 2018; their 'mean', Chen et al. 2021; that of the 'first', Fujimoto "
    "et al. 2018",
    checks.one_of(POLICY_VALUES, "the policy would not be learned"),
  ),
  "learner.critic_target": Field(
    "n_step",
    "target of the critics: 'n_step', the sum of adder.n_step rewards and a "
    "bootstrap; 'retrace', from sequences of adder.unroll steps, corrected for "
    "the policy that collected them, Munos et al. 2016; 'expectile', as "
    "'n_step', but the bootstrap is an expectile of the values of the stored "
    "actions, for 'advantage_weighted', Kostrikov et al. 2021",
    checks.one_of(CRITIC_TARGETS, "the critics would learn nothing"),
  ),
  "learner.retrace_lambda": Field(
    0.95,
    "lambda of 'retrace', the weight of longer returns; Acme. Munos et al. "
    "2016: 1",
    checks.within(0, 1, "targets would diverge"),
  ),
  "learner.expectile": Field(
    0.7,
    "tau of 'expectile': 0.5, the mean value of the stored actions; near 1, "
    "the highest; Kostrikov et al. 2021, section 5: 0.7, on ant mazes 0.9",
    checks.within(1e-3, 0.999, "the values would have no or infinite errors"),
  ),
  "learner.advantage_weight": Field(
    "exp",
    "weight of a stored action in 'advantage_weighted': 'exp', exp(advantage / "
    "temperature); 'binary', 1 for advantages above 0, else 0",
    checks.one_of(ADVANTAGE_WEIGHTS, "the policy would not be learned"),
  ),
  "learner.advantage_temperature": Field(
    1.0,
    "temperature of the weight 'exp', in units of returns; Wang et al. 2020: "
    "1; Kostrikov et al. 2021, section 5: 1/3, on ant mazes 1/10",
    checks.within(1e-6, 1e6, "all actions, or one, would have all the weight"),
  ),
  "learner.max_weight": Field(
    20.0,
    "upper bound of the weight 'exp'; Acme for Wang et al. 2020: 20; "
    "Kostrikov et al. 2021, code: 100",
    checks.within(1, 1e6, "a few actions would have all the weight"),
  ),
  "learner.bc_weight": Field(
    0.0,
    "weight of the mean squared error of actions, as an imitation of the "
    "stored ones, in 'deterministic', whose values then have a mean size of 1; "
    "Fujimoto and Gu 2021, section 5: 1 / 2.5; 0: no imitation",
    checks.at_least(
      0, "actions would leave the stored ones", "0: none", most=1e6
    ),
  ),
  "learner.target_bc_weight": Field(
    0.0,
    "weight of the same error of the next actions, which the critics' targets "
    "subtract from the values of these, in units of returns; Tarasov et al. "
    "2023; 0: none",
    checks.at_least(
      0, "actions would leave the stored ones", "0: none", most=1e6
    ),
  ),
  "learner.perturbation": Field(
    0.05,
    "phi, the largest change, towards higher values, of the actions that the "
    "model in 'batch_constrained' generates, which are in [-1, 1]; Fujimoto et "
    "al. 2019, appendix",
    checks.within(0, 2, "actions are no further apart"),
  ),
  "learner.cql_weight": Field(
    0.0,
    "alpha, the weight of the penalty by which CQL lowers values of actions "
    "that the data lacks, for 'soft' with continuous actions; Kumar et al. "
    "2020, equation 4; 0: no penalty",
    checks.at_least(
      0, "values of unseen actions would rise", "0: none", most=1e6
    ),
  ),
  "learner.cql_actions": Field(
    10,
    "N, the number of uniform actions per observation in this penalty, and of "
    "the policy's; Kumar et al. 2020, appendix F",
    checks.within(1, 10_000, "their values could not be compared"),
  ),
  "learner.policy_period": Field(
    1,
    "trainer steps per update of the policy; Fujimoto et al. 2018, section "
    "6.1: 2",
    checks.at_least(1, "the policy would not be learned"),
  ),
  "learner.target_update_period": Field(
    1,
    "trainer steps per move of the target networks by tau; Fujimoto et al. "
    "2018, section 6.1: 2",
    checks.at_least(1, "the targets would never change"),
  ),
  "learner.tau": Field(
    0.005,
    "tau, the weight of the learned networks in the moving average that is "
    "made of the target networks; Haarnoja et al. 2018, table 1",
    checks.above(0, "targets would not follow the critics", most=1),
  ),
  "learner.target_critics": Field(
    0,
    "number of target critics, sampled at random for each update, whose "
    "lowest value is the bootstrap; Chen et al. 2021, algorithm 1; 0: all",
    checks.at_least(0, "there would be no bootstrap", "0: all"),
  ),
  "learner.target_noise": Field(
    0.0,
    "standard deviation of the noise on the target policy's actions, for "
    "'deterministic'; Fujimoto et al. 2018, section 6.1: 0.2",
    checks.at_least(
      0, "a deviation is never negative", "0: no noise", most=1e3
    ),
  ),
  "learner.target_noise_clip": Field(
    0.5,
    "largest absolute noise on the target policy's actions; Fujimoto et al. "
    "2018, section 6.1",
    checks.above(0, "there would be no noise"),
  ),
  "learner.temperature": Field(
    1.0,
    "initial temperature, which the learner adapts: alpha, the weight of the "
    "entropy in the loss 'soft'; eta of the actions' weights in 'constrained'",
    checks.above(0, "the policy would become deterministic", most=1e6),
  ),
  "learner.discrete_entropy": Field(
    0.5,
    "target entropy of a policy of A discrete actions in the loss 'soft', as a "
    "part of the largest one, log A; Christodoulou 2019: 0.98, with which it "
    "stays nearly random. For continuous actions: minus the number of "
    "dimensions, Haarnoja et al. 2018, appendix D",
    checks.within(1e-3, 0.99, "the policy would not learn, or not explore"),
  ),
  "learner.action_samples": Field(
    20,
    "N, the number of actions per observation in the loss 'constrained', Acme; "
    "in 'advantage_weighted', there Acme: 4; and in 'batch_constrained', also "
    "for acting; Fujimoto et al. 2019: 10",
    checks.within(2, 10_000, "their values could not be compared"),
  ),
  "learner.temperature_bound": Field(
    0.1,
    "eps of the loss 'constrained', in nats: the bound that determines the "
    "temperature; Abdolmaleki et al. 2018, appendix D.3",
    checks.above(0, "all weight would go to one action"),
  ),
  "learner.kl_bound": Field(
    2.5e-3,
    "bound of the KL divergence between target policy and policy by the mean, "
    "in nats per component of an action, for 'constrained'; Acme",
    checks.above(0, "the means could not change"),
  ),
  "learner.std_kl_bound": Field(
    1e-6,
    "the same bound by the standard deviation; Acme",
    checks.above(0, "standard deviations could not change"),
  ),
  "learner.kl_multiplier": Field(
    10.0,
    "initial Lagrange multiplier of learner.kl_bound; Acme",
    checks.within(1e-6, 1e6, "the KL divergence would have no bound"),
  ),
  "learner.std_kl_multiplier": Field(
    1e3,
    "initial Lagrange multiplier of learner.std_kl_bound; Acme",
    checks.within(1e-6, 1e6, "the KL divergence would have no bound"),
  ),
  "learner.policy_learning_rate": Field(
    0.0,
    "the optimizer's step size of the policy; 0: learner.learning_rate, which "
    "is that of the critics",
    checks.at_least(
      0, "the policy would get worse", "0: the critics'", most=1e3
    ),
  ),
  "learner.temperature_learning_rate": Field(
    0.0,
    "the optimizer's step size of the temperature in 'soft'; 0: "
    "learner.learning_rate",
    checks.at_least(0, "it would diverge", "0: the critics'", most=1e3),
  ),
  "learner.dual_learning_rate": Field(
    1e-2,
    "Adam's step size of temperature and multipliers in 'constrained'; Acme",
    checks.above(0, "temperature and multipliers would not change", most=1e3),
  ),
  "exploration.noise": Field(
    "gaussian",
    "noise on the actions of a deterministic policy: 'gaussian', independent "
    "at each step; 'ornstein_uhlenbeck', correlated over time, Lillicrap et "
    "al. 2016, section 3",
    checks.one_of(NOISES, "the policy would not explore"),
  ),
  "exploration.noise_std": Field(
    0.1,
    "standard deviation of the noise, for actions in [-1, 1]; Fujimoto et al. "
    "2018, section 6.1",
    checks.at_least(
      0, "a deviation is never negative", "0: no noise", most=1e3
    ),
  ),
  "exploration.lowest_noise_std": Field(
    0.0,
    "standard deviation of the last environment, down to which those of the "
    "environments fall geometrically from noise_std; 0: all have noise_std",
    checks.at_least(
      0, "a deviation is never negative", "0: all have noise_std"
    ),
  ),
  "exploration.random_steps": Field(
    0,
    "environment steps of all workers with uniformly random actions at the "
    "start; RL Baselines3 Zoo uses 10,000 on MuJoCo's tasks",
    checks.at_least(0, "a number of steps is never negative"),
  ),
  "exploration.random_repeats": Field(
    1,
    "environment steps for which each of these actions is repeated, with which "
    "a car gets up a hill that independent actions do not climb; Dabney et al. "
    "2021, section 3, sample the number",
    checks.at_least(1, "there would be no actions", most=10_000),
  ),
  **groups.BONUS,
}

# The fields that have an effect only with certain values of other fields. The
# presets of D4PG set lowest_return and highest_return for their tasks.
_REQUIREMENTS: rules.Requirements = {
  **rules.BONUS_REQUIREMENTS,
  **rules.HINDSIGHT_REQUIREMENTS,
  **rules.CORE_REQUIREMENTS,
  ("network.core_size",): [*groups.CORE, "adder.burn_in"],
  ("learner.critic_target", "n_step", "expectile"): ["adder.n_step"],
  # The expectiles value no other than the stored actions.
  ("learner.critic_target", "n_step", "retrace"): [
    *("learner.action_samples", "learner.target_critics"),
  ],
  ("learner.critic_target", "expectile"): ["learner.expectile"],
  ("learner.critic_target", "retrace"): ["learner.retrace_lambda"],
  ("learner.policy_loss", "deterministic"): [
    *("learner.target_noise", "learner.target_noise_clip"),
    *("learner.bc_weight", "learner.target_bc_weight"),
  ],
  ("learner.policy_loss", "deterministic", "batch_constrained"): [
    *("exploration.noise", "exploration.noise_std"),
    "exploration.lowest_noise_std",
  ],
  ("learner.target_noise",): ["learner.target_noise_clip"],
  ("exploration.random_steps",): ["exploration.random_repeats"],
  ("replay.sampler", "prioritized"): [*groups.PRIORITIES, "replay.eta"],
  ("network.critic_head", "categorical"): ["network.atoms"],
  ("network.critic_head", "quantile"): [
    *("network.critic_quantiles", "learner.dropped_quantiles"),
  ],
  # A deterministic policy has nothing to sample from.
  ("learner.policy_loss", "soft", "constrained", "advantage_weighted"): [
    "evaluation.policy",
  ],
  ("learner.policy_loss", "soft", "constrained"): ["learner.temperature"],
  (
    *("learner.policy_loss", "constrained", "advantage_weighted"),
    "batch_constrained",
  ): ["learner.action_samples"],
  (
    *("learner.policy_loss", "soft", "deterministic", "constrained"),
    "advantage_weighted",
  ): ["learner.target_critics"],
  ("learner.policy_loss", "batch_constrained"): ["learner.perturbation"],
  ("learner.policy_loss", "advantage_weighted"): [
    *("learner.advantage_weight", "learner.advantage_temperature"),
    "learner.max_weight",
  ],
  ("learner.advantage_weight", "exp"): [
    *("learner.advantage_temperature", "learner.max_weight"),
  ],
  ("learner.policy_loss", "soft"): [
    *("learner.discrete_entropy", "learner.temperature_learning_rate"),
    "learner.cql_weight",
  ],
  ("learner.cql_weight",): ["learner.cql_actions"],
  ("learner.policy_loss", "constrained"): [
    "learner.temperature_bound",
    *("learner.kl_bound", "learner.std_kl_bound"),
    *("learner.kl_multiplier", "learner.std_kl_multiplier"),
    "learner.dual_learning_rate",
  ],
}


# Four environments, and one update per step of an environment.
_COLLECTION: recipes.Values = {
  "topology.environments_per_worker": 4,
  # One of each environment: the trainer makes 1.5 times as many updates.
  "replay.transitions_per_item": 4,
  "replay.samples_per_insert": 256.0,  # the batch size
}
# Replay and rates for tasks that are learned in some thousand steps.
SMALL_REPLAY: recipes.Values = {
  **_COLLECTION,
  "replay.capacity": 50_000,
  "replay.min_size": 1_000,
  "replay.tolerance": 0.1,  # 100 environment steps; see docs/learning.md
  "sync.environment_steps": 100,
  "evaluation.period_steps": 1_000,
  "evaluation.period_s": 2.0,
}
# RL Baselines3 Zoo's replay and rates for MuJoCo's tasks.
_LARGE_REPLAY: recipes.Values = {
  **_COLLECTION,
  "replay.capacity": 1_000_000,
  "replay.min_size": 10_000,
  "replay.tolerance": 0.02,  # 200 environment steps; see docs/learning.md
  "exploration.random_steps": 10_000,
  "sync.environment_steps": 1_000,
  "evaluation.episodes": 10,
  "evaluation.period_steps": 10_000,
  "evaluation.period_s": 30.0,
}
# Updates that begin after half the steps of RL Baselines3 Zoo on MuJoCo's
# tasks; docs/learning.md has the returns.
EARLY_START: recipes.Values = {
  "replay.min_size": 5_000,
  "replay.tolerance": 0.04,  # 200 environment steps
  "exploration.random_steps": 5_000,
}

_TASKS: dict[str, recipes.Values] = {
  "pendulum": {**tasks.PENDULUM, **SMALL_REPLAY},
  "lunarlander": {
    **tasks.CONTINUOUS_LUNARLANDER,
    # docs/learning.md says why.
    **_LARGE_REPLAY,
    "replay.min_size": 5_000,
    "exploration.random_steps": 5_000,
    # An update per four steps. With one per step, policies hover for longer.
    "replay.samples_per_insert": 64.0,
    "adder.n_step": 5,
    "network.hidden_sizes": (128, 128),
    "evaluation.period_steps": 2_500,  # updates: 10,000 environment steps
    "evaluation.period_s": 10.0,
  },
  "bipedalwalker": {**tasks.BIPEDALWALKER, **_LARGE_REPLAY},
  **{name: {**x, **_LARGE_REPLAY} for name, x in tasks.MUJOCO.items()},
  "dm_control": {**tasks.DM_CONTROL, **_LARGE_REPLAY},
}

# The values of the family, which each algorithm changes.
RECIPE = recipes.Recipe(
  {
    "agent": "actor_critic",
    "network.hidden_sizes": (256, 256),
    # PyTorch's, so Stable-Baselines3's; docs/learning.md compares returns.
    "network.initializer": "uniform",
    "learner.batch_size": 256,
    "learner.learning_rate": 3e-4,
    "learner.max_gradient_norm": 1e6,  # the papers do not clip gradients
    "learner.threads": 0,  # arithmetic-bound: all cores
    "learner.threads_per_operation": 1,  # critics and policy side by side
  },
  _TASKS,
  fields=FIELDS,
)


# Fields that have an effect only on sequences, or only on transitions, with the
# values that presets set.
_OF_SEQUENCES = ("adder.unroll", "adder.period", "replay.eta")
_OF_TRANSITIONS = {
  "replay.transitions_per_item": (1, 4),
  "learner.target_bc_weight": (0.0,),
}


def uses_sequences(config: ml_collections.ConfigDict) -> bool:
  """Returns whether items are sequences, for Retrace or a memory."""
  has_memory = bool(config.network.core_size)
  return has_memory or config.learner.critic_target == "retrace"


def _is_offline(config: ml_collections.ConfigDict) -> bool:
  """Returns whether the policy or its values fit the stored actions only."""
  learner = config.learner
  weight = learner.bc_weight + learner.target_bc_weight + learner.cql_weight
  losses = ("advantage_weighted", "batch_constrained")
  return learner.policy_loss in losses or weight > 0


def check(config: ml_collections.ConfigDict) -> None:
  """Checks the rules between fields of an actor-critic config."""
  rules.check_replay(config)
  if config.network.critic_head == "categorical":
    rules.check_atoms(config)
  rules.check_stacked_frames(config)
  rules.check_bonus(config)
  rules.check_hindsight(config)
  critics, targets = config.network.critics, config.learner.target_critics
  if targets > critics:
    raise ValueError(
      f"config.learner.target_critics={targets} is more than config.network."
      f"critics={critics}, so they can't be chosen: use at most {critics}, or "
      "0 for all"
    )
  noise = config.exploration
  if noise.lowest_noise_std > noise.noise_std:
    raise ValueError(
      f"config.exploration.lowest_noise_std={noise.lowest_noise_std} is above "
      f"config.exploration.noise_std={noise.noise_std}, the largest one: lower "
      "it"
    )
  repeats = noise.random_repeats
  if config.environment.action_mask and noise.random_steps and repeats > 1:
    raise ValueError(
      f"config.exploration.random_repeats={repeats} would repeat actions that "
      "have become illegal with config.environment.action_mask=True: use 1"
    )
  learner = config.learner
  if (
    learner.policy_loss == "constrained"
    and learner.temperature < _LOWEST_TEMPERATURE
  ):
    raise ValueError(
      f"config.learner.temperature={learner.temperature} is below "
      f"{_LOWEST_TEMPERATURE}, the lowest one that config.learner.policy_loss="
      "'constrained' learns, so the first update would raise it: use at least "
      f"{_LOWEST_TEMPERATURE}"
    )
  if config.network.critic_head == "quantile":
    _check_quantiles(config)
  if learner.critic_target == "retrace":
    _check_retrace(config)
  if learner.critic_target == "expectile":
    _check_expectile(config)
  if learner.policy_loss == "batch_constrained":
    _check_batch_constrained(config)
  if _is_offline(config) and not config.topology.workers:
    rules.check_dataset(config)
  rules.check_core(config)
  _check_items(config)
  rules.check_requirements(config, FIELDS, _REQUIREMENTS)


def _check_items(config: ml_collections.ConfigDict) -> None:
  """Checks the fields of the kind of items, sequences or transitions."""
  if uses_sequences(config):
    rules.check_period(config)
    valid, items = _OF_TRANSITIONS, "sequences"
  else:
    valid = {name: (FIELDS[name].default,) for name in _OF_SEQUENCES}
    items = "transitions"
  for name, values in valid.items():
    if (value := fields.get(config, name)) not in values:
      raise ValueError(
        f"config.{name}={value!r} has no effect with config.network.core_size="
        f"{config.network.core_size} and config.learner.critic_target="
        f"{config.learner.critic_target!r}, whose items are {items}, so the "
        f"run would ignore it: use {values[0]!r}, or change one of these"
      )


def _check_quantiles(config: ml_collections.ConfigDict) -> None:
  """Checks that critics of quantiles leave some of them, of one action."""
  dropped = config.learner.dropped_quantiles
  quantiles = config.network.critic_quantiles
  if dropped >= quantiles:
    raise ValueError(
      f"config.learner.dropped_quantiles={dropped} leaves none of config."
      f"network.critic_quantiles={quantiles}, so there would be no targets: "
      f"use at most {quantiles - 1}"
    )
  loss = config.learner.policy_loss
  if loss in ("constrained", "advantage_weighted"):
    raise ValueError(
      "config.network.critic_head='quantile' takes one next action, but config."
      f"learner.policy_loss={loss!r} samples several: use 'expected', or "
      "another loss"
    )


def _check_retrace(config: ml_collections.ConfigDict) -> None:
  """Checks that a config's other fields fit the critics' target 'retrace'."""
  if config.learner.policy_loss == "deterministic":
    raise ValueError(
      "config.learner.critic_target='retrace' needs the probabilities of "
      "actions, which the policy of config.learner.policy_loss='deterministic' "
      "does not have: use 'n_step'"
    )
  if config.network.critic_head != "expected":
    raise ValueError(
      f"config.network.critic_head={config.network.critic_head!r} learns "
      "distributions, but config.learner.critic_target='retrace' gives single "
      "returns: use 'expected', or 'n_step'"
    )


def _check_expectile(config: ml_collections.ConfigDict) -> None:
  """Checks that a config's other fields fit the critics' target 'expectile'."""
  for name, needed in (
    ("learner.policy_loss", "advantage_weighted"),
    ("network.critic_head", "expected"),
  ):
    if (value := fields.get(config, name)) != needed:
      raise ValueError(
        "config.learner.critic_target='expectile' learns state values, from "
        f"which config.{name}={value!r} can't learn: use {needed!r}, or "
        "critic_target 'n_step'"
      )


def _check_batch_constrained(config: ml_collections.ConfigDict) -> None:
  """Checks that a config's other fields fit the loss 'batch_constrained'."""
  for name, needed in (
    ("learner.critic_target", "n_step"),
    ("network.critic_head", "expected"),
    ("network.core_size", 0),
  ):
    if (value := fields.get(config, name)) != needed:
      raise ValueError(
        "config.learner.policy_loss='batch_constrained' gives critics the mean "
        "value of the best of several actions, and its model has no memory, so "
        f"it can't be combined with config.{name}={value!r}: use {needed!r}, "
        "or another loss"
      )
