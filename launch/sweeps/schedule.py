"""Schedule: trains the runs of a sweep, several at the same time."""

import contextlib
import math
import shlex
import signal
import statistics
import sys
import time
import typing
from collections.abc import Callable

import rich.console
import rich.live
import rich.table

from slipway.environments import user_code
from slipway.launch.display import standard_streams
from slipway.launch.processes import signals
from slipway.launch.runs import config_file
from slipway.launch.sweeps import report, runs, scoring, space, study

_POLL_S = 0.2  # seconds between two checks of the processes
_REPORT_PERIOD_S = 2.0  # seconds between two updates of the table
_FILE_WIDTH = 120  # columns of the table where the output is no terminal
_MIN_ROWS = 3  # rows of the table on the smallest terminal
_OTHER_LINES = 8  # lines of the table that are no rows


class Schedule:
  """Trains the runs of a sweep, and shows their progress."""

  def __init__(
    self,
    sweep: study.Study,
    count_slots: Callable[[], int],
    start: Callable[[runs.SweepRun], runs.Process],
  ):
    """Starts nothing yet.

    Args:
      sweep: the sweep, to which settings of the search are added.
      count_slots: returns how many runs are to be trained at the same time,
        which may change.
      start: starts a run; raises OSError if a file can't be written.
    """
    self._sweep, self._plan = sweep, sweep.plan
    self._count_slots, self._start = count_slots, start
    self._active: list[runs.Process] = []
    self._waiting: list[runs.SweepRun] = []  # the next ones to start
    self._searched = 0  # settings whose runs were added to those
    self._ended: set[int] = set()  # settings whose runs may all have ended
    self._errors: list[str] = []  # one line each
    self._problem = ""  # why no further run is started for now
    self._stops = 0  # 1 after the first stop signal, 2 after a further Ctrl-C
    self._stops_sent = 0
    # The scores of runs that have ended at a limit.
    self._final: dict[runs.SweepRun, scoring.RunScore] = {}
    # A file has no width, and gets all columns.
    self._console = rich.console.Console(
      highlight=False, width=None if sys.stdout.isatty() else _FILE_WIDTH
    )
    self._live = rich.live.Live(
      console=self._console,
      auto_refresh=False,
      transient=True,
    )

  def train(self) -> int:
    """Trains until all runs have ended, or until a stop signal.

    Returns:
      0 if no run has failed and all have ended at a limit, but for those of
      pruned settings; else 1.

    Raises:
      ValueError: a run's curves.csv can't be read.
      OSError: a file can't be written.
    """
    self._print(f"sweep folder: {self._sweep.path}")
    # SIGINT also where the shell has made this process ignore Ctrl-C.
    for number in signals.STOP_SIGNALS:
      if number == signal.SIGINT or signal.getsignal(number) != signal.SIG_IGN:
        signal.signal(number, self._handle_stop)
    shown_s = -math.inf
    try:
      while self._update():
        if time.monotonic() - shown_s > _REPORT_PERIOD_S:
          shown_s = time.monotonic()
          if self._plan.prune and not self._stops:
            self._prune()
          if self._console.is_terminal:
            self._show()
        time.sleep(_POLL_S)
    finally:  # after an error, too
      self._stops = max(1, self._stops)
      while self._active:
        self._send_stops()
        self._active = [x for x in self._active if x.poll() is None]
        time.sleep(_POLL_S)
      # Further signals change nothing; only the results are left to write.
      for number in signals.STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
      with standard_streams.ignoring_closed():
        self._live.stop()
    return self._end()

  def _update(self) -> bool:
    """Removes ended runs and starts others; returns whether there are any."""
    for process in self._active[:]:
      error = process.poll()
      if error is not None:
        self._active.remove(process)
        self._handle_end(process.run, error)
    if self._stops:
      self._send_stops()
      return bool(self._active)
    try:
      for index in tuple(self._ended):
        self._complete(index)
        self._ended.remove(index)
      self._fill_slots()
    except OSError as error:
      if not self._active:
        self._errors.append(str(error))
        return False
      # A full disk must not stop the active runs, and may have space again.
      self._print_problem(f"no further run is started for now: {error}")
    return bool(self._active or self._waiting)

  def _handle_stop(self, number: int, frame: typing.Any) -> None:
    """Counts a stop signal, of which only a second Ctrl-C kills the runs.

    A terminal that is closed after a Ctrl-C also sends SIGHUP, which must not
    kill runs that save themselves.
    """
    if not self._stops or number == signal.SIGINT:
      self._stops = min(2, self._stops + 1)

  def _send_stops(self) -> None:
    """Lets the active runs save themselves, or kills them after a Ctrl-C."""
    if not self._stops_sent and self._active:
      self._print("sweep: stopping the active runs, which save themselves")
    while self._stops_sent < self._stops:
      self._stops_sent += 1
      for process in self._active:
        process.stop()

  def _fill_slots(self) -> None:
    """Starts runs until all slots are taken, or no run is left."""
    while len(self._active) < self._count_slots():
      self._find_waiting()
      if not self._waiting:
        return
      run = self._waiting[0]
      if run.is_active():  # it saves itself after the kill of the sweep
        self._print_problem(f"run {run.name} is still active, so it waits")
        return
      if run.was_killed_at_limit():
        self._final[run] = self._score_run(run)._replace(is_done=True)
        self._ended.add(run.setting)
      else:
        self._active.append(self._start(run))
      del self._waiting[0]

  def _find_waiting(self) -> None:
    """Makes `_waiting` the next runs that have not ended, if there are any."""
    sweep = self._sweep
    self._waiting = [x for x in self._waiting if not sweep.is_pruned(x.setting)]
    while not self._waiting:
      index = self._searched
      if index == len(sweep.trials) and not self._choose_setting():
        return
      if error := sweep.find_error(index):
        self._errors.append(error)
      elif not sweep.is_pruned(index):
        self._complete(index)
        all_runs = sweep.list_runs(index)
        self._waiting = [run for run in all_runs if not run.is_done()]
      self._searched += 1

  def _choose_setting(self) -> bool:
    """Adds a setting by the scores of earlier ones, unless it has enough."""
    plan, trials = self._plan, self._sweep.trials
    if plan.search != "tpe" or len(trials) >= plan.max_settings:
      return False
    params = space.sample_promising(plan.axes, plan.search_seed, trials)
    try:
      config = plan.make_config(len(trials), params, with_environment=False)
    except (ValueError, user_code.UserCodeError) as error:
      config = str(error)
    self._sweep.add(params, config)
    return True

  def _complete(self, index: int) -> None:
    """Reports a setting's mean score to the search if all runs have ended."""
    scores = self._score(index)
    values = [run.score for run in scores]
    if all(run.is_done for run in scores) and all(map(math.isfinite, values)):
      self._sweep.complete(index, statistics.fmean(values))

  def _prune(self) -> None:
    """Stops the runs of settings that fall behind."""
    for process in self._active:
      run = process.run
      limits = config_file.read(run.config).limits
      # The tenths of a seed are compared with those of the same seed.
      first = 10 * self._plan.seeds.index(run.seed)
      tenths = scoring.score_tenths(run.read_evaluations(), limits)
      with contextlib.suppress(OSError):  # a full disk delays it
        if any(
          self._sweep.prune_if_behind(run.setting, first + tenth, score)
          for tenth, score in tenths.items()
        ):
          self._print(f"setting {run.setting} falls behind, and is stopped")
          for other in self._active:
            if other.run.setting == run.setting:
              other.stop()

  def _handle_end(self, run: runs.SweepRun, error: str) -> None:
    """Prints a line about a run that has ended."""
    self._ended.add(run.setting)
    score = self._score_run(run).score
    is_known = math.isfinite(score)
    text = f"final return {score:,.2f}" if is_known else "no evaluation"
    if self._sweep.is_pruned(run.setting):
      text = "stopped early"
    elif error:
      text = error
      self._errors.append(f"run {run.name} failed: {error}")
    setting = space.describe(self._sweep.settings[run.setting])
    self._print(f"run {run.name} ({setting}, seed {run.seed}): {text}")

  def _print_problem(self, text: str) -> None:
    """Prints why no run is started, unless it is still the last reason."""
    if text != self._problem:
      self._problem = text
      self._print(f"sweep: {text}")

  def _print(self, shown: str | rich.table.Table) -> None:
    """Prints a line or a table, unless the reader has closed the output."""
    options: dict[str, typing.Any] = {
      "markup": False,
      "soft_wrap": isinstance(shown, str),
    }
    with standard_streams.ignoring_closed():
      if self._console.is_terminal:
        self._console.print(shown, **options)
        return
      with self._console.capture() as capture:  # rich exits at a closed pipe
        self._console.print(shown, **options)
      standard_streams.print_line(capture.get().rstrip())

  def _show(self) -> None:
    """Updates the table on a terminal."""
    settings, scores = self._sweep.settings, self._score_all()
    lines = max(1, *map(len, settings))
    rows = max(_MIN_ROWS, (self._console.height - _OTHER_LINES) // lines)
    measures = scoring.score_settings(settings, scores, self._plan.target)
    active = ", ".join(
      f"{x.run.name} at {self._score_run(x.run).env_steps:,.0f} steps"
      for x in self._active
    )
    table = report.make_table(measures, self._plan, rows)
    shown = rich.console.Group(f"active: {active}", table)
    with standard_streams.ignoring_closed():
      self._live.start()
      self._live.update(shown, refresh=True)

  def _end(self) -> int:
    """Prints and writes the results; returns the exit status."""
    sweep, plan = self._sweep, self._plan
    settings, scores = sweep.settings, self._score_all()
    measures = scoring.score_settings(settings, scores, plan.target)
    self._print(report.make_table(measures, plan, len(measures)))
    if games := scoring.score_games(settings, scores):
      self._print(report.make_games_table(games))
    for error in self._errors:
      standard_streams.print_line(f"sweep: {error}", sys.stderr)
    counted = [x for i, x in enumerate(scores) if not sweep.is_pruned(i)]
    planned = sum(map(len, counted))
    if plan.search == "tpe":
      planned += (plan.max_settings - len(settings)) * len(plan.seeds)
    missing = planned - sum(run.is_done for group in counted for run in group)
    if missing:
      path = shlex.quote(str(sweep.path))
      self._print(f"{missing} of {planned} runs have not ended at a limit")
      self._print(f"resume:  slipway sweep --resume={path}")
    # Last, since a full disk rejects them.
    files = report.write(sweep, scores)
    self._print(f"results: {sweep.path} ({', '.join(files)})")
    return 1 if missing or self._errors else 0

  def _score_all(self) -> list[list[scoring.RunScore]]:
    """Returns the scores of each setting's runs so far."""
    return [self._score(index) for index in range(len(self._sweep.trials))]

  def _score(self, index: int) -> list[scoring.RunScore]:
    """Returns the scores of a setting's runs so far."""
    return [self._score_run(run) for run in self._sweep.list_runs(index)]

  def _score_run(self, run: runs.SweepRun) -> scoring.RunScore:
    """Returns the score of a run so far."""
    if run in self._final:
      return self._final[run]
    plan = self._plan
    score = scoring.score_run(run, plan.target, plan.target_evaluations)
    if score.is_done:
      self._final[run] = score
    return score
