"""Range checks of a config, before anything is started."""

import math
import typing
from collections.abc import Callable

import ml_collections

from configs import sizes

MODES = ("async", "sync", "single")
TORSOS = ("mlp", "minatar_cnn", "nature_cnn")
HEADS = ("expected", "categorical", "quantile", "implicit_quantile")

# field, test, what a value must be, what follows otherwise
_RANGES: tuple[tuple[str, Callable[[typing.Any], bool], str, str], ...] = (
    ("seed", lambda x: x >= 0, "at least 0",
     "random generators take none below"),
    ("mode", lambda x: x in MODES,
     "'async', 'sync' or 'single'", "nobody would know whose turn it is"),
    ("sync.environment_steps", lambda x: x >= 1, "at least 1",
     "a round would have no steps"),
    ("adder.n_step", lambda x: x >= 1, "at least 1",
     "there would be no transition"),
    ("adder.discount", lambda x: 0 <= x <= 1, "in [0, 1]",
     "returns would diverge"),
    ("adder.stacked_frames", lambda x: x >= 0,
     "at least 0 (0: observations are stored whole)",
     "there would be no frames"),
    ("exploration.schedule", lambda x: x in ("linear", "ladder"),
     "'linear' or 'ladder'", "workers would not know their epsilon"),
    ("exploration.epsilon_start", lambda x: 0 <= x <= 1, "in [0, 1]",
     "it is a probability"),
    ("exploration.epsilon_end", lambda x: 0 <= x <= 1, "in [0, 1]",
     "it is a probability"),
    ("exploration.ladder_base", lambda x: 0 < x < 1, "in (0, 1)",
     "it is a probability"),
    ("exploration.ladder_exponent", lambda x: x >= 0, "at least 0",
     "epsilons would exceed 1"),
    ("exploration.decay_steps", lambda x: x >= 1, "at least 1",
     "epsilon would never decay"),
    ("network.torso", lambda x: x in TORSOS, f"one of {', '.join(TORSOS)}",
     "there would be no network"),
    ("network.hidden_sizes", lambda x: len(x) > 0 and min(x) > 0,
     "positive sizes", "the network would have no head"),
    ("network.head", lambda x: x in HEADS, f"one of {', '.join(HEADS)}",
     "there would be nothing to learn of returns"),
    ("network.atoms", lambda x: x >= 2, "at least 2",
     "there would be no distribution"),
    ("network.quantiles", lambda x: x >= 1, "at least 1",
     "there would be no distribution"),
    ("network.cosines", lambda x: x >= 1, "at least 1",
     "quantiles could not be told apart"),
    ("network.noisy_std", lambda x: x > 0, "above 0",
     "there would be no noise"),
    ("learner.munchausen_scale", lambda x: 0 <= x <= 1, "in [0, 1] (0: none)",
     "the bonus would outweigh the rewards"),
    ("learner.munchausen_temperature", lambda x: x > 0, "above 0",
     "the policy could not be computed"),
    ("learner.munchausen_lowest", lambda x: x <= 0, "at most 0",
     "there would be no bonus"),
    ("network.lstm_size", lambda x: x >= 1, "at least 1",
     "there would be no memory"),
    ("adder.burn_in", lambda x: x >= 0, "at least 0",
     "sequences would end before they begin"),
    ("adder.unroll", lambda x: x >= 1, "at least 1",
     "there would be nothing to learn from"),
    ("adder.period", lambda x: x >= 1, "at least 1",
     "the same sequence would be written for ever"),
    ("replay.eta", lambda x: 0 <= x <= 1, "in [0, 1]",
     "priorities could be negative"),
    ("replay.sampler", lambda x: x in ("uniform", "prioritized"),
     "'uniform' or 'prioritized'", "the table could not sample"),
    ("replay.min_size", lambda x: x >= 1, "at least 1",
     "an empty table can't be sampled"),
    ("replay.samples_per_insert", lambda x: x >= 0,
     "at least 0 (0: no limit)", "the limiter would block for ever"),
    ("replay.transitions_per_item", lambda x: x >= 1, "at least 1",
     "nothing would be written"),
    ("replay.shards", lambda x: 1 <= x <= 16, "in [1, 16]",
     "there would be no replay, or more than a proxy can relay to"),
    ("replay.tolerance", lambda x: x > 0, "above 0",
     "the limiter would block for ever"),
    ("replay.priority_exponent", lambda x: x >= 0, "at least 0",
     "large errors would be sampled least"),
    ("replay.importance_exponent_start", lambda x: 0 <= x <= 1, "in [0, 1]",
     "the weights would overcorrect"),
    ("replay.importance_exponent_end", lambda x: 0 <= x <= 1, "in [0, 1]",
     "the weights would overcorrect"),
    ("replay.importance_steps", lambda x: x >= 1, "at least 1",
     "beta could not be annealed"),
    ("learner.batch_size", lambda x: x >= 1, "at least 1",
     "there would be no batch"),
    ("learner.learning_rate", lambda x: x > 0, "above 0",
     "nothing would be learned"),
    ("learner.adam_epsilon", lambda x: x > 0, "above 0",
     "updates could divide by zero"),
    ("learner.huber_delta", lambda x: x > 0, "above 0",
     "the loss would be zero"),
    ("learner.max_gradient_norm", lambda x: x > 0, "above 0",
     "every gradient would be zero"),
    ("learner.target_update_period", lambda x: x >= 1, "at least 1",
     "the target network would never follow"),
    ("learner.steps_per_call", lambda x: x >= 1, "at least 1",
     "the trainer would never step"),
    ("learner.threads", lambda x: x >= 0, "at least 0 (0: one a core)",
     "the trainer could not compute"),
    ("variables.publish_period", lambda x: x >= 1, "at least 1",
     "workers would act on the first variables for ever"),
    ("topology.workers", lambda x: 1 <= x <= 256, "in [1, 256]",
     "nothing would be collected, or by more than a proxy can direct"),
    ("topology.environments_per_worker", lambda x: x >= 1, "at least 1",
     "nothing would be collected"),
    ("topology.replay", lambda x: x in ("with_trainer", "own_process"),
     "'with_trainer' or 'own_process'", "replay would have no process"),
    ("topology.machines", lambda x: x >= 0, "at least 0 (0: all)",
     "there would be no place to collect"),
    ("topology.home_workers", lambda x: 0 <= x <= 256, "in [0, 256]",
     "a proxy could not direct them"),
    ("topology.trainer_machine", lambda x: x in ("home", "own"),
     "'home' or 'own'", "the trainer would have no machine"),
    ("topology.trainer_cpus", lambda x: x >= 0, "at least 0",
     "no machine has less"),
    ("topology.trainer_gpus", lambda x: x >= 0, "at least 0",
     "no machine has less"),
    ("topology.cpus_per_worker", lambda x: x >= 0, "at least 0",
     "no machine has less"),
    ("evaluation.episodes", lambda x: x >= 1, "at least 1",
     "there would be no return"),
    ("evaluation.period_s", lambda x: x >= 0, "at least 0",
     "time does not run backwards"),
    ("evaluation.period_steps", lambda x: x >= 1, "at least 1",
     "nothing else would be done"),
    ("restarts.budget", lambda x: x >= 0, "at least 0 (0: none)",
     "nothing could be counted against it"),
    ("restarts.period_s", lambda x: x > 0, "above 0",
     "no failure would ever count"),
    ("snapshot.period_s", lambda x: x > 0, "above 0",
     "the trainer would do nothing but save"),
    ("snapshot.keep", lambda x: x >= 1, "at least 1",
     "nothing could be resumed"),
    ("snapshot.url", lambda x: not x or x.startswith("/") or "://" in x,
     "an absolute path or an URL ('': none)",
     "each machine would have a folder of its own"),
    ("watchdog.period_s", lambda x: x > 0, "above 0",
     "each moment between two steps would be called a stall"),
    ("rates.environment_steps_per_s", lambda x: x >= 0,
     "at least 0 (0: no limit)", "workers could not be held to it"),
    ("limits.environment_steps", lambda x: x >= 0, "at least 0 (0: none)",
     "the run would end before it starts"),
    ("limits.trainer_steps", lambda x: x >= 0, "at least 0 (0: none)",
     "the run would end before it starts"),
    ("limits.wall_clock_s", lambda x: x >= 0, "at least 0 (0: none)",
     "the run would end before it starts"),
)  # fmt: skip

