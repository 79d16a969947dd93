"""Rules: checks of config fields against one another, for several families.

Each family's `check` calls those that concern its groups of fields. Checks
raise a ValueError that names the fields, their values and the consequence.
"""

import math
import typing
from collections.abc import Mapping, Sequence

import ml_collections

from slipway.configs import catalog, fields, groups

# The smallest valid distance of neighbouring atoms, relative to the largest
# absolute atom. Closer atoms may be equal in float32.
_MIN_ATOM_DISTANCE = 2.0**-22
# Heads of an attention core.
CORE_HEADS = 4


# Names of fields that have no effect unless another field has certain values:
# by that field and its values, or by the field alone if it must be above 0.
Requirements = Mapping[tuple[str | bool, ...], Sequence[str]]

# The fields of `groups.EPSILON` that have an effect with one schedule only. The
# presets set epsilon_end and decay_steps for their tasks, with both schedules.
EPSILON_REQUIREMENTS: Requirements = {
  ("exploration.schedule", "linear"): ["exploration.epsilon_start"],
  ("exploration.schedule", "ladder"): [
    *("exploration.ladder_base", "exploration.ladder_exponent"),
  ],
}

# The field of `groups.CORE` that has an effect with one core only.
CORE_REQUIREMENTS: Requirements = {
  ("network.core", "attention"): ["network.core_window"],
}

# The fields of `groups.LEARNER` that have an effect with some optimizers or a
# decay only.
_LEARNER_REQUIREMENTS: Requirements = {
  ("learner.optimizer", "adamw"): ["learner.weight_decay"],
  ("learner.optimizer", "adam", "adamw", "rmsprop"): ["learner.adam_epsilon"],
  ("learner.decay_steps",): ["learner.schedule"],
}

# The fields of `groups.BONUS` that have an effect with some kinds only.
BONUS_REQUIREMENTS: Requirements = {
  ("bonus.kind", "rnd", "icm"): [
    *("bonus.weight", "bonus.features"),
    *("bonus.learning_rate", "bonus.batch_size"),
  ],
  ("bonus.kind", "icm"): ["bonus.forward_weight"],
}

# The fields that concern steps of the environment, of which a run that learns
# from recorded episodes has none.
_OF_STEPS = (
  *("limits.environment_steps", "limits.episodes"),
  "rates.environment_steps_per_s",
)

# The field of `groups.HINDSIGHT` that has an effect with one strategy only.
HINDSIGHT_REQUIREMENTS: Requirements = {
  ("replay.hindsight", "future"): ["replay.hindsight_goals"],
}


def check_requirements(
  config: ml_collections.ConfigDict,
  declared: fields.Fields,
  requirements: Requirements,
) -> None:
  """Checks that fields without an effect have their default values.

  Values that any preset sets are valid, too, so that a user of that preset can
  change the other field alone. The fields of `groups.LEARNER` are checked, too,
  where they are declared.

  Args:
    declared: the declarations of the config's fields, by dotted name.
    requirements: the fields that may have no effect.
  """
  if "learner.optimizer" in declared:
    requirements = {**_LEARNER_REQUIREMENTS, **requirements}
  for (other, *values), names in requirements.items():
    found = fields.get(config, str(other))
    if found in values if values else found > 0:
      continue
    wanted = " or ".join(map(repr, values)) or "a value above 0"
    for name in names:
      value, default = fields.get(config, name), declared[name].default
      known = value == default or value in catalog.list_values(
        config.agent, name
      )
      if not known:
        raise ValueError(
          f"config.{name}={value!r} has no effect with config.{other}="
          f"{found!r}, so the run would ignore it: use {default!r} for the "
          f"first one, or {wanted} for the second"
        )


