"""The command that runs benchmarks: errors for invalid arguments."""

import re

import pytest

from benchmarks import run


@pytest.mark.parametrize(
  ("arguments", "message"),
  [
    (["--only=worker,trainr"], "'trainr' is no benchmark"),
    (["--runs=0"], "0 is below 1"),
    (["--seeds=many"], "invalid .* value: 'many'"),
  ],
)
def test_an_invalid_argument_is_rejected(arguments, message, capsys):
  with pytest.raises(SystemExit) as error:
    run.main(arguments)
  assert error.value.code == 2
  assert re.search(message, capsys.readouterr().err)
