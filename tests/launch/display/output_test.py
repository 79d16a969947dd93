"""Tests that a terminal that is not read blocks only the output's thread."""

import os
import pty

from slipway.launch.display import output as output_lib


def test_a_terminal_that_is_not_read_blocks_no_caller():
  ours, theirs = pty.openpty()
  with open(theirs, "w") as stream:
    output = output_lib.Output(stream)
    assert output.isatty()
    output.write("begin" + 100_000 * "x")
    assert not output.wait_written(0.1)
    output.write("end")
    seen = b""
    while not seen.endswith(b"end"):
      seen += os.read(ours, 1 << 16)
    assert output.wait_written(10.0)
    assert len(seen) == 100_008
    assert not output.failed
    os.close(ours)
    output.write("lost")
    assert output.wait_written(10.0)
    assert output.failed
