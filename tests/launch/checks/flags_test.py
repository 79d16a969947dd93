"""Tests of flags: a wrong command line is rejected with one line."""

import pytest

from slipway.launch.checks import flags
from slipway.launch.commands import evaluate

EVALUATE_REJECTED = [
  ((), ["--run is missing", "--run=FOLDER"]),
  (("--run=a", "--runn=b"), ["did you mean --run?"]),
  (("--run=a", "--colour=b"), ["`evaluate --help` shows all flags"]),
  (("--run=a", "--render"), ["did you mean --video?"]),
  (("--run=a", "--episodes=0"), ["--episodes=0"]),
  (("--run=a", f"--episodes={10**23}"), [f"--episodes={10**23}"]),
  (("--run=a", f"--seed={2**31}"), [f"--seed={2**31}"]),
  (("--run=a", "--episods=3"), ["did you mean --episodes?"]),
  (("--run=a", "b"), ["'b' is no flag"]),
  (("runs/b",), ["--run is missing", "did you mean --run=runs/b?"]),
  (("--run=a", "--episodes=1k"), ["--episodes=1k", "whole number"]),
  (("--run=a", "--video=perhaps"), ["--video=perhaps", "--novideo"]),
]


def test_evaluate_records_only_where_a_folder_is_named():
  values = flags.parse(evaluate.define_flags(), ["evaluate", "--run=a"], "")
  assert values.record is None
  values = flags.parse(
    evaluate.define_flags(), ["evaluate", "--run=a", "--record=b"], ""
  )
  assert values.record == "b"


def test_a_tilde_is_the_home_folder(monkeypatch):
  monkeypatch.setenv("HOME", "/home/me")
  values = flags.parse(evaluate.define_flags(), ["evaluate", "--run=~/a"], "")
  assert values.run == "/home/me/a"
  with pytest.raises(ValueError, match="a user that does not exist"):
    flags.parse(evaluate.define_flags(), ["evaluate", "--run=~nobody9/a"], "")


@pytest.mark.parametrize(("arguments", "words"), EVALUATE_REJECTED)
def test_flags_that_evaluate_rejects(arguments, words):
  with pytest.raises(ValueError) as caught:
    flags.parse(evaluate.define_flags(), ["evaluate", *arguments], "")
  assert "\n" not in str(caught.value)
  for phrase in words:
    assert phrase in str(caught.value)


@pytest.mark.parametrize(
  "arguments", [("--episodes=1e2",), ("--episodes", "1e2")]
)
def test_whole_numbers_may_have_exponents(arguments):
  values = flags.parse(
    evaluate.define_flags(), ["evaluate", "--run=a", *arguments], ""
  )
  assert values.episodes == 100
