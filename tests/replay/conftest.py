"""Fixture with a relay's listen address, for unix sockets and for TCP."""

import pytest


@pytest.fixture(params=["unix", "tcp"])
def listen(request, tmp_path):
  return f"unix:{tmp_path}/r" if request.param == "unix" else "127.0.0.1:0"