def check_effect(
  config: ml_collections.ConfigDict,
  declared: fields.Fields,
  name: str,
  kind: str,
) -> None:
  """Checks that a field has its default where the actions ignore it.

  Args:
    declared: the declarations of the config's fields, by dotted name.
    kind: kind of the environment's actions, 'discrete' or 'continuous'.
  """
  value, default = fields.get(config, name), declared[name].default
  if value != default:
    other = "continuous" if kind == "discrete" else "discrete"
    raise ValueError(
      f"config.{name}={value!r} has no effect with the {kind} actions of "
      f"config.environment.name={config.environment.name!r}, so the run would "
      f"ignore it: use {default!r}, or an environment with {other} actions"
    )


def check_replay(config: ml_collections.ConfigDict) -> None:
  """Checks the rules between the fields of `groups.REPLAY` and others.

  `slipway.replay.tables.table_spec` checks the rules between the table's sizes.
  """
  if fields.get(config, "dataset.ratio"):
    check_dataset(config)
    _check_no_retrace(config, "dataset.ratio")
  elif fields.get(config, "dataset.path"):
    _check_recorded(config)
    return
  _check_collection(config)
  if config.mode == "sync" and not config.replay.samples_per_insert:
    raise ValueError(
      "config.replay.samples_per_insert=0.0 is no ratio, so in mode 'sync' "
      "the number of updates per round would be unknown: use a ratio above 0"
    )
  _check_shards(config)


def check_period(config: ml_collections.ConfigDict) -> None:
  """Raises ValueError if sequences of a replay table would leave out steps."""
  period, unroll = config.adder.period, config.adder.unroll
  if period > unroll:
    raise ValueError(
      f"config.adder.period={period} is above config.adder.unroll={unroll}: "
      "the steps between two sequences would never be learned; lower the period"
    )


def check_ungrouped(config: ml_collections.ConfigDict) -> None:
  """Checks that an algorithm of sequences groups no transitions."""
  grouped = config.replay.transitions_per_item
  if grouped != 1:
    raise ValueError(
      f"config.replay.transitions_per_item={grouped} groups transitions, but "
      f"each item of config.agent={config.agent!r} is one sequence: use 1"
    )


def check_stacked_frames(config: ml_collections.ConfigDict) -> None:
  """Raises ValueError if stacked frames would lose their action masks."""
  if config.environment.action_mask and config.adder.stacked_frames:
    raise ValueError(
      f"config.adder.stacked_frames={config.adder.stacked_frames} stores "
      "frames without the action masks that config.environment.action_mask="
      "True adds to observations: use --config.adder.stacked_frames=0"
    )


def check_queue(config: ml_collections.ConfigDict) -> None:
  """Checks the rules between the fields of `groups.QUEUE` and others."""
  _check_collection(config)
  _check_shards(config)
  _check_age(config)


