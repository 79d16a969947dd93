"""Names: suggests known names for flags and config fields that don't exist."""

import difflib
import typing
from collections.abc import Collection

# Slipway's equivalents of other libraries' names of config fields and flags. If
# a name has several equivalents, the first that exists is suggested.
_ALIASES: dict[str, tuple[str, ...]] = {
  # The learner.
  "lr": ("learner.learning_rate",),
  "step_size": ("learner.learning_rate",),
  "batch": ("learner.batch_size",),
  "minibatch": ("learner.minibatch_size", "learner.batch_size"),
  "grad_clip": ("learner.max_gradient_norm",),
  "max_grad_norm": ("learner.max_gradient_norm",),
  "gamma": ("adder.discount",),
  "discount_factor": ("adder.discount",),
  "nstep": ("adder.n_step", "adder.unroll"),
  "n_steps": ("adder.n_step", "adder.unroll"),
  "target_update": ("learner.target_update_period", "learner.tau"),
  "tau": ("learner.target_update_period",),
  "hidden": ("network.hidden_sizes",),
  "layers": ("network.hidden_sizes",),
  "net_arch": ("network.hidden_sizes",),
  "eps": ("exploration.epsilon_end",),
  "epsilon": ("exploration.epsilon_end",),
  # The replay.
  "buffer": ("replay.capacity",),
  "buffer_size": ("replay.capacity",),
  "memory_size": ("replay.capacity",),
  "replay_size": ("replay.capacity",),
  "learning_starts": ("replay.min_size",),
  "warmup": ("replay.min_size",),
  "replay_ratio": ("replay.samples_per_insert",),
  "utd": ("replay.samples_per_insert",),
  # The environment and the processes.
  "env": ("environment.name",),
  "env_id": ("environment.name",),
  "env_name": ("environment.name",),
  "gym_id": ("environment.name",),
  "envs": ("topology.environments_per_worker",),
  "num_envs": ("topology.environments_per_worker",),
  "n_envs": ("topology.environments_per_worker",),
  "actors": ("topology.workers",),
  "num_actors": ("topology.workers",),
  "num_workers": ("topology.workers",),
  # The end of the run.
  "steps": ("limits.environment_steps",),
  "max_steps": ("limits.environment_steps",),
  "num_steps": ("limits.environment_steps",),
  "env_steps": ("limits.environment_steps",),
  "timesteps": ("limits.environment_steps",),
  "total_timesteps": ("limits.environment_steps",),
  "updates": ("limits.trainer_steps",),
  "train_steps": ("limits.trainer_steps",),
  "num_episodes": ("limits.episodes",),
  "max_episodes": ("limits.episodes",),
  "time": ("limits.wall_clock_s",),
  "timeout": ("limits.wall_clock_s",),
  "time_limit": ("limits.wall_clock_s",),
  "target": ("limits.target_return",),
  "score": ("limits.target_return",),
  "patience": ("limits.evaluations_without_improvement",),
  "early_stopping": ("limits.evaluations_without_improvement",),
  # Evaluation, snapshots, results.
  "eval_episodes": ("evaluation.episodes",),
  "eval_freq": ("evaluation.period_s",),
  "eval_interval": ("evaluation.period_s",),
  "save_freq": ("snapshot.period_s",),
  "checkpoint_freq": ("snapshot.period_s",),
  "callbacks": ("hooks",),
  "logger": ("hooks",),
  "track": ("hooks",),
  "wandb": ("hooks",),
  "mlflow": ("hooks",),
  # Flags.
  "algo": ("config", "algorithm"),
  "algorithm": ("config",),
  "preset": ("config",),
  "exp_name": ("name",),
  "experiment": ("name",),
  "logdir": ("run_dir",),
  "run": ("resume",),
  "runs": ("run_dir", "run"),
  "log_dir": ("run_dir",),
  "output_dir": ("run_dir",),
  "save_dir": ("run_dir",),
  "checkpoint": ("resume", "which"),
  "restore": ("resume", "run"),
  "load": ("resume", "run"),
  "render": ("video",),
}
# The lowest similarity of two words, in [0, 1], at which one is suggested for
# the other.
_MIN_WORD_SIMILARITY = 0.7
# The same for the last components of two fields' names, such as 'capacity': if
# both fields are in the same section, and if they are in different sections.
_MIN_SIMILARITY_IN_SECTION, _MIN_SIMILARITY_ACROSS_SECTIONS = 0.6, 0.8


