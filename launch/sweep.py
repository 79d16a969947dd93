"""The command `slipway sweep`, which trains several settings and seeds."""

import contextlib
import itertools
import math
import os
import pathlib
import shlex
import signal
import statistics
import sys
import time
from collections.abc import Iterator, Sequence

import rich.console
import rich.live
from absl import flags as absl_flags

from slipway.environments import user_code
from slipway.launch import train_flags, training
from slipway.launch.options import flags as flags_lib
from slipway.launch.orchestration import limits
from slipway.launch.runs import run_folder, run_lock
from slipway.launch.sweeps import (
  processes,
  report,
  search,
  space,
  sweep_folder,
)

# Sentences that begin the help.
_USAGE = """\
Trains a config with several seeds and settings, and compares the results.

  slipway sweep --config=ppo:cartpole --seeds=5 --name=rates \\
    --vary=learner.learning_rate=1e-4,3e-4,1e-3
  slipway sweep --config=sac:pendulum --search=random --settings=20 --seeds=2 \\
    --vary=learner.learning_rate=log:1e-4..1e-2 --vary=learner.tau=1e-3..1e-1
  slipway sweep --seeds=10 --vary=config=dqn:cartpole,rainbow:cartpole
  slipway sweep --resume=runs/rates

Each run is an ordinary run in the sweep's folder. Runs do not end at a target
return, unless --config.limits.target_return is given, so that all get the same
number of steps. All flags of `slipway train` that place and set a run can be
given, too: they apply to all runs."""

# Flag without which runs would end as soon as they meet the config's target.
_NO_TARGET = "--config.limits.target_return=inf"
_POLL_S = 0.2  # seconds between two checks of the processes
_REPORT_PERIOD_S = 2.0  # seconds between two updates of the table
_FILE_WIDTH = 120  # columns of the table where the output is no terminal
_MIN_ROWS = 5  # rows of the table on the smallest terminal
_OTHER_LINES = 8  # lines of the table that are no rows


@user_code.exit_as_error()
def main(argv: Sequence[str]) -> int:
  """Trains the runs of a sweep.

  Args:
    argv: the program's name and its arguments.

  Returns:
    Exit status: 0 if all runs have ended at a limit; 1 if some have not; 2 if
    the sweep was rejected before anything was started.
  """
  with contextlib.ExitStack() as resources:
    try:
      flags, train_flags_given = flags_lib.parse_known(
        flags_lib.define_sweep_flags(), argv, _USAGE
      )
      if flags.resume is None:
        folder, plan = _begin(flags, train_flags_given)
      else:
        folder, plan = _reopen(flags, train_flags_given)
      resources.enter_context(run_lock.held(run_folder.RunFolder(folder.path)))
      folder.write_plan(plan)
      sweep = _Sweep(folder, plan, flags.at_once or _default_at_once(plan))
    except (ValueError, OSError, user_code.UserCodeError) as error:
      print(f"sweep: {error}", file=sys.stderr)
      return 2
    try:
      return sweep.train()
    except (ValueError, OSError, user_code.UserCodeError) as error:
      print(f"sweep: {error}", file=sys.stderr)
      return 1


def _begin(
  flags: absl_flags.FlagValues, train_flags_given: Sequence[str]
) -> tuple[sweep_folder.SweepFolder, sweep_folder.Plan]:
  """Checks the settings of a new sweep, and makes its folder.

  Args:
    flags: the flags of `slipway sweep`.
    train_flags_given: the flags for `slipway train`.

  Raises:
    ValueError: a setting can't be trained, or the folder can't be made.
  """
  given = {x.lstrip("-").partition("=")[0] for x in train_flags_given}
  if "config.seed" in given:
    raise ValueError(
      "--config.seed would give all runs the same seed: give --seeds=NUMBER"
    )
  no_target = [] if "config.limits.target_return" in given else [_NO_TARGET]
  plan = sweep_folder.Plan(
    flags=[*_make_path_absolute(train_flags_given), *no_target],
    vary=list(flags.vary),
    search=flags.search,
    search_seed=flags.search_seed,
    max_settings=flags.settings,
    seeds=list(range(1, flags.seeds + 1)),
  )
  searcher = _make_search(plan)
  while (setting := searcher.ask(len(plan.settings))) is not None:
    plan.settings.append(setting)
    if plan.search == "optuna":
      break  # the next ones depend on scores
  first = [*train_flags_given, *space.to_flags(plan.settings[0])]
  limits_config = train_flags.parse(["sweep", *first], "").config.limits
  plan.target_evaluations = limits_config.target_evaluations
  if math.isfinite(limits_config.target_return):
    plan.target_return = limits_config.target_return
  for index in range(len(plan.settings)):
    _check_setting(plan, index)
  name = flags.name or run_folder.make_name("sweep", "")
  folder = sweep_folder.SweepFolder.create(flags.run_dir, name, flags.overwrite)
  return folder, plan