def count_unfinished_rollouts(config: ml_collections.ConfigDict) -> int:
  """Returns how many unfinished rollouts there are for each shard's queue."""
  topology = config.topology
  environments = topology.workers * topology.environments_per_worker
  return -(-environments // config.replay.shards)


def _check_age(config: ml_collections.ConfigDict) -> None:
  """Raises ValueError if the limit on the policy age leaves no batch."""
  topology, batch_size = config.topology, config.learner.batch_size
  environments = topology.workers * topology.environments_per_worker
  # A batch in the queue, that of the trainer, and the unfinished rollouts.
  least = 2 + -(-count_unfinished_rollouts(config) // batch_size)
  if config.mode == "async" and config.variables.max_age < least:
    raise ValueError(
      f"config.variables.max_age={config.variables.max_age} is below {least}: "
      f"the rollouts of {environments} environments in batches of {batch_size} "
      f"are {least} versions old, so no queue could keep that limit; use "
      f"{least} or more, fewer environments, or mode 'sync'"
    )


def _check_collection(config: ml_collections.ConfigDict) -> None:
  """Raises ValueError if nothing can collect in the run's mode."""
  workers, mode = config.topology.workers, config.mode
  if workers and config.environment.external:
    raise ValueError(
      f"config.topology.workers={workers} with config.environment.external="
      "True, an environment without steps: workers could not collect; use 0 "
      "workers, so that external processes collect"
    )
  if workers:
    return
  if mode != "async":
    raise ValueError(
      f"config.topology.workers=0 with config.mode={mode!r}, which counts "
      "the steps of workers: the run would wait for ever; use 1 or more, or "
      "mode 'async', in which external processes can collect"
    )
  if not config.topology.proxy:
    raise ValueError(
      "config.topology.workers=0 with config.topology.proxy=False: external "
      "processes write through a proxy, so nothing would be collected; use "
      "True, or 1 or more workers"
    )


def check_dataset(config: ml_collections.ConfigDict) -> None:
  """Checks that a config names episodes, and sets nothing for workers alone."""
  path = config.dataset.path
  if not path:
    raise ValueError(
      "config.dataset.path='' names no folder, so there would be nothing to "
      "learn from: give --config.dataset.path=FOLDER of recorded episodes"
    )
  if config.dataset.get("ratio", 0.0):
    return  # workers step environments, too
  for name in _OF_STEPS:
    value = fields.get(config, name)
    # Presets for MuJoCo have such a limit, besides which another one is needed.
    if value and value not in catalog.list_values(config.agent, name):
      raise ValueError(
        f"config.{name}={value!r} with config.dataset.path={path!r} has no "
        "effect, since no environment is stepped: use 0"
      )


def _check_recorded(config: ml_collections.ConfigDict) -> None:
  """Raises ValueError if a run can't learn from recorded episodes."""
  path = config.dataset.path
  check_dataset(config)
  _check_needed(
    config,
    "dataset.path",
    ("topology.workers", 0, "learns without workers if dataset.ratio is 0"),
    ("replay.sampler", "uniform", "samples recorded steps uniformly"),
    ("replay.shards", 1, "has no replay server"),
  )
  _check_no_retrace(config, "dataset.path")
  limits = config.limits
  if limits.environment_steps and not (
    limits.trainer_steps or limits.wall_clock_s
  ):
    raise ValueError(
      f"config.limits.trainer_steps=0 with config.dataset.path={path!r}: no "
      "environment is stepped, so the preset's limits.environment_steps="
      f"{limits.environment_steps} never ends the run; give "
      "--config.limits.trainer_steps=N"
    )


def _check_shards(config: ml_collections.ConfigDict) -> None:
  """Raises ValueError if one of several servers would have no own process."""
  shards, topology = config.replay.shards, config.topology
  if shards == 1:
    return
  if config.mode == "single":
    raise ValueError(
      f"config.replay.shards={shards} is not for mode 'single', whose one "
      "process has one table: use 1, or another mode"
    )
  if topology.replay != "own_process":
    raise ValueError(
      f"config.replay.shards={shards} needs processes of their own, but with "
      f"config.topology.replay={topology.replay!r} the trainer hosts the one "
      "table: use 'own_process', or 1 shard"
    )


def _check_no_retrace(config: ml_collections.ConfigDict, other: str) -> None:
  """Raises ValueError if targets need what recorded episodes do not have."""
  target = config.learner.get("critic_target")
  if target == "retrace":
    _check_needed(
      config,
      other,
      ("learner.critic_target", "n_step", "knows no probabilities of actions"),
    )


def _check_needed(
  config: ml_collections.ConfigDict,
  other: str,
  *needs: tuple[str, typing.Any, str],
) -> None:
  """Raises ValueError if a field has not the value that another one needs."""
  for name, needed, reason in needs:
    section, _, last = name.partition(".")
    value = config[section].get(last, needed)
    if value != needed:
      raise ValueError(
        f"config.{name}={value!r} with config.{other}="
        f"{fields.get(config, other)!r}, which {reason}: use --config.{name}="
        f"{needed}"
      )


def check_hindsight(config: ml_collections.ConfigDict) -> None:
  """Checks the rules between the fields of `groups.HINDSIGHT` and others."""
  if config.replay.hindsight == "none":
    return
  _check_needed(
    config,
    "replay.hindsight",
    ("adder.n_step", 1, "relabels single steps"),
    ("adder.stacked_frames", 0, "changes whole observations"),
    ("network.core_size", 0, "relabels transitions, no sequences"),
    ("learner.critic_target", "n_step", "relabels transitions, no sequences"),
    ("learner.target_bc_weight", 0.0, "adds no next actions"),
    ("normalization.rewards", False, "adds rewards of no episode's return"),
    ("environment.external", False, "calls the environment's compute_reward"),
  )


def count_relabelled(config: ml_collections.ConfigDict) -> int:
  """Returns the number of relabelled copies of each transition."""
  kind = config.replay.get("hindsight", "none")
  return config.replay.hindsight_goals if kind == "future" else kind == "final"


def check_atoms(config: ml_collections.ConfigDict) -> None:
  """Raises ValueError unless the atoms of `groups.ATOMS` can be placed."""
  network = config.network
  lowest, highest = network.lowest_return, network.highest_return
  if math.isinf(lowest) and math.isinf(highest):
    if network.atoms != groups.ATOMS["network.atoms"].default:
      raise ValueError(
        f"config.network.atoms={network.atoms!r} has no effect with config."
        f"network.lowest_return={lowest!r}, without which there are 255 atoms: "
        "leave it out, or give lowest_return and highest_return"
      )
    return
  if math.isinf(lowest) or math.isinf(highest):
    raise ValueError(
      f"config.network.lowest_return={lowest!r} with config.network."
      f"highest_return={highest!r} is half a support, so the atoms can't be "
      "placed: give both returns, or neither for returns of any size"
    )
  step = (highest - lowest) / (network.atoms - 1)
  if not step > _MIN_ATOM_DISTANCE * max(abs(lowest), abs(highest)):
    raise ValueError(
      f"config.network.lowest_return={lowest!r} is too close to config.network."
      f"highest_return={highest!r}, or above it: float32 can't place "
      f"{network.atoms} different atoms between them; change one of them"
    )


def check_core(config: ml_collections.ConfigDict) -> None:
  """Checks that an attention core's size has whole heads."""
  size = config.network.core_size
  if config.network.core == "attention" and size % CORE_HEADS:
    raise ValueError(
      f"config.network.core_size={size} can't be divided among the "
      f"{CORE_HEADS} heads of config.network.core='attention': use a multiple "
      f"of {CORE_HEADS}"
    )


def check_bonus(config: ml_collections.ConfigDict) -> None:
  """Checks the rules between the fields of `groups.BONUS` and others."""
  kind = config.bonus.kind
  if kind == "none":
    return
  if config.normalization.rewards:
    raise ValueError(
      f"config.bonus.kind={kind!r} with config.normalization.rewards=True "
      "would divide the bonus by the deviation of returns without it, which "
      "may be 0 before the first reward: use --noconfig.normalization.rewards"
    )
  if config.adder.discount == 1:
    raise ValueError(
      f"config.bonus.kind={kind!r} is divided by the deviation of its "
      "discounted sums, which with config.adder.discount=1.0 grow without end, "
      "so the bonus would vanish: use a discount below 1, such as 0.99"
    )
  if config.network.get("core_size", 0):
    raise ValueError(
      f"config.bonus.kind={kind!r} changes rewards in the learner, but with "
      f"config.network.core_size={config.network.core_size} they are inputs of "
      "the networks, and workers have no bonus: use a core_size of 0"
    )
  n_step = config.adder.get("n_step", 1)
  is_transition = config.learner.get("critic_target") != "retrace"
  if is_transition and n_step != 1:
    raise ValueError(
      f"config.bonus.kind={kind!r} rewards single steps, but config.adder."
      f"n_step={n_step} stores only the first and the last observation of "
      f"{n_step}, so the steps between them would have no bonus: use "
      "--config.adder.n_step=1"
    )
