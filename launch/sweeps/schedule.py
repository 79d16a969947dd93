"""Schedule: trains the runs of a sweep, several at the same time."""

import contextlib
import math
import shlex
import signal
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
    """Starts nothing yet; a TPE search adds settings to the sweep.

    Args:
      count_slots: returns how many runs are to be trained at once, for now.
      start: starts a run; raises OSError if a file can't be written.
    """
    self._sweep, self._plan = sweep, sweep.plan
    self._count_slots, self._start = count_slots, start
    self._active: list[runs.Process] = []
    self._begun: set[runs.SweepRun] = set()  # those that are not started again
    # The scores of runs that have ended at a limit.
    self._final: dict[runs.SweepRun, scoring.RunScore] = {}
    self._errors: list[str] = []  # one line each
    self._problem = ""  # why no further run is started for now
    self._stops = 0  # 1 after the first stop signal, 2 after a further Ctrl-C
    self._stops_sent = 0
    # A file has no width, and gets all columns.
    self._console = rich.console.Console(
      highlight=False, width=None if sys.stdout.isatty() else _FILE_WIDTH
    )
    self._live = rich.live.Live(
      console=self._console, auto_refresh=False, transient=True
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
          if self._plan.flags.prune and not self._stops:
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
      # rich raises IndexError if the terminal was closed while `_live` started.
      with standard_streams.ignoring_closed(), contextlib.suppress(IndexError):
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
      return self._fill_slots() or bool(self._active)
    except OSError as error:
      if not self._active:
        self._errors.append(str(error))
        return False
      # A full disk must not stop the active runs, and may have space again.
      self._print_problem(f"no further run is started for now: {error}")
    return True

  def _handle_stop(self, number: int, frame: typing.Any) -> None:
    """Counts a stop signal, of which only a second Ctrl-C kills the runs."""
    # A terminal that is closed after a Ctrl-C also sends SIGHUP.
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

  def _fill_slots(self) -> bool:
    """Starts runs while there are slots; returns whether runs may be left."""
    self._complete_settings()
    while len(self._active) < self._count_slots():
      new = (x for x in self._sweep.list_trained() if x not in self._begun)
      run = next(new, None)
      if run is None:
        if not self._choose_setting():
          return False
      elif run.is_active():  # it saves itself after the kill of the sweep
        self._print_problem(f"run {run.name} is still active, so it waits")
        return True
      elif run.is_done() or run.was_killed_at_limit():
        self._final[run] = self._score_run(run)._replace(is_done=True)
        self._begun.add(run)
        self._complete_settings()
      else:
        self._active.append(self._start(run))
        self._begun.add(run)
    return True

  def _choose_setting(self) -> bool:
    """Adds a setting by the scores of earlier ones, unless it has enough."""
    plan, trials = self._plan, self._sweep.trials
    flags = plan.flags
    if flags.search != "tpe" or len(trials) >= flags.settings:
      return False
    params = space.sample_promising(plan.axes, flags.search_seed, trials)
    try:
      config = plan.make_config(len(trials), params, with_environment=False)
    except (ValueError, user_code.UserCodeError) as error:
      config = str(error)
    self._sweep.add(params, config)
    return True

  def _complete_settings(self) -> None:
    """Gives the search the scores of settings whose runs have all ended."""
    scores = {run: score.score for run, score in self._final.items()}
    self._sweep.complete_settings(scores)

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
    lines = max(1, *map(len, self._sweep.settings))
    rows = max(_MIN_ROWS, (self._console.height - _OTHER_LINES) // lines)
    active = ", ".join(
      f"{run.name} at "
      # Those of a run on another machine are known at each evaluation.
      f"{run.count_env_steps() or self._score_run(run).env_steps:,.0f} steps"
      for run in (process.run for process in self._active)
    )
    table = report.make_table(self._score_all().settings, self._plan, rows)
    with standard_streams.ignoring_closed():
      self._live.start()
      shown = rich.console.Group(f"active: {active}", table)
      self._live.update(shown, refresh=True)

  def _end(self) -> int:
    """Prints and writes the results; returns the exit status."""
    sweep, plan, scores = self._sweep, self._plan, self._score_all()
    table = report.make_table(scores.settings, plan, len(scores.settings))
    self._print(table)
    if scores.games:
      self._print(report.make_games_table(scores.games))
    errors = [*sweep.list_errors(), *self._errors]
    for error in errors:
      standard_streams.print_line(f"sweep: {error}", sys.stderr)
    counted = [x for i, x in enumerate(scores.runs) if not sweep.is_pruned(i)]
    planned = sum(map(len, counted))
    if plan.flags.search == "tpe":
      planned += (plan.flags.settings - len(scores.runs)) * len(plan.seeds)
    missing = planned - sum(run.is_done for group in counted for run in group)
    if missing:
      path = shlex.quote(str(sweep.path))
      self._print(f"{missing} of {planned} runs have not ended at a limit")
      self._print(f"resume:  slipway sweep --resume={path}")
    # Last, since a full disk rejects them.
    files = report.write(sweep, scores)
    self._print(f"results: {sweep.path} ({', '.join(files)})")
    return 1 if missing or errors else 0

  def _score_all(self) -> scoring.Scores:
    """Returns what the runs, settings and games have reached so far."""
    settings = self._sweep.settings
    runs = [
      [self._score_run(run) for run in self._sweep.list_runs(index)]
      for index in range(len(settings))
    ]
    return scoring.score_all(settings, runs, self._plan.target)

  def _score_run(self, run: runs.SweepRun) -> scoring.RunScore:
    """Returns the score of a run so far."""
    plan, score = self._plan, self._final.get(run)
    if score is None:
      score = scoring.score_run(run, plan.target, plan.target_evaluations)
    if score.is_done:
      self._final[run] = score
    return score
