"""The command `slipway sweep`, which trains several settings and seeds."""

import contextlib
import functools
import importlib.util
import itertools
import math
import os
import pathlib
import shlex
import signal
import statistics
import sys
import time
import typing
from collections.abc import Callable, Iterator, Sequence

import ml_collections
import psutil
import rich.console
import rich.live
import rich.table
from absl import flags as absl_flags

from slipway.environments import factory, user_code
from slipway.launch import (
  environment_check,
  resumption,
  train_flags,
  training,
)
from slipway.launch.display import standard_streams
from slipway.launch.options import flags as flags_lib
from slipway.launch.orchestration import limits
from slipway.launch.processes import descendants, signals
from slipway.launch.runs import run_folder, user_modules
from slipway.launch.sweeps import (
  processes,
  report,
  search,
  space,
  sweep_folder,
)

if typing.TYPE_CHECKING:
  from slipway.launch.sweeps import slots as slots_lib

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
_LAUNCH_RAY = "--launch=ray"
_POLL_S = 0.2  # seconds between two checks of the processes
_REPORT_PERIOD_S = 2.0  # seconds between two updates of the table
_FILE_WIDTH = 120  # columns of the table where the output is no terminal
_MIN_ROWS = 3  # rows of the table on the smallest terminal
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
      train_flags_given = _join_values(train_flags_given)
      if flags.resume is None:
        plan = _make_plan(flags, train_flags_given)
        # Before the folder, which may replace an older sweep.
        slots = _connect(flags, plan, resources)
        folder = sweep_folder.SweepFolder.create(
          flags.run_dir,
          flags.name or run_folder.make_name("sweep", ""),
          flags.overwrite,
        )
        resources.enter_context(folder.locked())
      else:
        _check_resume_flags(flags, train_flags_given)
        folder = sweep_folder.SweepFolder.open(flags.resume)
        resources.enter_context(folder.locked())
        plan = _extend_plan(flags, folder.read_plan())
        slots = _connect(flags, plan, resources)
      folder.write_plan(plan)
      sweep = _make_sweep(flags, folder, plan, slots)
    except KeyboardInterrupt:
      print("sweep: interrupted; nothing was started", file=sys.stderr)
      return 1
    except (ValueError, OSError, user_code.UserCodeError) as error:
      print(f"sweep: {error}", file=sys.stderr)
      return 2
    try:
      return sweep.train()
    except (ValueError, OSError, user_code.UserCodeError) as error:
      print(f"sweep: {error}", file=sys.stderr)
      return 1


def _make_plan(
  flags: absl_flags.FlagValues, train_flags_given: Sequence[str]
) -> sweep_folder.Plan:
  """Returns the plan of a new sweep, after a check of its settings.

  Args:
    flags: the flags of `slipway sweep`.
    train_flags_given: the flags for `slipway train`.

  Raises:
    ValueError: a setting can't be trained.
  """
  given = {x.lstrip("-").partition("=")[0] for x in train_flags_given}
  if "config.seed" in given:
    raise ValueError(
      "--config.seed would give all runs the same seed: give --seeds=NUMBER "
      "or --first_seed=NUMBER"
    )
  no_target = [] if "config.limits.target_return" in given else [_NO_TARGET]
  if _LAUNCH_RAY in train_flags_given and flags.ray_address:
    train_flags_given = [
      *train_flags_given,
      f"--ray_address={flags.ray_address}",
    ]
  plan = sweep_folder.Plan(
    flags=[*train_flags_given, *no_target],
    working_folder=os.getcwd(),
    vary=list(flags.vary),
    search=flags.search,
    search_seed=flags.search_seed,
    max_settings=flags.settings,
    seeds=_list_seeds(flags.first_seed, flags.seeds),
  )
  searcher = _make_search(plan)
  while (setting := searcher.ask(len(plan.settings))) is not None:
    plan.settings.append(setting)
    if plan.search == "optuna":
      break  # the next ones depend on scores
  # Once runs are active, an environment that hangs must not end this process.
  make_spec = functools.partial(
    environment_check.make_spec,
    command="sweep",
    clean_up=functools.partial(
      descendants.kill_children, psutil.Process().children()
    ),
  )
  for index in range(len(plan.settings)):
    _check_setting(plan, index, make_spec)
  first = [*train_flags_given, *space.to_flags(plan.settings[0])]
  limits_config = train_flags.parse(["sweep", *first], "").config.limits
  plan.target_evaluations = limits_config.target_evaluations
  if math.isfinite(limits_config.target_return):
    plan.target_return = limits_config.target_return
  return plan


