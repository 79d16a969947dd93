"""The command: which benchmarks it runs."""

import re

import pytest

from benchmarks import run


@pytest.mark.parametrize(
  ("arguments", "complaint"),
  [
    (["--only=worker,trainr"], "'trainr' is no benchmark"),
    (["--runs=0"], "0 is below 1"),
    (["--seeds=many"], "invalid .* value: 'many'"),
  ],
)
def test_a_bad_argument_is_refused_in_one_line(arguments, complaint, capsys):
  with pytest.raises(SystemExit) as error:
    run.main(arguments)
  assert error.value.code == 2
  assert re.search(complaint, capsys.readouterr().err)
