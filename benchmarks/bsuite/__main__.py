"""Behaviour Suite: `python -m benchmarks.bsuite --algorithms=... --settings=3`.

Trains algorithms on the experiments of bsuite (Osband et al. 2020,
https://arxiv.org/abs/1908.03568), scores them by its own analyses, and draws
its radar picture.
"""

import argparse
import os
import pathlib
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent import futures

from benchmarks import command_line, machine, report, whole_run
from benchmarks.peers import installation

_LOCK = pathlib.Path(__file__).parent / "requirements.txt"
_PACKAGES = machine.ROOT / ".cache" / "bsuite"
_LIMIT_S = 3_600.0  # seconds after which a run is aborted

# Flags of all runs: one environment in one process, whose episodes are counted
# and recorded in order, and no evaluations, since scores are of the training.
_SHARED = (
  "--mode=single",
  "--config.environment.name=benchmarks.bsuite.environment:RecordedEnvironment",
  "--config.topology.environments_per_worker=1",
  "--config.limits.target_return=inf",
  "--config.evaluation.period_steps=0",
  "--config.snapshot.period_s=100_000",
)
# The values of the suite's own agents (bsuite/baselines), for all experiments.
_Q_LEARNING = (
  "--config.adder.n_step=1",
  "--config.adder.discount=0.99",
  "--config.network.hidden_sizes=(50, 50)",
  "--config.replay.capacity=10_000",
  "--config.replay.min_size=100",
  "--config.replay.samples_per_insert=8",  # theirs: 32, an update per step
  "--config.learner.batch_size=32",
  "--config.learner.learning_rate=1e-3",
  "--config.learner.decay_steps=0",
  "--config.learner.huber_delta=1e6",  # a quadratic loss
  "--config.learner.averaging=0",
  "--config.learner.target_update_period=4",
  "--config.exploration.epsilon_start=0.05",
)
_POLICY_GRADIENT = (
  "--config.environment.reward_scale=1",
  "--config.network.hidden_sizes=(64, 64)",
  "--config.learner.batch_size=1",
  "--config.learner.learning_rate=3e-3",
  "--config.learner.decay_steps=0",
  "--config.learner.gae_lambda=0.9",
  "--config.adder.unroll=32",
)
# The algorithms by name: the value of --config, and their own flags.
ALGORITHMS: Mapping[str, tuple[str, Sequence[str]]] = {
  "dqn": ("dqn:cartpole", _Q_LEARNING),
  "a2c": ("a2c:cartpole", _POLICY_GRADIENT),
  "a2c_recurrent": (
    "a2c:cartpole",
    (
      *_POLICY_GRADIENT,
      "--config.network.core_size=64",
      "--config.network.shared",
    ),
  ),
}

_METHOD = """\
Each algorithm is trained on {settings} evenly spaced settings of each
experiment of [bsuite](https://github.com/google-deepmind/bsuite), which has up
to 23, for its number of training episodes. Each run has one environment, in
mode `single`, and the same hyperparameters in all experiments: those of
bsuite's own agents, except that DQN makes an update per four steps and not per
step. Scores are by bsuite's analyses, from 0 for a random agent to 1. The
three experiments with MNIST are missing, since they download it.

![Mean score by tag](bsuite.png)"""


def main(arguments: Sequence[str] | None = None) -> int:
  """Runs what is missing, and writes the page, the rows and the picture.

  Args:
    arguments: arguments of the command line; None: those of this process.

  Returns:
    Exit status 0, whatever the scores are.
  """
  parser = argparse.ArgumentParser(
    prog="benchmarks.bsuite", description=__doc__
  )
  parser.add_argument(
    "--algorithms",
    type=lambda text: command_line.names(text, tuple(ALGORITHMS), "algorithm"),
    default=tuple(ALGORITHMS),
    help=f"separated by commas; default: all, {','.join(ALGORITHMS)}",
  )
  command_line.add_count(
    parser, "--settings", 3, "number of settings of each experiment"
  )
  parser.add_argument(
    "--at_once",
    type=command_line.positive,
    default=os.cpu_count() or 1,
    help="number of runs at the same time; default: number of cores",
  )
  command_line.add_out(parser)
  args = parser.parse_args(arguments)
  head = machine.describe()
  found = measure(args.algorithms, args.settings, args.at_once, args.out)
  found.write(args.out, head)
  print(found.markdown(head), flush=True)
  return 0


