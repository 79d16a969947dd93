"""The command `slipway evaluate`, which plays episodes with a run's policy."""

import math
import statistics
from collections.abc import Sequence

import ml_collections
import numpy as np

from slipway.configs import base
from slipway.environments import (
  atari_scores,
  factory,
  user_code,
  vector,
)
from slipway.launch.api import policy as policy_lib
from slipway.launch.checks import flags as flags_lib
from slipway.launch.checks import run_config
from slipway.launch.commands import off_policy
from slipway.launch.display import lines
from slipway.launch.nodes import evaluation
from slipway.launch.runs import recorded_spaces, run_folder

# Sentence that begins the help.
_USAGE = (
  "Plays episodes by the policy of a run, and prints the returns, or estimates "
  "them from recorded episodes."
)
_MAX_ENVS = 20  # maximum number of environments that are stepped together
WARN_AFTER_S = 5.0  # seconds without an episode's end before a warning


@user_code.exit_as_error()
def main(argv: Sequence[str]) -> None:
  """Plays episodes, and prints statistics of their returns.

  Raises:
    ValueError: a flag is invalid, or there is nothing to play.
    UserCodeError: the environment failed.
  """
  flags = define_flags()
  flags.parse(argv, _USAGE)
  off_policy.check_flags(flags)
  if flags.dataset:
    off_policy.evaluate(flags)
    return
  check_playable(flags.run, flags.trust)
  policy = policy_lib.load(flags.run, flags.which, flags.trust, flags.policy)
  environment = make_environment(flags, policy.config)
  episodes = evaluation.play(
    environment,
    policy.actor,
    flags.episodes,
    max_steps=flags.max_steps,
    warn_after_s=WARN_AFTER_S,
  )
  environment.close()
  assert episodes is not None
  print(describe(episodes, f"version {policy.version}", environment.name))


def make_environment(
  flags: flags_lib.Flags, config: ml_collections.ConfigDict
) -> vector.VectorEnvironment:
  """Makes the environment of a config's evaluations.

  Args:
    flags: flags with the number of episodes, the seed, and the run, if any,
      whose spaces the environment must have.

  Raises:
    ValueError: it can't be made, or has other spaces.
    user_code.UserCodeError: the environment failed.
  """
  environment = factory.make(
    base.get_evaluation_environment(config),
    min(flags.episodes, _MAX_ENVS),
    flags.seed,
    base.list_info_names(config),
    role="evaluator",
  )
  if flags.run:
    folder = run_folder.RunFolder(flags.run)
    recorded_spaces.check(folder, environment.name, environment.spec)
  return environment


def define_flags() -> flags_lib.Flags:
  """Returns the flags of `slipway evaluate`, before parsing."""
  flags = flags_lib.Flags()
  flags.add_run("Folder of the run whose policy is played: runs/<name>.")
  flags.add_integer("episodes", 20, "Number of episodes to play.", 1, 10**9)
  flags.add_policy()
  flags.add_integer(
    "max_steps",
    100_000,
    "Environment steps after which an episode that has not ended counts as it "
    "is.",
    1,
    10**9,
  )
  flags.add_source()
  off_policy.add_flags(flags)
  flags.add_trust()
  return flags


def check_playable(run: str, trust: bool) -> None:
  """Checks that the environment of a run can be stepped."""
  config = run_config.read(run, trust)
  if config.environment.external:
    raise ValueError(
      f"--run={run} has {base.show_missing_environment(config)}, whose "
      "environment defines spaces only, so no episode can be played: use "
      "slipway.load(run, 'latest') in the loop that steps the environment, or "
      "`slipway evaluate` with --dataset=FOLDER of recorded episodes"
    )


def describe(
  episodes: evaluation.Episodes, policy: str, environment: str
) -> str:
  """Returns a line with the mean, error and range of episodes' returns.

  Args:
    policy: name of what has played, such as 'version 7'.
  """
  returns = episodes.returns
  count = len(returns)
  error = ""
  if count > 1:
    error = f" +- {np.std(returns, ddof=1) / count**0.5:.2f} (standard error)"
  normalized = atari_scores.normalize(environment, statistics.fmean(returns))
  human = (
    "" if math.isnan(normalized) else f", human-normalized {normalized:.3f}"
  )
  cut = ""
  if episodes.unfinished:
    cut = (
      f"; {episodes.unfinished} of them had not ended after --max_steps="
      f"{max(episodes.lengths)}, and count as they were"
    )
  return (
    f"{count} episodes of {policy}: mean return "
    f"{statistics.fmean(returns):.2f}{error}{human}, "
    f"min {min(returns):.2f}, max {max(returns):.2f}, mean length "
    f"{statistics.fmean(episodes.lengths):.1f} environment steps"
    f"{lines.describe_info(episodes.mean_info)}{cut}"
  )