def _reopen(
  flags: absl_flags.FlagValues, train_flags_given: Sequence[str]
) -> tuple[sweep_folder.SweepFolder, sweep_folder.Plan]:
  """Reads the plan of a sweep that is resumed, perhaps with more runs.

  Args:
    flags: the flags of `slipway sweep`.
    train_flags_given: the flags for `slipway train`, of which there must be
      none.

  Raises:
    ValueError: there is no such sweep, or a flag is for new sweeps.
  """
  fixed = ("name", "run_dir", "overwrite", "vary", "search", "search_seed")
  given = [f"--{name}" for name in fixed if flags[name].present]
  given += train_flags_given
  if given:
    raise ValueError(
      f"{given[0]} is for a new sweep, and --resume={flags.resume} goes on "
      "with a sweep as it was planned: leave it out, or begin a new sweep"
    )
  folder = sweep_folder.SweepFolder.open(flags.resume)
  plan = folder.read_plan()
  if flags["seeds"].present:
    plan.seeds = list(range(1, max(flags.seeds, len(plan.seeds)) + 1))
  if flags["settings"].present:
    plan.max_settings = max(flags.settings, len(plan.settings))
  return folder, plan


class _Sweep:
  """Trains the runs of a sweep, and shows how far they are."""

  def __init__(
    self,
    folder: sweep_folder.SweepFolder,
    plan: sweep_folder.Plan,
    at_once: int,
  ):
    """Starts nothing yet.

    Args:
      folder: the sweep's folder.
      plan: the sweep's plan; settings of the search are added to it.
      at_once: number of runs that are trained at the same time.
    """
    self._folder, self._plan, self._at_once = folder, plan, at_once
    self._search = _make_search(plan)
    self._active: list[processes.TrainProcess] = []
    self._errors: dict[str, str] = {}
    self._told: set[int] = set()
    # The scores of runs that have ended at a limit, by folder.
    self._final: dict[pathlib.Path, report.RunScore] = {}
    # A file has no width, and gets all columns.
    self._console = rich.console.Console(
      highlight=False, width=None if sys.stdout.isatty() else _FILE_WIDTH
    )

  def train(self) -> int:
    """Trains until all runs have ended, or until an interrupt.

    Returns:
      0 if all runs have ended at a limit, else 1.

    Raises:
      ValueError: a new setting of the search can't be trained.
      OSError: a file can't be written.
    """
    print(f"sweep folder: {self._folder.path}", flush=True)
    # Also where the shell has made this process ignore Ctrl-C.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
      signal.signal(number, signal.default_int_handler)
    live = (
      rich.live.Live(console=self._console, auto_refresh=False)
      if self._console.is_terminal
      else None
    )
    try:
      with live or contextlib.nullcontext():
        self._train_all(live)
    except KeyboardInterrupt:
      print(
        "sweep: stopping the active runs, which save themselves", flush=True
      )
    finally:
      self._stop_all()
    return self._end()

  def _train_all(self, live: rich.live.Live | None) -> None:
    """Starts run after run, until all have ended.

    Args:
      live: the table on a terminal, or None for a line per run.
    """
    waiting = self._list_waiting()
    shown_s = -math.inf
    while True:
      for process in [x for x in self._active if x.poll() is not None]:
        self._handle_end(process, live is None)
      while len(self._active) < self._at_once:
        run = next(waiting, None)
        if run is None:
          break
        setting = self._plan.settings[run.setting]
        self._active.append(
          processes.TrainProcess(run, self._plan.flags, setting)
        )
      if not self._active:
        return
      if live is not None and time.monotonic() - shown_s > _REPORT_PERIOD_S:
        live.update(self._make_display(), refresh=True)
        shown_s = time.monotonic()
      time.sleep(_POLL_S)

  def _list_waiting(self) -> Iterator[sweep_folder.SweepRun]:
    """Yields the runs that have not ended, setting by setting.

    Before a setting that depends on scores, the scores of all settings whose
    runs have ended are told to the search.
    """
    for index in itertools.count():
      if index == len(self._plan.settings):
        self._tell_scores()
        setting = self._search.ask(index)
        if setting is None:
          return
        self._plan.settings.append(setting)
        _check_setting(self._plan, index)
        self._folder.write_plan(self._plan)
      runs = self._folder.list_runs(index, self._plan.seeds)
      yield from (run for run in runs if not run.is_done())

  def _tell_scores(self) -> None:
    """Tells the search the mean score of each setting that has ended."""
    active = {process.run.setting for process in self._active}
    for index in range(len(self._plan.settings)):
      if index in self._told or index in active:
        continue
      scores = [x.score for x in self._score(index) if math.isfinite(x.score)]
      self._search.tell(index, statistics.fmean(scores) if scores else None)
      self._told.add(index)

  def _handle_end(self, process: processes.TrainProcess, prints: bool) -> None:
    """Removes an ended process, and prints a line about its run.

    Args:
      process: the process, which has ended.
      prints: whether to print the line.
    """
    self._active.remove(process)
    run = process.run
    name = f"run {run.folder.name}"
    score = self._score_run(run)
    if process.poll() == 0:
      text = f"mean of the last 10 evaluations {score.score:,.2f}"
    else:
      text = self._errors[name] = process.read_error()
    if prints:
      setting = space.describe(self._plan.settings[run.setting])
      print(f"{name} ({setting}, seed {run.seed}): {text}", flush=True)

  def _stop_all(self) -> None:
    """Stops the active runs; a second interrupt kills them."""
    for process in self._active:
      process.stop()
    try:
      self._wait_all()
    except KeyboardInterrupt:
      for process in self._active:
        process.stop()
      self._wait_all()

  def _wait_all(self) -> None:
    """Waits until the active runs have ended."""
    for process in self._active:
      process.wait()

  def _end(self) -> int:
    """Writes and prints the results.

    Returns:
      0 if all runs have ended at a limit, else 1.
    """
    plan, folder = self._plan, self._folder
    scores = [self._score(index) for index in range(len(plan.settings))]
    report.write(folder, plan, scores)
    measures = report.score_settings(plan, scores)
    self._console.print(report.make_table(measures, plan, len(measures)))
    for name, error in self._errors.items():
      print(f"{name} failed: {error}", file=sys.stderr)
    print(f"results: {folder.path} (settings.csv, runs.csv, sweep.png)")
    settings = (
      len(plan.settings) if plan.search == "grid" else plan.max_settings
    )
    planned = settings * len(plan.seeds)
    missing = planned - sum(x.is_done for runs in scores for x in runs)
    if not missing:
      return 0
    path = shlex.quote(str(folder.path))
    print(f"{missing} of {planned} runs have not ended at a limit")
    print(f"resume:  slipway sweep --resume={path}")
    return 1

  def _make_display(self) -> rich.console.Group:
    """Returns the table of the settings, and a line about the active runs."""
    plan = self._plan
    scores = [self._score(index) for index in range(len(plan.settings))]
    rows = max(_MIN_ROWS, self._console.height - _OTHER_LINES)
    table = report.make_table(report.score_settings(plan, scores), plan, rows)
    active = ", ".join(
      f"{x.run.folder.name} at {self._score_run(x.run).env_steps:,.0f} steps"
      for x in self._active
    )
    return rich.console.Group(table, f"active: {active}")

  def _score(self, index: int) -> list[report.RunScore]:
    """Returns what the runs of a setting have reached so far."""
    runs = self._folder.list_runs(index, self._plan.seeds)
    return [self._score_run(run) for run in runs]

  def _score_run(self, run: sweep_folder.SweepRun) -> report.RunScore:
    """Returns what a run has reached so far."""
    path, plan = run.folder.path, self._plan
    if path in self._final:
      return self._final[path]
    score = report.score_run(run, plan.target, plan.target_evaluations)
    if score.is_done:
      self._final[path] = score
    return score