# The one limit that may be infinite: no return ends the run then.
_TARGET = "limits.target_return"
# Reverb's limiter counts in doubles, which tell no two samples apart beyond.
_COUNTED_TO = 2.0**53


def validate(config: ml_collections.ConfigDict) -> None:
  """Checks each field's range and the fields that must fit together.

  Raises:
    ValueError: one line with the field, its value and the consequence.
  """
  for field, *_ in _RANGES:
    value = _get(config, field)
    if value is not None:
      check(field, value)
  check(_TARGET, config.limits.target_return)
  _validate_replay(config)
  _validate_shards(config)
  _validate_returns(config)
  _validate_sequences(config)
  if config.mode == "sync" and not config.replay.samples_per_insert:
    raise ValueError(
      "config.replay.samples_per_insert=0.0 is no ratio, so in mode 'sync' "
      "nobody could tell how many updates a round grants: give one"
    )


def check(field: str, value: typing.Any) -> None:
  """Checks one field's range, as `validate` does.

  Args:
    field: its name, such as 'replay.capacity'; one without a range may have any
      value.
    value: of the field's type.

  Raises:
    ValueError: one line with the field, the value and the consequence.
  """
  if field == _TARGET and math.isnan(value):
    raise ValueError(
      f"config.{_TARGET}=nan is no limit: no return would ever reach it; inf "
      "means none"
    )
  for name, test, wanted, consequence in _RANGES:
    if name != field:
      continue
    if isinstance(value, float) and not math.isfinite(value):
      # Infinity times zero in a loss or a clipped gradient is not a number.
      raise ValueError(
        f"config.{field}={value!r} must be finite: nothing could be "
        "computed with it"
      )
    if not test(value):
      raise ValueError(
        f"config.{field}={value!r} must be {wanted}: {consequence}"
      )