def _check_resume_flags(
  flags: absl_flags.FlagValues, train_flags_given: Sequence[str]
) -> None:
  """Raises ValueError if --resume is given with a flag for new sweeps.

  Args:
    flags: the flags of `slipway sweep`.
    train_flags_given: the flags for `slipway train`, of which there must be
      none.
  """
  fixed = (
    *("name", "run_dir", "overwrite", "first_seed"),
    *("vary", "search", "search_seed"),
  )
  given = [f"--{name}" for name in fixed if flags[name].present]
  given += train_flags_given
  if given:
    raise ValueError(
      f"{given[0]} is for a new sweep, and --resume={flags.resume} continues "
      "a sweep as it was planned: leave it out, or begin a new sweep"
    )


def _extend_plan(
  flags: absl_flags.FlagValues, plan: sweep_folder.Plan
) -> sweep_folder.Plan:
  """Adds seeds and settings to the plan of a sweep that is resumed.

  Also enters the folder to which its relative paths refer, if it still exists.

  Args:
    flags: the flags of `slipway sweep`.
    plan: the plan so far, which is changed and returned.
  """
  if flags["seeds"].present:
    count = max(flags.seeds, len(plan.seeds))
    plan.seeds = _list_seeds(plan.seeds[0], count)
  if flags["settings"].present:
    plan.max_settings = max(flags.settings, len(plan.settings))
  if os.path.isdir(plan.working_folder):
    os.chdir(plan.working_folder)
    sys.path.insert(0, plan.working_folder)
  return plan


def _list_seeds(first: int, count: int) -> list[int]:
  """Returns `count` seeds from `first` on."""
  return list(range(first, first + count))


class _Process(typing.Protocol):
  """What trains a run, here or on another machine; see TrainProcess."""

  run: sweep_folder.SweepRun
  log_start: int

  def poll(self) -> int | None: ...
  def stop(self) -> None: ...


