"""Names: suggestions for flags and config fields that do not exist."""

import difflib
from collections.abc import Collection

# Other libraries' names of fields and flags, and their equivalents in Slipway.
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
  "runs": ("run_dir", "run"),
  "log_dir": ("run_dir",),
  "output_dir": ("run_dir",),
  "save_dir": ("run_dir",),
  "checkpoint": ("resume", "which"),
  "restore": ("resume", "run"),
  "load": ("resume", "run"),
  "render": ("video",),
}
# The lowest similarity of two names for a suggestion: of words, of fields in
# the same section, and of fields in different sections.
_WORD_LIKENESS, _INSIDE_LIKENESS, _OUTSIDE_LIKENESS = 0.7, 0.6, 0.8


def find_alias(name: str, known: Collection[str]) -> str | None:
  """Returns the flag or field that other libraries call `name`.

  Args:
    name: name of a flag, or of a field with or without its section.
    known: names of all flags or fields that exist.
  """
  last = name.lower().replace("-", "_").rpartition(".")[2]
  return next((x for x in _ALIASES.get(last, ()) if x in known), None)


def find_word(word: str, known: Collection[str]) -> str | None:
  """Returns the known word most similar to `word`; None: none is similar."""
  near = difflib.get_close_matches(word, known, n=1, cutoff=_WORD_LIKENESS)
  return near[0] if near else None


def find_field(name: str, known: Collection[str]) -> str | None:
  """Returns the known field most similar to `name`; None: none is similar.

  Candidates have the same last component, an alias, or a similar last
  component; sections count less, since many names share them.

  Args:
    name: dotted name of the unknown field.
    known: dotted names of all fields that exist.
  """

  def likeness(a: str, b: str) -> float:
    return difflib.SequenceMatcher(None, a, b).ratio()

  section, _, last = name.rpartition(".")
  close = []
  for candidate in known:
    its_section, _, its_last = candidate.rpartition(".")
    inside = its_section == section
    like = likeness(its_last, last)
    if like >= (_INSIDE_LIKENESS if inside else _OUTSIDE_LIKENESS):
      close.append((inside, like, likeness(candidate, name), candidate))
  best = max(close) if close else None
  if best is None or best[1] < 1.0:
    alias = find_alias(name, known)
    if alias is not None:
      return alias
  return best[-1] if best else None


def advise(word: str, known: Collection[str]) -> str:
  """Returns advice for a user who gave an unknown word.

  Args:
    word: the unknown word; words may have dots.
    known: all words that exist.
  """
  near = find_field(word, known) or find_word(word, known)
  return f"did you mean {near}?" if near else f"use one of {', '.join(known)}"
