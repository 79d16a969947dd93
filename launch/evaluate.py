"""Plays a run: `slipway evaluate --run=runs/<name> --episodes=100`."""

import statistics
import sys
from collections.abc import Mapping, Sequence

import numpy as np

from slipway.agents import registry
from slipway.agents.networks import network
from slipway.environments import factory, recordings, user_code, video
from slipway.launch import run_config
from slipway.launch.nodes import evaluation
from slipway.launch.options import flags as flags_lib
from slipway.launch.runs import best_variables, run_folder

_USAGE = "Plays the best variables of a run greedily."
_MAX_ENVS = 20  # episodes at once
_MAX_VIDEO_STEPS = 10_000  # environment steps


@user_code.exits_raised()
def main(argv: Sequence[str]) -> int:
  """Evaluates a run.

  Returns:
    Exit status: 0; 1 where the environment failed; 2 where there is nothing
    to play.
  """
  try:
    flags = flags_lib.parse(flags_lib.define_evaluate_flags(), argv, _USAGE)
    folder = run_folder.RunFolder.open(flags.run)
    version, variables = best_variables.load(folder.best)
    config = run_config.read(flags.run)
    spec = factory.make_spec(config.environment)
    builder = registry.make_builder(config.agent)
    _check_fits(builder.make_network(config, spec), variables, folder)
    actor = builder.make_greedy_actor(config, spec)
    actor.load(variables)
    environment = factory.make(
      config.environment, min(flags.episodes, _MAX_ENVS), flags.seed
    )
    if flags.record is not None:
      with recordings.Recorder(
        flags.record, config.environment, environment
      ) as recorder:
        episodes = evaluation.play(
          environment, actor, flags.episodes, observe=recorder.add
        )
    else:
      episodes = evaluation.play(environment, actor, flags.episodes)
    environment.close()
    assert episodes is not None
    print(_describe(episodes, version))
    if flags.record is not None:
      print(f"{flags.episodes} episodes recorded: {flags.record}")
    if flags.video:
      path = folder.videos / f"version-{version}.mp4"
      episode_return = video.record(
        config.environment,
        lambda step: (
          actor.act(step.observation, step.reward, step.first).action
        ),
        path,
        flags.seed,
        _MAX_VIDEO_STEPS,
      )
      print(f"video of an episode with return {episode_return:.2f}: {path}")
  except user_code.UserCodeError as error:
    print(f"evaluate: {error}", file=sys.stderr)
    return 1
  except (ValueError, OSError) as error:
    print(f"evaluate: {error}", file=sys.stderr)
    return 2
  return 0


def _check_fits(
  declaration: network.Declaration,
  variables: Mapping[str, np.ndarray],
  folder: run_folder.RunFolder,
) -> None:
  """Raises ValueError, one line, if the variables are another network's."""
  found = {name: array.shape for name, array in variables.items()}
  for name, shape in network.variable_shapes(declaration).items():
    # A learner of several networks names the acting one before its variables.
    if not any(
      has == shape and (key == name or key.endswith(f"/{name}"))
      for key, has in found.items()
    ):
      raise ValueError(
        f"{str(folder.best)!r} has no variable {name!r} of shape "
        f"{list(shape)}, which the network of {str(folder.config)!r} needs, so "
        "it can't be played: restore the two files of one run"
      )


def _describe(episodes: evaluation.Episodes, version: int) -> str:
  returns = episodes.returns
  count = len(returns)
  error = np.std(returns, ddof=1) / count**0.5 if count > 1 else float("nan")
  return (
    f"{count} episodes of version {version}: mean return "
    f"{statistics.fmean(returns):.2f} +- {error:.2f} (standard error), min "
    f"{min(returns):.2f}, max {max(returns):.2f}, mean length "
    f"{statistics.fmean(episodes.lengths):.1f} environment steps"
  )


if __name__ == "__main__":
  sys.exit(main(sys.argv))