class _Candidate(typing.NamedTuple):
  """A known config field whose name resembles that of an unknown field.

  The candidate to suggest is the largest one in the order of tuples.

  Attributes:
    in_section: whether both fields are in the same section.
    similarity: similarity of the names without their sections, in [0, 1].
    whole_similarity: similarity of the whole dotted names, in [0, 1]; where
      the unknown one has no section, 1 for fields of the learner, else 0.
    name: dotted name of the known field.
  """

  in_section: bool
  similarity: float
  whole_similarity: float
  name: str


def find_alias(name: str, known: Collection[str]) -> str | None:
  """Returns Slipway's flag or field for another library's name, or None.

  Args:
    name: another library's name of a flag, or of a config field with or without
      its section, such as 'buffer_size'.
    known: names of all flags or fields that exist in Slipway.
  """
  last = name.lower().replace("-", "_").rpartition(".")[2]
  return next((x for x in _ALIASES.get(last, ()) if x in known), None)


def find_word(word: str, known: Collection[str]) -> str | None:
  """Returns the known word most similar to `word`, or None if none is similar.

  Case does not matter.

  Args:
    word: unknown word, such as a flag.
    known: all words that exist.
  """
  by_lower_case = {x.lower(): x for x in known}
  near = difflib.get_close_matches(
    word.lower(), by_lower_case, n=1, cutoff=_MIN_WORD_SIMILARITY
  )
  return by_lower_case[near[0]] if near else None


def find_field(name: str, known: Collection[str]) -> str | None:
  """Returns the known field most similar to an unknown one, or None.

  The first of these that exists is returned: a field with the same words and
  other separators; a field with the same last component; the field with that
  name in another library; a field with a similar last component.

  Args:
    name: dotted name of the unknown field.
    known: dotted names of all fields that exist.
  """
  name = name.replace("-", "_")
  for field in known:  # 'environment_name' stands for 'environment.name'
    if field.replace(".", "_") == name.replace(".", "_"):
      return field
  section, _, last = name.rpartition(".")
  candidates = []
  for field in known:
    its_section, _, its_last = field.rpartition(".")
    in_section = its_section == section
    similarity = _similarity(its_last, last)
    if similarity >= (
      _MIN_SIMILARITY_IN_SECTION
      if in_section
      else _MIN_SIMILARITY_ACROSS_SECTIONS
    ):
      # Without a section, the learner's batch_size is meant, not a bonus's.
      is_learners = float(its_section == "learner")
      whole_similarity = _similarity(field, name) if section else is_learners
      candidates.append(
        _Candidate(in_section, similarity, whole_similarity, field)
      )
  best = max(candidates, default=None)
  if best is None or best.similarity < 1.0:
    alias = find_alias(name, known)
    if alias is not None:
      return alias
  return best.name if best else None


def advise(word: str, known: Collection[str]) -> str:
  """Returns the advice that ends an error message about an unknown word.

  Args:
    word: the unknown word, such as a flag or a field's dotted name.
    known: all words that exist.

  Returns:
    A clause with the most similar known word, or with all known words.
  """
  near = find_field(word, known) or find_word(word, known)
  return f"did you mean {near}?" if near else f"use one of {', '.join(known)}"


def _similarity(a: str, b: str) -> float:
  """Returns the similarity of two texts, from 0 to 1; equal texts have 1."""
  return difflib.SequenceMatcher(None, a, b).ratio()
