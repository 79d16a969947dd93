"""Plays a run: `slipway evaluate --run=runs/<name> --episodes=100`."""

import pathlib
import statistics
import sys
from collections.abc import Mapping, Sequence

import ml_collections
import numpy as np
from acme import specs

from slipway.agents import core, registry
from slipway.agents.networks import network
from slipway.environments import factory, recordings, user_code, video
from slipway.launch import run_config
from slipway.launch.nodes import evaluation
from slipway.launch.options import flags as flags_lib
from slipway.launch.runs import (
  best_variables,
  manifest,
  run_counters,
  run_folder,
  snapshot_store,
)

_USAGE = "Plays the variables of a run greedily."
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
    config = run_config.read(flags.run)
    spec = factory.make_spec(config.environment)
    builder = registry.make_builder(config.agent)
    if flags.which == "best":
      version, variables = best_variables.load(folder.best)
    else:
      path = _find_snapshot(folder, config, flags.which)
      version, variables = _load_snapshot(path, config, spec, builder)
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


def _find_snapshot(
  folder: run_folder.RunFolder, config: ml_collections.ConfigDict, which: str
) -> pathlib.Path:
  """Returns the folder of a snapshot.

  Args:
    folder: of the run.
    config: of the run.
    which: 'latest' or a number.

  Raises:
    ValueError: one line: there is no such snapshot, or it is damaged.
  """
  if which == "latest":
    newest = snapshot_store.open_store(config, folder).newest()
    if newest is None:
      raise ValueError(
        f"--which=latest: {str(folder.path)!r} has no whole snapshot, so there "
        "is nothing to play: let the run write one"
      )
    return newest.path
  if not which.isdecimal():
    raise ValueError(
      f"--which={which} is neither best, latest nor a number, so it is not "
      "known what to play: give one of them"
    )
  path = folder.snapshots / which.zfill(6)
  try:
    manifest.check(path)
  except ValueError as error:
    numbers = sorted(int(p.name) for p in folder.snapshots.glob("[0-9]*"))
    known = ", ".join(map(str, numbers)) or "none"
    raise ValueError(
      f"--which={which}: {str(path)!r} is no whole snapshot ({error}), so "
      f"there is nothing to play: the run has {known}"
    ) from error
  return path


def _load_snapshot(
  path: pathlib.Path,
  config: ml_collections.ConfigDict,
  spec: specs.EnvironmentSpec,
  builder: core.Builder,
) -> tuple[int, Mapping[str, np.ndarray]]:
  """Returns the version and the variables of a snapshot's learner."""
  # Imported late: it loads TensorFlow, which the best variables do without.
  from slipway.launch.runs import checkpoints

  learner = builder.make_learner(config, spec)
  checkpoints.restore(path, learner)
  counters = run_counters.RunCounters.read(path)
  return counters.variables_version, learner.get_variables()


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
