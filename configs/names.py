"""Names: suggests known names for flags and config fields that don't exist."""

import difflib
import re
from collections.abc import Collection, Iterable

# Other libraries' names of config fields and flags, by Slipway's names. Of
# several that have an alias, the first one that exists is suggested.
_ALIASES = {
  # The learner.
  "learner.learning_rate": "lr step_size",
  "learner.minibatch_size": "minibatch",
  "learner.batch_size": "batch minibatch",
  "learner.max_gradient_norm": "grad_clip max_grad_norm",
  "adder.discount": "gamma discount_factor",
  "adder.n_step": "nstep n_steps",
  "adder.unroll": "nstep n_steps",
  "learner.target_update_period": "target_update tau",
  "learner.tau": "target_update",
  "network.hidden_sizes": "hidden layers net_arch",
  "network.core_size": "lstm lstm_size lstm_hidden_size rnn rnn_size",
  "exploration.epsilon_end": "eps epsilon",
  # The replay.
  "replay.capacity": "buffer buffer_size memory_size replay_size",
  "replay.min_size": "learning_starts warmup",
  "replay.samples_per_insert": "replay_ratio utd",
  # The environment and the processes.
  "environment.name": "env env_id env_name gym_id",
  "topology.environments_per_worker": "envs num_envs n_envs",
  "topology.workers": "actors num_actors num_workers",
  # The end of the run.
  "limits.environment_steps": "steps max_steps num_steps env_steps timesteps "
  "total_timesteps",
  "limits.trainer_steps": "updates train_steps",
  "limits.episodes": "num_episodes max_episodes",
  "limits.wall_clock_s": "time timeout time_limit",
  "limits.target_return": "target score",
  "limits.target_info": "success success_rate target_success",
  "limits.evaluations_without_improvement": "patience early_stopping",
  # Evaluation, snapshots, results.
  "evaluation.episodes": "eval_episodes",
  "evaluation.period_s": "eval_freq eval_interval",
  "snapshot.period_s": "save_freq checkpoint_freq",
  "hooks": "callbacks logger track wandb mlflow",
  # Flags.
  "config": "algo algorithm preset",
  "algorithm": "algo",
  "name": "exp_name experiment",
  "run_dir": "logdir runs log_dir output_dir save_dir",
  "resume": "run checkpoint restore load",
  "run": "runs restore load",
  "which": "checkpoint",
  "video": "render",
}


def find_alias(name: str, known: Collection[str]) -> str | None:
  """Returns Slipway's flag or field for another library's name, or None.

  Args:
    name: another library's name of a flag, or of a config field with or without
      its section, such as 'buffer_size'.
  """
  last = name.lower().replace("-", "_").rpartition(".")[2]
  matches = (own for own, words in _ALIASES.items() if last in words.split())
  return next((own for own in matches if own in known), None)


def find_word(
  word: str, known: Iterable[str], cutoff: float = 0.7
) -> str | None:
  """Returns the known word most similar to `word`, or None if none is similar.

  Case does not matter.
  """
  by_lower_case = {x.lower(): x for x in known}
  near = difflib.get_close_matches(word.lower(), by_lower_case, 1, cutoff)
  return by_lower_case[near[0]] if near else None


def find_field(name: str, known: Collection[str]) -> str | None:
  """Returns the known field most similar to an unknown one, or None.

  The first of these that exists is returned: a field with the same words and
  other separators; a field with the same last component; the field with that
  name in another library; a field with a similar last component.
  """
  name = name.replace("-", "_")
  section, _, last = name.rpartition(".")
  candidates = []
  for field in known:
    if field.replace(".", "_") == name.replace(".", "_"):
      return field  # 'environment_name' stands for 'environment.name'
    its_section, _, its_last = field.rpartition(".")
    in_section = its_section == section
    similarity = _similarity(its_last, last)
    if similarity >= (0.6 if in_section else 0.8):
      # Without a section, the learner's batch_size is meant, not a bonus's.
      whole = _similarity(field, name) if section else its_section == "learner"
      candidates.append((in_section, similarity, whole, field))
  best = max(candidates, default=None)
  alias = None if best and best[1] == 1.0 else find_alias(name, known)
  return alias or (best and best[-1])


def find_preset(name: str, presets: Collection[str]) -> str | None:
  """Returns the preset with the most similar name, or None.

  Args:
    name: name of a preset that does not exist, or of its environment, such as
      'CartPole-v1' or 'breakout'.
  """
  task = re.sub(r"[-_]?v\d+$", "", name.strip().lower())
  for preset in presets:  # 'breakout' stands for 'minatar_breakout'
    if len(task) > 2 and task in (preset, *preset.split("_")):
      return preset
  return find_word(task, presets)


def advise(word: str, known: Collection[str]) -> str:
  """Returns the advice that ends an error message about an unknown word.

  It names the most similar known word, or all known words.
  """
  near = find_field(word, known) or find_word(word, known)
  return f"did you mean {near}?" if near else f"use one of {', '.join(known)}"


def _similarity(a: str, b: str) -> float:
  """Returns the similarity of two texts, from 0 to 1; equal texts have 1."""
  return difflib.SequenceMatcher(None, a, b).ratio()