def error_buffer(config: ml_collections.ConfigDict) -> float:
  """How far samples may drift from samples_per_insert, in samples.

  The two sides of Reverb's SampleToInsertRatio. A buffer below two inserts'
  worth of samples could block both sides at once. Between the two sides there
  is room for a whole batch, too, wherever the inserts stop: a trainer that
  only gets parts of batches never learns.
  """
  replay, items = config.replay, sizes.Sizes.of(config)
  ratio = replay.samples_per_insert
  return max(
    replay.tolerance * items.min_size * ratio,
    2.0 * max(1.0, ratio),
    # One insert may not fit in below the upper side; 1 is for rounding.
    (items.batch_size + ratio + 1.0) / 2.0,
  )


def _validate_replay(config: ml_collections.ConfigDict) -> None:
  replay, batch_size = config.replay, config.learner.batch_size
  if batch_size % replay.transitions_per_item:
    raise ValueError(
      f"config.learner.batch_size={batch_size} is no multiple of "
      f"config.replay.transitions_per_item={replay.transitions_per_item}, so "
      "no whole items would make a batch: change the one or the other"
    )
  items = sizes.Sizes.of(config)
  if items.capacity < items.batch_size:
    raise ValueError(
      f"config.replay.capacity={replay.capacity}{_each(config)} is below "
      f"config.learner.batch_size={batch_size}: no batch of different "
      "items could ever be drawn; raise the one or lower the other"
    )
  if items.min_size > items.capacity:
    raise ValueError(
      f"config.replay.min_size={replay.min_size} is above "
      f"config.replay.capacity={replay.capacity}: the table could never "
      "hold enough and the trainer would wait for ever; lower min_size"
    )
  ratio = replay.samples_per_insert
  bound = ratio * replay.min_size + error_buffer(config)
  if not bound < _COUNTED_TO:
    raise ValueError(
      f"config.replay.samples_per_insert={ratio!r} with min_size="
      f"{replay.min_size} and tolerance={replay.tolerance!r} bounds the "
      f"limiter at {bound:.3g} samples, which it can't count to, so it would "
      "block for ever; lower them"
    )


def _each(config: ml_collections.ConfigDict) -> str:
  """How a number of the whole replay is shared out, where it is."""
  shards = config.replay.shards
  return f" in {shards} shards" if shards > 1 else ""


def _validate_shards(config: ml_collections.ConfigDict) -> None:
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
      f"config.replay.shards={shards} needs processes of their own, but "
      f"config.topology.replay={topology.replay!r} has the trainer host the "
      "one table: use 'own_process', or 1 shard"
    )


def _validate_returns(config: ml_collections.ConfigDict) -> None:
  network = config.network
  if not network.lowest_return < network.highest_return:
    raise ValueError(
      f"config.network.lowest_return={network.lowest_return!r} is not below "
      f"config.network.highest_return={network.highest_return!r}: the atoms of "
      "a categorical head would lie on one return; change the one or the other"
    )
  if not config.learner.munchausen_scale:
    return
  if network.head != "expected":
    raise ValueError(
      f"config.learner.munchausen_scale={config.learner.munchausen_scale!r} "
      f"takes a policy from values, not from "
      f"config.network.head={network.head!r}: use 'expected', or 0"
    )
  if config.adder.n_step != 1:
    raise ValueError(
      f"config.learner.munchausen_scale={config.learner.munchausen_scale!r} "
      f"rewards the first action only, and config.adder.n_step="
      f"{config.adder.n_step} has more: use 1, or a scale of 0"
    )


def _validate_sequences(config: ml_collections.ConfigDict) -> None:
  unroll = config.adder.get("unroll")
  if unroll is None:
    return
  period, each = config.adder.period, config.replay.transitions_per_item
  if period > unroll:
    raise ValueError(
      f"config.adder.period={period} is above config.adder.unroll={unroll}: "
      "the steps between two sequences would never be learned from; lower it"
    )
  if each != 1:
    raise ValueError(
      f"config.replay.transitions_per_item={each} is not for items that are "
      "sequences: use 1"
    )


def _get(config: ml_collections.ConfigDict, field: str) -> typing.Any:
  """The field's value; None where this algorithm has no such field."""
  part, _, name = field.rpartition(".")
  return (config[part] if part else config).get(name)
