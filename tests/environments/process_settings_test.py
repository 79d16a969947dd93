"""Tests of process-wide settings that user code changes: Slipway keeps its own.

User code is an environment's constructor, its module, and a wrapper's module.
"""

import signal
import sys
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from slipway.environments import factory, ids, wrappers
from tests.environments import given

_CHANGES = """
import signal
import warnings
import gymnasium
import numpy as np

np.seterr(all="raise")
warnings.simplefilter("error")
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGTERM, lambda *_: None)
"""


class Changing(gymnasium.Env):
  """Environment whose constructor changes settings, and may fail after that."""

  observation_space = spaces.Box(0.0, 1.0, (1,), np.float32)
  action_space = spaces.Discrete(2)

  def __init__(self, fails=False):
    exec(_CHANGES)
    warnings.filterwarnings("ignore", "the user's own")
    if fails:
      raise RuntimeError("boom")


@pytest.fixture
def changing(monkeypatch):
  """Registers `Changing` under the id 'Changing-v0'."""
  spec = gymnasium.envs.registration.EnvSpec("Changing-v0", Changing)
  monkeypatch.setitem(gymnasium.registry, "Changing-v0", spec)


@pytest.fixture
def assert_unchanged():
  """Returns a function that asserts that the settings are those from before."""
  handlers = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]
  float_errors = np.geterr()

  def check():
    assert np.geterr() == float_errors
    now = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]
    assert now == handlers
    with pytest.warns(DeprecationWarning):
      warnings.warn("of a library", DeprecationWarning, stacklevel=1)

  yield check
  np.seterr(**float_errors)
  signal.signal(signal.SIGINT, handlers[0])
  signal.signal(signal.SIGTERM, handlers[1])


@pytest.mark.usefixtures("changing")
@pytest.mark.parametrize("fails", [False, True])
def test_a_constructor_changes_no_settings(assert_unchanged, fails):
  config = given.config_of("Changing-v0", fails=fails)
  if fails:
    with pytest.raises(RuntimeError, match="boom"):
      factory.make(config, 2, seed=0)
  else:
    factory.make(config, 2, seed=0).close()
  assert_unchanged()


@pytest.mark.usefixtures("changing")
def test_warnings_that_an_environment_ignores_stay_ignored():
  factory.make(given.config_of("Changing-v0"), 1, seed=0).close()
  with warnings.catch_warnings(record=True) as caught:
    warnings.warn("the user's own warning", UserWarning, stacklevel=1)
  assert not caught


def test_a_module_changes_no_settings(assert_unchanged, tmp_path, monkeypatch):
  text = f"{_CHANGES}\ngymnasium.register('Toy-v0', gymnasium.Env)\n"
  (tmp_path / "changing_toy.py").write_text(text)
  (tmp_path / "changing_wrapper.py").write_text(f"{_CHANGES}\nwrap = print\n")
  monkeypatch.syspath_prepend(tmp_path)
  wrappers.make_wrappers(
    given.config_of("Any-v0", {"wrappers": ("changing_wrapper:wrap",)})
  )
  assert_unchanged()
  assert not ids.is_atari(ids.find_spec("changing_toy:Toy-v0"))
  assert_unchanged()
  del gymnasium.registry["Toy-v0"]
  for module in ("changing_toy", "changing_wrapper"):
    del sys.modules[module]
