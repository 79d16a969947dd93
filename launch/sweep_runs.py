"""Sweep runs: trains the runs of a sweep, several at the same time."""

import contextlib
import itertools
import math
import pathlib
import shlex
import signal
import statistics
import sys
import time
import typing
from collections.abc import Callable, Iterator

import rich.console
import rich.live
import rich.table

from slipway.environments import user_code
from slipway.launch import resumption, sweep_plan
from slipway.launch.display import standard_streams
from slipway.launch.processes import signals
from slipway.launch.sweeps import (
  processes,
  report,
  scoring,
  space,
  sweep_folder,
)

_POLL_S = 0.2  # seconds between two checks of the processes
_REPORT_PERIOD_S = 2.0  # seconds between two updates of the table
_FILE_WIDTH = 120  # columns of the table where the output is no terminal
_MIN_ROWS = 3  # rows of the table on the smallest terminal
_OTHER_LINES = 8  # lines of the table that are no rows


class Process(typing.Protocol):
  """Protocol of a process that trains a run, here or on another machine."""

  run: sweep_folder.SweepRun
  log_start: int

  def poll(self) -> int | None: ...
  def stop(self) -> None: ...


class Sweep:
  """Trains the runs of a sweep, and shows their progress."""

  def __init__(
    self,
    folder: sweep_folder.SweepFolder,
    plan: sweep_folder.Plan,
    count_slots: Callable[[], int],
    start: Callable[[sweep_folder.SweepRun], Process],
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
    self._search = sweep_plan.make_search(plan)
    self._active: list[Process] = []
    self._next: sweep_folder.SweepRun | None = None  # to start, if any is known
    self._settings_written = len(plan.settings)  # in the folder's plan
    self._errors: list[str] = []  # one line each
    self._reported: set[int] = set()  # settings, to the search
    self._environments: dict[int, str] = {}  # gymnasium's ids, by setting
    self._stopping = False  # since the first stop signal, or the end
    self._starting = False  # a run, which the first stop signal must not lose
    self._killing = False  # since a Ctrl-C after the first stop signal
    # The scores of runs that have ended at a limit, by folder.
    self._final: dict[pathlib.Path, scoring.RunScore] = {}
    # A file has no width, and gets all columns.
    self._console = rich.console.Console(
      highlight=False, width=None if sys.stdout.isatty() else _FILE_WIDTH
    )

  def train(self) -> int:
    """Trains until all runs have ended, or until an interrupt.

    Returns:
      0 if all runs have ended at a limit and none has failed, else 1.

    Raises:
      ValueError: a run's curves.csv can't be read.
      OSError: a file can't be written.
    """
    self._print(f"sweep folder: {self._folder.path}")
    # SIGINT also where the shell has made this process ignore Ctrl-C.
    for number in signals.STOP_SIGNALS:
      if number == signal.SIGINT or signal.getsignal(number) != signal.SIG_IGN:
        signal.signal(number, self._handle_stop)
    live = (
      rich.live.Live(console=self._console, auto_refresh=False, transient=True)
      if self._console.is_terminal
      else None
    )
    try:
      with _showing(live):
        self._train_all(live)
      self._stopping = True  # a late signal must not skip the results
    except KeyboardInterrupt:
      self._print("sweep: stopping the active runs, which save themselves")
    finally:
      self._stop_all()
    return self._end()

  def _train_all(self, live: rich.live.Live | None) -> None:
    """Starts run after run, until all have ended.

    Args:
      live: the table on a terminal, or None for a line per run.
    """
    waiting = self._list_waiting()
    shown_s, problem = -math.inf, ""
    while True:
      for process in [x for x in self._active if x.poll() is not None]:
        self._handle_end(process)
      try:
        self._fill_slots(waiting)
      except OSError as error:
        if not self._active:
          raise
        # A full disk must not stop the active runs, and may have space again.
        if problem != str(error):
          problem = str(error)
          self._print(f"sweep: no further run is started for now: {problem}")
      if not self._active:
        return
      if live is not None and time.monotonic() - shown_s > _REPORT_PERIOD_S:
        with standard_streams.ignoring_closed():
          live.update(self._make_display(), refresh=True)
        shown_s = time.monotonic()
      time.sleep(_POLL_S)

  def _fill_slots(self, waiting: Iterator[sweep_folder.SweepRun]) -> None:
    """Starts runs until all slots are taken, or no run is left.

    Args:
      waiting: the runs to start, except `_next`.

    Raises:
      OSError: the plan or a file of a run can't be written. A further call
        tries it again.
    """
    while len(self._active) < self._count_slots():
      if self._next is None:
        self._next = next(waiting, None)
      if self._settings_written < len(self._plan.settings):
        self._folder.write_plan(self._plan)
        self._settings_written = len(self._plan.settings)
      run = self._next
      if run is None:
        return
      with contextlib.suppress(ValueError):  # `slipway train` reports it
        run.wait_until_ended()
      if _has_reached_limit(run):
        score = self._score_run(run)._replace(is_done=True)
        self._final[run.folder.path] = score
      else:
        with self._deferring_stops():
          self._active.append(self._start(run))
      self._next = None

  def _list_waiting(self) -> Iterator[sweep_folder.SweepRun]:
    """Yields the runs that have not ended, setting by setting.

    Before a setting that depends on scores, the scores of all settings whose
    runs have ended are reported to the search.
    """
    for index in itertools.count():
      if index == len(self._plan.settings):
        self._report_scores()
        setting = self._search.ask(index)
        if setting is None:
          return
        self._plan.settings.append(setting)
      runs = self._folder.list_runs(index, self._plan.seeds)
      waiting = [run for run in runs if not run.is_done()]
      try:
        if waiting:
          sweep_plan.check_setting(self._plan, index)
      # Of a setting that was chosen later.
      except (ValueError, user_code.UserCodeError) as error:
        self._errors.append(str(error))
        self._print(str(error))
        continue
      yield from waiting

  def _report_scores(self) -> None:
    """Reports the mean score of each setting that has ended to the search."""
    active = {process.run.setting for process in self._active}
    for index in range(len(self._plan.settings)):
      if index in self._reported or index in active:
        continue
      runs = [x for x in self._score(index) if x.is_done]
      scores = [x.score for x in runs if math.isfinite(x.score)]
      self._search.tell(index, statistics.fmean(scores) if scores else None)
      self._reported.add(index)

  def _handle_end(self, process: Process) -> None:
    """Removes an ended process, and prints a line about its run."""
    self._active.remove(process)
    run = process.run
    name = f"run {run.folder.name}"
    score = self._score_run(run).score
    if status := process.poll():
      text = processes.describe_failure(run, status, process.log_start)
      self._errors.append(f"{name} failed: {text}")
    elif math.isfinite(score):
      text = f"final return {score:,.2f}"
    else:
      text = "no evaluation"
    setting = space.describe(self._plan.settings[run.setting])
    self._print(f"{name} ({setting}, seed {run.seed}): {text}")

  def _print(self, shown: str | rich.table.Table) -> None:
    """Prints lines or a table; above the live table, if that is shown.

    The sweep continues if the terminal is closed, or if the reader of the
    output has closed it.
    """
    is_text = isinstance(shown, str)
    if self._console.is_terminal:
      with standard_streams.ignoring_closed():
        self._console.print(shown, markup=False, soft_wrap=is_text)
      return
    if not is_text:
      with self._console.capture() as capture:
        self._console.print(shown)
      shown = capture.get().rstrip()
    standard_streams.print_line(shown)

  def _handle_stop(self, number: int, frame: typing.Any) -> None:
    """Handles a stop signal: interrupts the sweep once, then counts Ctrl-C.

    A terminal that is closed after a Ctrl-C also sends SIGHUP, which must not
    kill runs that save themselves.

    Args:
      number: number of the signal.
      frame: interrupted stack frame, which is unused.

    Raises:
      KeyboardInterrupt: this is the first stop signal, and no run is started
        now.
    """
    if not self._stopping:
      self._stopping = True
      if not self._starting:
        raise KeyboardInterrupt
    elif number == signal.SIGINT:
      self._killing = True

  @contextlib.contextmanager
  def _deferring_stops(self) -> Iterator[None]:
    """Delays the first stop signal until the end of a `with` block.

    Raises:
      KeyboardInterrupt: that signal came during the block.
    """
    self._starting = True
    try:
      yield
    finally:
      self._starting = False
      if self._stopping:
        raise KeyboardInterrupt

  def _stop_all(self) -> None:
    """Stops the active runs, and waits until they end; a Ctrl-C kills them."""
    self._stopping = True
    stops = 0  # sent to each run
    while None in [process.poll() for process in self._active]:
      if stops < 1 + self._killing:
        for process in self._active:
          process.stop()
        stops += 1
      time.sleep(_POLL_S)
    # Further signals change nothing; only the results are left to write.
    for number in signals.STOP_SIGNALS:
      signal.signal(number, signal.SIG_IGN)

  def _end(self) -> int:
    """Prints and writes the results.

    Returns:
      0 if all runs have ended at a limit and none has failed, else 1.

    Raises:
      ValueError: a run's curves.csv can't be read.
      OSError: a file can't be written.
    """
    plan, folder = self._plan, self._folder
    scores = self._score_all()
    measures = scoring.score_settings(plan, scores)
    self._print(report.make_table(measures, plan, len(measures)))
    if games := scoring.score_games(plan, scores):
      self._print(report.make_games_table(games))
    for error in self._errors:
      standard_streams.print_line(f"sweep: {error}", sys.stderr)
    settings = (
      len(plan.settings) if plan.search == "grid" else plan.max_settings
    )
    planned = settings * len(plan.seeds)
    missing = planned - sum(x.is_done for runs in scores for x in runs)
    if missing:
      path = shlex.quote(str(folder.path))
      self._print(f"{missing} of {planned} runs have not ended at a limit")
      self._print(f"resume:  slipway sweep --resume={path}")
    # Last, since a full disk rejects them.
    files = report.write(folder, plan, scores)
    self._print(f"results: {folder.path} ({', '.join(files)})")
    return 1 if missing or self._errors else 0

  def _make_display(self) -> rich.console.Group:
    """Returns the table of the settings, and a line about the active runs."""
    plan = self._plan
    scores = self._score_all()
    lines = max(1, *(len(setting) for setting in plan.settings))
    free = self._console.height - _OTHER_LINES
    rows = max(_MIN_ROWS, free // lines)
    table = report.make_table(scoring.score_settings(plan, scores), plan, rows)
    active = ", ".join(
      f"{x.run.folder.name} at {self._score_run(x.run).env_steps:,.0f} steps"
      for x in self._active
    )
    return rich.console.Group(f"active: {active}", table)

  def _score_all(self) -> list[list[scoring.RunScore]]:
    """Returns the scores of each setting's runs so far."""
    return [self._score(index) for index in range(len(self._plan.settings))]

  def _score(self, index: int) -> list[scoring.RunScore]:
    """Returns the scores of a setting's runs so far."""
    runs = self._folder.list_runs(index, self._plan.seeds)
    return [self._score_run(run) for run in runs]

  def _score_run(self, run: sweep_folder.SweepRun) -> scoring.RunScore:
    """Returns the score of a run so far."""
    path, plan = run.folder.path, self._plan
    if path in self._final:
      return self._final[path]
    if run.setting not in self._environments:
      self._environments[run.setting] = sweep_plan.find_environment(
        plan, run.setting
      )
    score = scoring.score_run(
      run,
      self._environments[run.setting],
      plan.target,
      plan.target_evaluations,
    )
    if score.is_done:
      self._final[path] = score
    return score


@contextlib.contextmanager
def _showing(live: rich.live.Live | None) -> Iterator[None]:
  """Shows a table while a `with` block runs, until the terminal is closed.

  Args:
    live: the table, or None to show none.
  """
  if live is None:
    yield
    return
  with standard_streams.ignoring_closed():
    live.start()
  try:
    yield
  finally:
    with standard_streams.ignoring_closed():
      live.stop()


def _has_reached_limit(run: sweep_folder.SweepRun) -> bool:
  """Returns whether a run without a summary has no more to train.

  It was killed after its last snapshot. Its evaluations are in curves.csv.
  """
  try:
    return run.can_resume() and resumption.has_reached_limit(run.folder)
  except (ValueError, OSError):
    return False  # `slipway train` reports why it can't be resumed
