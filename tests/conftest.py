"""All tests: what one leaves behind neither stays nor changes others."""

import os
import signal
import tempfile

import pytest


@pytest.fixture(scope="session", autouse=True)
def temporary_folder(tmp_path_factory):
  """Makes pytest's folder that of all temporary files, also of subprocesses.

  Libraries leave files behind when their process is killed, and Reverb's
  servers leave a folder each.
  """
  folder = str(tmp_path_factory.mktemp("t"))
  os.environ["TMPDIR"] = tempfile.tempdir = folder


@pytest.fixture(autouse=True)
def signal_handlers():
  """Restores the handlers of signals after each test.

  A command that a test runs in this process ignores stop signals at its end.
  All processes that later tests start would inherit that.
  """
  handlers = {x: signal.getsignal(x) for x in signal.valid_signals()}
  yield
  signal.set_wakeup_fd(-1)
  for number, handler in handlers.items():
    if signal.getsignal(number) != handler:
      signal.signal(number, handler)