def measure(
  algorithms: Sequence[str],
  settings: int,
  at_once: int,
  out: pathlib.Path,
  experiments: Sequence[str] | None = None,
  episodes: int | None = None,
) -> report.Report:
  """Runs algorithms on the suite, and scores them.

  What each run has recorded is kept in `out`/bsuite/ALGORITHM.csv when the run
  ends, and settings in that file are not run again on the same commit.

  Args:
    algorithms: names from `ALGORITHMS`.
    settings: number of settings of each experiment.
    at_once: number of runs at the same time.
    out: folder of the results.
    experiments: names of experiments; None: all that download nothing.
    episodes: training episodes of each run; None: those that the suite
      prescribes.
  """
  installation.install_packages(_LOCK, _PACKAGES)
  _add_to_python_path(_PACKAGES)
  from benchmarks.bsuite import scores as scores_lib

  ids = scores_lib.choose_ids(experiments or scores_lib.EXPERIMENTS, settings)
  raw, medians, tag_scores = [], [], {}
  for algorithm in algorithms:
    recorded = scores_lib.Recorded(out / "bsuite" / f"{algorithm}.csv")
    done = recorded.ids
    with futures.ThreadPoolExecutor(at_once) as pool:
      runs = [
        pool.submit(
          _run, algorithm, each, episodes or scores_lib.count_episodes(each)
        )
        for each in ids
        if each not in done
      ]
      for run in futures.as_completed(runs):
        recorded.add(run.result())
    scored = recorded.score(ids)
    raw += [
      {"algorithm": algorithm, **each._asdict(), "tags": " ".join(each.tags)}
      for each in scored
    ]
    tag_scores[algorithm] = scores_lib.by_tag(scored)
    medians.append({"algorithm": algorithm, **tag_scores[algorithm]})
  scores_lib.draw(tag_scores, out / "bsuite.png")
  return report.Report(
    name="bsuite",
    title="Behaviour Suite",
    method=_METHOD.format(settings=settings),
    raw=raw,
    medians=medians,
    goals=(),
  )


def _add_to_python_path(folder: pathlib.Path) -> None:
  """Makes the packages in a folder importable, here and in started runs."""
  sys.path.append(str(folder))
  old = os.environ.get("PYTHONPATH")
  os.environ["PYTHONPATH"] = f"{folder}:{old}" if old else str(folder)


def _run(algorithm: str, bsuite_id: str, episodes: int) -> list[dict[str, str]]:
  """Trains an algorithm on a setting.

  Args:
    algorithm: a name from `ALGORITHMS`.
    bsuite_id: experiment and setting, such as 'catch/0'.
    episodes: training episodes of the run.

  Returns:
    What the environment has recorded; see `scores.read_run`.
  """
  from benchmarks.bsuite import scores

  print(f"bsuite: {algorithm}, {bsuite_id} ...", file=sys.stderr, flush=True)
  config, flags = ALGORITHMS[algorithm]
  with tempfile.TemporaryDirectory() as temporary:
    folder = pathlib.Path(temporary)
    flags = (
      *_SHARED,
      *flags,
      f"--config.environment.kwargs.bsuite_id={bsuite_id}",
      f"--config.environment.kwargs.folder={folder}",
      f"--config.limits.episodes={episodes}",
    )
    whole_run.run(config, flags, _LIMIT_S, folder, "run")
    return scores.read_run(folder, bsuite_id)


if __name__ == "__main__":
  sys.exit(main())