def _make_search(plan: sweep_folder.Plan) -> search.Search:
  """Returns the search of a plan, with the settings that it has chosen before.

  Raises:
    ValueError: --vary is invalid, or the search can't use it.
  """
  axes = [space.parse(text) for text in plan.vary]
  space.check(axes)
  return search.make(
    plan.search, axes, plan.max_settings, plan.search_seed, plan.settings
  )


def _check_setting(plan: sweep_folder.Plan, index: int) -> None:
  """Checks that a setting can be trained.

  Raises:
    ValueError: it can't; the message names the setting.
  """
  setting = plan.settings[index]
  try:
    arguments = [*plan.flags, *space.to_flags(setting)]
    flags = train_flags.parse(["slipway train", *arguments], "")
    training.check(flags)
    if not limits.find_configured(flags.config.limits):
      raise ValueError(
        "the config has no limit, so the runs would never end: give "
        "--config.limits.environment_steps=NUMBER"
      )
  except ValueError as error:
    if not setting:
      raise
    raise ValueError(
      f"setting {index} ({space.describe(setting)}): {error}"
    ) from error


def _make_path_absolute(train_flags_given: Sequence[str]) -> list[str]:
  """Returns the flags with an absolute path of a config file.

  So the sweep can be resumed from any folder.
  """
  made = []
  for flag in train_flags_given:
    name, _, value = flag.partition("=")
    path, *preset = value.split(":", 1)
    if name.lstrip("-") == "config" and pathlib.Path(path).is_file():
      flag = "=".join((name, ":".join((os.path.abspath(path), *preset))))
    made.append(flag)
  return made


def _default_at_once(plan: sweep_folder.Plan) -> int:
  """Returns how many runs this machine's cores can train at the same time.

  A run in mode 'single' has one busy process; any other run has at least two,
  the trainer and a worker.
  """
  arguments = [*plan.flags, *space.to_flags(plan.settings[0])]
  config = train_flags.parse(["slipway train", *arguments], "").config
  busy = 1 if config.mode == "single" else 2
  return max(1, len(os.sched_getaffinity(0)) // busy)


if __name__ == "__main__":
  sys.exit(main(sys.argv))
