"""Tests of flags: a wrong command line is rejected with one line."""

import pytest

from slipway.launch.commands import evaluate
from tests.launch import errors

EVALUATE_REJECTED = [
  ((), ["--run is missing", "--run=FOLDER"]),
  (("--run=a", "--runn=b"), ["did you mean --run?"]),
  (("--run=a", "--colour=b"), ["`evaluate --help` shows all flags"]),
  (("--run=a", "--episodes=0"), ["--episodes=0"]),
  (("--run=a", f"--episodes={10**23}"), [f"--episodes={10**23}"]),
  (("--run=a", f"--seed={2**31}"), [f"--seed={2**31}"]),
  (("--run=a", "--episods=3"), ["did you mean --episodes?"]),
  (("--run=a", "b"), ["'b' is no flag"]),
  (("runs/b",), ["--run is missing", "did you mean --run=runs/b?"]),
  (("--run=a", "--episodes=1k"), ["--episodes=1k", "whole number"]),
  (("--run=a", "--trust=perhaps"), ["--trust=perhaps", "--notrust"]),
]


def parse(*arguments):
  flags = evaluate.define_flags()
  flags.parse(["evaluate", *arguments], "")
  return flags


def test_a_tilde_is_the_home_folder(monkeypatch):
  monkeypatch.setenv("HOME", "/home/me")
  assert parse("--run=~/a").run == "/home/me/a"
  with pytest.raises(ValueError, match="a user that does not exist"):
    parse("--run=~nobody9/a")


@pytest.mark.parametrize(("arguments", "words"), EVALUATE_REJECTED)
def test_flags_that_evaluate_rejects(arguments, words):
  with errors.one_line(*words):
    parse(*arguments)


def test_values_of_flags():
  for arguments in (("--episodes=1e2",), ("-episodes", "1e2")):
    assert parse("--run=a", *arguments).episodes == 100
  flags = parse("--run=a", "--trust", "--notrust", "--which", "b")
  assert (flags.trust, flags.which, flags.policy) == (False, "b", None)
