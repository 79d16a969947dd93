"""Guard: verdicts on rows, and errors for invalid committed files."""

import math

import pytest

from benchmarks import guard, ratios, report, trainer

_CASE = "MLP 256-256, batch 256"
_RATIO = ratios.trainer(_CASE)


def _rows(values, case=_CASE):
  """Returns rows of the benchmark `trainer` with one ratio per repetition."""
  return [
    {
      "case": case,
      "repetition": repetition,
      "kind": kind,
      "updates_per_s": speed,
    }
    for repetition, value in enumerate(values)
    for kind, speed in (("fixed", 200.0), ("replay", 200.0 * value))
  ]


def _commit(folder, values, case=_CASE):
  """Writes the result files that the guard takes as the committed ones."""
  report.Report("trainer", "", "", _rows(values, case), [], []).write(
    folder, {"commit": "none"}
  )


@pytest.mark.parametrize(
  ("now", "verdict_text"),
  [
    # The committed ratios span 0.10, and their median is 0.80.
    ([0.60, 0.61, 0.62], "fell by more than its noise"),
    ([0.68, 0.69, 0.70], "within"),
    ([0.50, 0.60, 0.90], "within"),  # the new ratios vary too much
    ([0.80, 0.81, 0.82], "within"),
    ([0.98, 0.99, 1.00], "rose by more than its noise"),
  ],
)
def test_a_ratio_falls_by_more_than_both_spreads(now, verdict_text, tmp_path):
  _commit(tmp_path, [0.75, 0.80, 0.85])
  verdict = guard.compare(
    _RATIO.name, _RATIO.committed(tmp_path), _RATIO.values(_rows(now))
  )
  assert verdict.committed == pytest.approx(0.80)
  assert verdict.now == pytest.approx(now[1])
  assert verdict.noise == pytest.approx(0.10 + now[2] - now[0])
  assert verdict.line.endswith(f": {verdict_text}")
  assert verdict.fell == (verdict_text == "fell by more than its noise")


def test_a_lower_ratio_is_not_judged_if_other_processes_were_busy():
  verdict = guard.compare("a", [0.8, 0.81], [0.4, 0.41], others=0.5)
  assert not verdict.fell
  assert "not judged: lower, but others took 50%" in verdict.line
  assert guard.compare("a", [0.8, 0.81], [0.4, 0.41], others=0.05).fell


def test_ratios_are_within_repetitions():
  rows = _rows([0.5, 0.25])
  rows += _rows([0.9, 0.9], case="another")
  rows[2]["updates_per_s"] *= 2  # both sides of a repetition were faster
  rows[3]["updates_per_s"] *= 2
  assert _RATIO.values(rows) == pytest.approx([0.5, 0.25])


@pytest.mark.parametrize(
  ("text", "message"),
  [
    (None, "can't be read: .*No such file"),
    ("# commit: none\nrepetition,kind\n", "it has no rows"),
    ("repetition,kind\n0,fixed\n1,fixed\n", "0 repetitions where"),
    (
      "repetition,case,kind,updates_per_s\n"
      + "".join(
        f'{r},"{_CASE}",{kind},{speed}\n'
        for r in (0, 1)
        for kind, speed in (("replay", "fast"), ("fixed", 3))
      ),
      "column 'updates_per_s' does not have exactly one number .*'replay'",
    ),
  ],
)
def test_an_invalid_committed_file_is_reported_in_one_line(
  text, message, tmp_path
):
  if text is not None:
    (tmp_path / "trainer.csv").write_text(text)
  with pytest.raises(ValueError, match=message) as error:
    _RATIO.committed(tmp_path)
  line = str(error.value)
  assert "\n" not in line
  assert str(tmp_path / "trainer.csv") in line
  assert "make bench ARGS=--only=trainer" in line


def test_nothing_is_measured_without_committed_ratios(tmp_path, capsys):
  assert guard.main([f"--results={tmp_path}"]) == 2
  printed = capsys.readouterr()
  assert printed.out == ""
  (line,) = printed.err.splitlines()
  assert line.startswith("guard: no committed ratio 'worker")


@pytest.fixture(scope="module")
def measured():
  case = trainer.Case(_CASE, "apex_dqn", "cartpole", {}, items=400, updates=20)
  return trainer.measure(2, (case,)).raw


@pytest.mark.benchmarks
@pytest.mark.parametrize("before, status", [(1e-3, 0), (1e3, 1)])
def test_measured_ratios_are_compared(
  before, status, measured, tmp_path, monkeypatch, capsys
):
  _commit(tmp_path, [before, before])
  part = guard._Part(lambda: measured, [_RATIO])
  monkeypatch.setattr(guard, "_parts", lambda: [part])
  monkeypatch.setattr(guard, "_OTHERS", math.inf)
  assert guard.main([f"--results={tmp_path}"]) == status
  (line,) = capsys.readouterr().out.splitlines()
  assert line.startswith(f"{_RATIO.name}: committed {before:.2f}, now ")