class _Sweep:
  """Trains the runs of a sweep, and shows how far they are."""

  def __init__(
    self,
    folder: sweep_folder.SweepFolder,
    plan: sweep_folder.Plan,
    count_slots: Callable[[], int],
    start: Callable[[sweep_folder.SweepRun], _Process],
  ):
    """Starts nothing yet.

    Args:
      folder: the sweep's folder.
      plan: the sweep's plan; settings of the search are added to it.
      count_slots: function that returns how many runs are to be trained at the
        same time, which may change.
      start: function that starts a run.
    """
    self._folder, self._plan = folder, plan
    self._count_slots, self._start = count_slots, start
    self._search = _make_search(plan)
    self._active: list[_Process] = []
    self._errors: list[str] = []  # one line each
    self._told: set[int] = set()
    self._environments: dict[int, str] = {}  # gymnasium's ids, by setting
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
      ValueError: a run's curves.csv can't be read.
      OSError: a file can't be written.
    """
    self._say(f"sweep folder: {self._folder.path}")
    # SIGINT also where the shell has made this process ignore Ctrl-C.
    for number in signals.STOP_SIGNALS:
      if number == signal.SIGINT or signal.getsignal(number) != signal.SIG_IGN:
        signal.signal(number, signal.default_int_handler)
    live = (
      rich.live.Live(console=self._console, auto_refresh=False, transient=True)
      if self._console.is_terminal
      else None
    )
    try:
      with live or contextlib.nullcontext():
        self._train_all(live)
    except KeyboardInterrupt:
      self._say("sweep: stopping the active runs, which save themselves")
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
        self._handle_end(process)
      while len(self._active) < self._count_slots():
        run = next(waiting, None)
        if run is None:
          break
        with contextlib.suppress(ValueError):  # `slipway train` reports it
          run.wait_until_ended()
        if _has_reached_limit(run):
          score = self._score_run(run)._replace(is_done=True)
          self._final[run.folder.path] = score
          continue
        self._active.append(self._start(run))
      if not self._active:
        return
      if live is not None and time.monotonic() - shown_s > _REPORT_PERIOD_S:
        live.update(self._make_display(), refresh=True)
        shown_s = time.monotonic()
      time.sleep(_POLL_S)

  def _list_waiting(self) -> Iterator[sweep_folder.SweepRun]:
    """Yields the runs that have not ended, setting by setting.

    Before a setting that depends on scores, the scores of all settings whose
    runs have ended are reported to the search.
    """
    for index in itertools.count():
      if index == len(self._plan.settings):
        self._tell_scores()
        setting = self._search.ask(index)
        if setting is None:
          return
        self._plan.settings.append(setting)
        self._folder.write_plan(self._plan)
      runs = self._folder.list_runs(index, self._plan.seeds)
      waiting = [run for run in runs if not run.is_done()]
      try:
        if waiting:
          _check_setting(self._plan, index)
      # Of a setting that was chosen later.
      except (ValueError, user_code.UserCodeError) as error:
        self._errors.append(str(error))
        self._say(str(error))
        continue
      yield from waiting

  def _tell_scores(self) -> None:
    """Reports the mean score of each setting that has ended to the search."""
    active = {process.run.setting for process in self._active}
    for index in range(len(self._plan.settings)):
      if index in self._told or index in active:
        continue
      runs = [x for x in self._score(index) if x.is_done]
      scores = [x.score for x in runs if math.isfinite(x.score)]
      self._search.tell(index, statistics.fmean(scores) if scores else None)
      self._told.add(index)

  def _handle_end(self, process: _Process) -> None:
    """Removes an ended process, and prints a line about its run."""
    self._active.remove(process)
    run = process.run
    name = f"run {run.folder.name}"
    score = self._score_run(run).score
    if status := process.poll():
      text = processes.describe_failure(run, status, process.log_start)
      self._errors.append(f"{name} failed: {text}")
    elif math.isfinite(score):
      text = f"mean of the last 10 evaluations {score:,.2f}"
    else:
      text = "no evaluation"
    setting = space.describe(self._plan.settings[run.setting])
    self._say(f"{name} ({setting}, seed {run.seed}): {text}")

  def _say(self, shown: str | rich.table.Table) -> None:
    """Prints lines or a table; above the live table, if that is shown.

    The sweep continues if the reader of the output has closed it.
    """
    is_text = isinstance(shown, str)
    if self._console.is_terminal:
      self._console.print(shown, markup=False, soft_wrap=is_text)
      return
    if not is_text:
      with self._console.capture() as capture:
        self._console.print(shown)
      shown = capture.get().rstrip()
    standard_streams.print_line(shown)

  def _stop_all(self) -> None:
    """Stops the active runs; a second interrupt kills them."""
    for _ in range(2):
      for process in self._active:
        process.stop()
      try:
        self._wait_for_all()
      except KeyboardInterrupt:
        continue
      break
    # Further interrupts change nothing; only the results are left to write.
    for number in signals.STOP_SIGNALS:
      signal.signal(number, signal.SIG_IGN)
    self._wait_for_all()

  def _wait_for_all(self) -> None:
    """Waits until all active runs have ended."""
    while None in [process.poll() for process in self._active]:
      time.sleep(_POLL_S)

  def _end(self) -> int:
    """Prints and writes the results.

    Returns:
      0 if all runs have ended at a limit, else 1.

    Raises:
      ValueError: a run's curves.csv can't be read.
      OSError: a file can't be written.
    """
    plan, folder = self._plan, self._folder
    scores = [self._score(index) for index in range(len(plan.settings))]
    measures = report.score_settings(plan, scores)
    self._say(report.make_table(measures, plan, len(measures)))
    if games := report.score_games(plan, scores):
      self._say(report.make_games_table(games))
    for error in self._errors:
      print(f"sweep: {error}", file=sys.stderr)
    settings = (
      len(plan.settings) if plan.search == "grid" else plan.max_settings
    )
    planned = settings * len(plan.seeds)
    missing = planned - sum(x.is_done for runs in scores for x in runs)
    if missing:
      path = shlex.quote(str(folder.path))
      self._say(f"{missing} of {planned} runs have not ended at a limit")
      self._say(f"resume:  slipway sweep --resume={path}")
    # Last, since a full disk rejects them.
    files = report.write(folder, plan, scores)
    self._say(f"results: {folder.path} ({', '.join(files)})")
    return 1 if missing else 0

  def _make_display(self) -> rich.console.Group:
    """Returns the table of the settings, and a line about the active runs."""
    plan = self._plan
    scores = [self._score(index) for index in range(len(plan.settings))]
    lines = max(1, *(len(setting) for setting in plan.settings))
    free = self._console.height - _OTHER_LINES
    rows = max(_MIN_ROWS, free // lines)
    table = report.make_table(report.score_settings(plan, scores), plan, rows)
    active = ", ".join(
      f"{x.run.folder.name} at {self._score_run(x.run).env_steps:,.0f} steps"
      for x in self._active
    )
    return rich.console.Group(f"active: {active}", table)

  def _score(self, index: int) -> list[report.RunScore]:
    """Returns what the runs of a setting have reached so far."""
    runs = self._folder.list_runs(index, self._plan.seeds)
    return [self._score_run(run) for run in runs]

  def _score_run(self, run: sweep_folder.SweepRun) -> report.RunScore:
    """Returns what a run has reached so far."""
    path, plan = run.folder.path, self._plan
    if path in self._final:
      return self._final[path]
    if run.setting not in self._environments:
      self._environments[run.setting] = _find_environment(plan, run.setting)
    score = report.score_run(
      run,
      self._environments[run.setting],
      plan.target,
      plan.target_evaluations,
    )
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


def _check_setting(
  plan: sweep_folder.Plan,
  index: int,
  make_spec: environment_check.SpecFunction = factory.make_spec,
) -> None:
  """Checks that a setting can be trained.

  Args:
    plan: the plan.
    index: index of the setting.
    make_spec: as for `training.check`.

  Raises:
    ValueError: it can't; the message names the setting.
  """
  setting = plan.settings[index]
  try:
    flags = _parse(plan, index)
    training.check(flags, make_spec)
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


def _connect(
  flags: absl_flags.FlagValues,
  plan: sweep_folder.Plan,
  resources: contextlib.ExitStack,
) -> "slots_lib.Slots | None":
  """Connects to the Ray cluster on whose machines the runs are trained.

  Args:
    flags: the flags of `slipway sweep`.
    plan: the sweep's plan.
    resources: gets the connection.

  Returns:
    The cluster's slots, or None if this machine starts the runs.

  Raises:
    ValueError: Ray is missing, or the cluster can't be used.
  """
  if not flags.ray_address or _LAUNCH_RAY in plan.flags:
    return None
  if importlib.util.find_spec("ray") is None:
    raise ValueError(
      "--ray_address needs Ray, which is not installed: run `make setup-ray`, "
      "and then .venv-ray/bin/slipway sweep"
    )
  from slipway.launch.machines import admission

  insecure = _parse(plan, 0).insecure
  address = admission.authenticate(flags.ray_address, insecure)
  from slipway.launch.machines import cluster  # loads Ray
  from slipway.launch.sweeps import slots as slots_lib

  configs = _list_configs(plan)
  modules = {path for x in configs for path in user_modules.find_files(x)}
  slots = slots_lib.Slots(
    cluster.Cluster(address, sorted(modules)), _count_cores(configs)
  )
  resources.callback(slots.close)
  return slots


def _has_reached_limit(run: sweep_folder.SweepRun) -> bool:
  """Returns whether a run without a summary has no more to train.

  It was killed after its last snapshot. Its evaluations are in curves.csv.
  """
  try:
    return run.can_resume() and resumption.has_reached_limit(run.folder)
  except (ValueError, OSError):
    return False  # `slipway train` reports why it can't be resumed


def _make_sweep(
  flags: absl_flags.FlagValues,
  folder: sweep_folder.SweepFolder,
  plan: sweep_folder.Plan,
  slots: "slots_lib.Slots | None",
) -> _Sweep:
  """Makes the sweep, which trains on this machine or on a cluster.

  Args:
    flags: the flags of `slipway sweep`.
    folder: the sweep's folder.
    plan: the sweep's plan.
    slots: the cluster's slots, or None if this machine starts the runs.
  """
  if slots is not None:
    return _Sweep(
      folder,
      plan,
      lambda: flags.at_once or slots.count(),
      lambda run: slots.start(
        run,
        _parse_setting(plan, _place_uploads(folder, plan, run.setting)).config,
      ),
    )
  # A run on all machines of a cluster leaves no room for another one.
  fit = 1
  if _LAUNCH_RAY not in plan.flags:
    cores = _count_cores(_list_configs(plan))
    fit = max(1, len(os.sched_getaffinity(0)) // cores)
  at_once = flags.at_once or fit
  return _Sweep(
    folder,
    plan,
    lambda: at_once,
    lambda run: processes.TrainProcess(
      run, plan.flags, _place_uploads(folder, plan, run.setting)
    ),
  )


def _place_uploads(
  folder: sweep_folder.SweepFolder, plan: sweep_folder.Plan, index: int
) -> space.Setting:
  """Returns a setting whose runs upload snapshots below the sweep's name.

  The runs of all sweeps have the same names, such as 0-1, so at the same URL
  they would replace one another's snapshots.

  Args:
    folder: the sweep's folder.
    plan: the sweep's plan.
    index: index of the setting.

  Raises:
    ValueError: a flag of the setting is invalid.
  """
  setting, url = plan.settings[index], _parse(plan, index).config.snapshot.url
  if not url:
    return setting
  return {**setting, "snapshot.url": f"{url.rstrip('/')}/{folder.path.name}"}


def _parse(plan: sweep_folder.Plan, index: int) -> absl_flags.FlagValues:
  """Returns the flags of `slipway train` for a setting of the plan.

  Raises:
    ValueError: a flag is invalid.
  """
  return _parse_setting(plan, plan.settings[index])


def _parse_setting(
  plan: sweep_folder.Plan, setting: space.Setting
) -> absl_flags.FlagValues:
  """Returns the flags of `slipway train` for any setting; see `_parse`."""
  arguments = [*plan.flags, *space.to_flags(setting)]
  return train_flags.parse(["slipway train", *arguments], "")


def _list_configs(
  plan: sweep_folder.Plan,
) -> list[ml_collections.ConfigDict]:
  """Returns the configs of all settings whose flags are valid.

  Raises:
    ValueError: the flags of setting 0, which had to be valid, no longer are.
  """
  configs = [_parse(plan, 0).config]
  for index in range(1, len(plan.settings)):
    with contextlib.suppress(ValueError, user_code.UserCodeError):
      configs.append(_parse(plan, index).config)
  return configs


def _find_environment(plan: sweep_folder.Plan, index: int) -> str:
  """Returns gymnasium's id of a setting's environment.

  Returns '' for a setting whose flags are invalid, which is never trained.
  """
  try:
    config = _parse(plan, index).config
    return factory.get_name_and_kwargs(config.environment)[0]
  except (ValueError, user_code.UserCodeError):
    return ""


def _join_values(train_flags_given: Sequence[str]) -> list[str]:
  """Returns flags with their values, as --NAME=VALUE.

  Args:
    train_flags_given: flags, whose values may be arguments of their own.
  """
  joined: list[str] = []
  for argument in train_flags_given:
    is_flag = argument.startswith("-") and not flags_lib.is_number(argument)
    if joined and not is_flag:
      joined[-1] += f"={argument}"
    else:
      joined.append(argument)
  return joined


def _count_cores(configs: Sequence[ml_collections.ConfigDict]) -> int:
  """Returns how many cores a run of any setting keeps busy, at most.

  In mode 'single' it is one; otherwise one per worker and one for the trainer.

  Args:
    configs: configs of the settings.
  """
  return max(
    1 if config.mode == "single" else 1 + max(1, config.topology.workers)
    for config in configs
  )


if __name__ == "__main__":
  sys.exit(main(sys.argv))
