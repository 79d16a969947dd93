"""Tests of failing environments: index, step, and the user's stack frames."""

import asyncio
import multiprocessing
import os

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from slipway.environments import checked, factory, user_code, vector
from tests.environments import given

_BOX = spaces.Box(0.0, 1.0, (4,), np.float32)


class Faulty(gymnasium.Env):
  """Environment with one fault, in the second instance of a batch."""

  made = 0

  def __init__(self, call="step", fault=None, space=_BOX):
    self.observation_space = space
    self.action_space = spaces.Discrete(2)
    self._index, self._call, self._fault = Faulty.made, call, fault
    Faulty.made += 1
    if call == "constructor":
      self._fail(None)

  def reset(self, *, seed=None, options=None):
    observation = self.observation_space.sample()
    return (self._fail if self._call == "reset" else tuple)((observation, {}))

  def step(self, action):
    result = self.observation_space.sample(), 1.0, False, False, {}
    return (self._fail if self._call == "step" else tuple)(result)

  def close(self):
    if self._call == "close":
      self._fail(None)

  def _fail(self, result):
    return self._fault(result) if self._index == 1 else result


def raise_error(error):
  def fail(result):
    raise error

  return fail


def put(position, value):
  """Returns a fault that replaces the value at a position of the result."""
  return lambda result: (*result[:position], value, *result[position + 1 :])


@pytest.fixture(autouse=True)
def registered():
  Faulty.made = 0
  gymnasium.register("Faulty-v0", entry_point=Faulty)
  yield
  del gymnasium.registry["Faulty-v0"]


def play(**kwargs):
  """Makes three environments, steps them twice, and closes them."""
  environment = factory.make(given.config_of("Faulty-v0", **kwargs), 3, seed=5)
  environment.reset()
  for _ in range(2):
    environment.step(np.zeros(3, np.int32))
  environment.close()


class Panic(BaseException):
  """Stand-in for the class that PyO3 raises after a panic of Rust code."""


class Unprintable(Exception):
  def __str__(self):
    raise Panic


class Odd:
  """Value that raises an error whenever it is used."""

  def __repr__(self):
    raise Panic

  def __array__(self, *args, **kwargs):
    raise Panic("no array")


# Failing call, raised error, and the end of the expected message.
RAISED = [
  ("constructor", ValueError("b\nc"), "constructor raised ValueError: b"),
  ("constructor", SystemExit(0), "constructor raised SystemExit: 0"),
  ("reset", IndexError("of 3"), "reset() raised IndexError: of 3"),
  ("step", KeyError("key"), "step() raised KeyError: 'key'"),
  ("close", OSError("gone"), "close() raised OSError: gone"),
  ("constructor", Panic("index"), "constructor raised Panic: index"),
  ("step", asyncio.CancelledError(), "step() raised CancelledError"),
  ("close", Panic("index"), "close() raised Panic: index"),
  ("step", Unprintable(), "step() raised Unprintable: <unprintable Unprintable"
   " object>"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "message"), RAISED)
def test_an_error_names_the_environment_and_keeps_its_own_frames(
  call, error, message
):
  with pytest.raises(checked.EnvironmentFailedError) as caught:
    play(call=call, fault=raise_error(error))
  failed = caught.value
  assert (failed.name, failed.index) == ("Faulty-v0", 1)
  assert failed.step == {"step": 1, "close": 2}.get(call, 0)
  assert (failed.seed is None) == (call == "constructor")
  assert failed.line.startswith("environment Faulty-v0 (index 1")
  assert failed.line.endswith(message)
  assert __file__ in failed.traceback
  for foreign in ("gymnasium/", "environments/checked.py", "factory.py"):
    assert foreign not in failed.traceback
  assert str(failed) == f"{failed.line}\n{failed.traceback}".rstrip()


def test_the_seed_is_the_one_that_the_environment_got():
  seeds = []

  class Seeded(Faulty):
    def reset(self, *, seed=None, options=None):
      seeds.append(seed)
      return super().reset(seed=seed)

  gymnasium.registry["Faulty-v0"].entry_point = Seeded
  with pytest.raises(checked.EnvironmentFailedError) as caught:
    play(fault=raise_error(ValueError()))
  assert caught.value.seed == seeds[1]
  assert f"(index 1, seed {seeds[1]}, step 1)" in caught.value.line


def test_a_call_of_os_exit_is_an_error():
  with user_code.exit_as_error(), pytest.raises(user_code.UserCodeError) as e:
    play(fault=lambda result: os._exit(0))
  assert e.value.line.endswith("step() raised SystemExit: os._exit(0)")


def test_a_forked_process_may_call_os_exit():
  with user_code.exit_as_error():
    process = multiprocessing.get_context("fork").Process(target=lambda: None)
    process.start()
    process.join()
  assert process.exitcode == 0


def test_a_keyboard_interrupt_is_not_a_fault_of_the_environment():
  with pytest.raises(KeyboardInterrupt):
    play(fault=raise_error(KeyboardInterrupt()))


_BYTES = spaces.Box(0, 255, (2, 2), np.uint8)
_ZEROS = np.zeros(4, np.float32)
_INT8 = spaces.Box(-128, 127, (2,), np.int8)
_PARTS = spaces.Dict({"count": spaces.Box(0, 9, (1,), np.int32), "x": _BOX})
# Call with a wrong result, fault, observation space, and texts that the message
# contains.
RETURNED = [
  ("reset", put(0, np.zeros(5, np.float32)), _BOX, ["(5,)", "Box(0.0, "]),
  ("step", put(0, np.zeros((2, 2))), _BYTES, ["float64", "uint8"]),
  ("step", put(0, np.array(["a"] * 4)), _BOX, ["<U1"]),
  ("step", put(0, None), _BOX, ["shape ()", "object"]),
  ("step", put(0, [[1.0], 2.0]), _BOX, ["object"]),
  ("step", put(0, 3), spaces.Discrete(3), ["observation 3", "Discrete(3)"]),
  ("step", put(0, 1.0), spaces.Discrete(3), ["float64"]),
  ("step", put(0, np.full((2, 2), 300, np.uint16)), _BYTES, ["300", "uint8"]),
  ("step", put(0, np.array([-129, 0])), _INT8, ["-129", "int8"]),
  ("step", put(0, {"count": [2**31], "x": _ZEROS}), _PARTS,
   ["observation['count'] with 2147483648", "int32"]),
  ("step", put(0, [1, 300]), spaces.MultiBinary(2), ["300", "MultiBinary(2)"]),
  ("step", put(0, _ZEROS + np.float32(3e38)), _BOX, ["3e+38", "1e+15"]),
  ("step", put(1, -3e38), _BOX, ["reward -3e+38", "1e+15"]),
  ("reset", put(0, _ZEROS + np.nan), _BOX, ["reset()", "observation nan"]),
  ("step", put(0, _ZEROS - np.inf), _BOX, ["step()", "observation -inf"]),
  ("step", put(1, np.inf), _BOX, ["reward inf"]),
  ("step", put(1, float("nan")), _BOX, ["reward nan"]),
  ("step", put(1, 1e300), _BOX, ["reward inf (as float32)"]),
  ("step", put(1, None), _BOX, ["reward=None", "a number"]),
  ("step", put(2, {}), _BOX, ["terminated={}", "a bool"]),
  ("step", put(2, np.nan), _BOX, ["terminated=nan"]),
  ("step", put(1, Odd()), _BOX, ["reward=<unprintable Odd object>"]),
  ("step", put(0, Odd()), _BOX, ["observation of step() raised Panic: no a"]),
  ("step", lambda result: result[:4], _BOX, ["got 4", "gym", "shimmy"]),
  ("step", lambda result: result[:3], _BOX, ["step() returned", "truncated"]),
  ("step", lambda result: None, _BOX, ["step() returned", "truncated"]),
  ("reset", lambda result: result[0], _BOX, ["reset()", "info)", "shimmy"]),
  ("reset", lambda result: result[0][:2], spaces.Box(0, 1, (2,)),
   ["reset()", "info)", "shimmy"]),
  ("reset", lambda result: None, _BOX, ["reset() returned", "info)"]),
]  # fmt: skip


@pytest.mark.parametrize(("call", "fault", "space", "texts"), RETURNED)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # from 1e300 as float32
def test_invalid_results_are_errors(call, fault, space, texts):
  with given.one_line(checked.EnvironmentFailedError) as caught:
    play(call=call, fault=fault, space=space)
  assert caught.value.line.startswith("environment Faulty-v0 (index 1, seed ")
  for text in texts:
    assert text in caught.value.line


def test_text_of_an_error_can_not_change_the_terminal():
  text = "\x1b[2J cause\n" + "x" * 3_000_000 + "\n" + "y\n" * 100_000
  with pytest.raises(checked.EnvironmentFailedError) as caught:
    play(fault=raise_error(ValueError(text)))
  shown = str(caught.value)
  assert "\x1b" not in shown and len(shown) < 10_000
  assert "\\x1b[2J cause" in caught.value.line and __file__ in shown


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_an_action_that_is_not_finite_is_the_policys_fault(value):
  environment = factory.make(given.config_of("Pendulum-v1"), 2, seed=5)
  environment.reset()
  with pytest.raises(checked.InvalidActionError) as caught:
    environment.step(np.float32([[0.0], [value]]))
  assert "the policy returned the action" in caught.value.line
  assert "Pendulum-v1" in caught.value.line


class WithoutSeed(Faulty):
  """An environment of the old API, whose reset has no seed."""

  def reset(self):
    return self.observation_space.sample()


@pytest.mark.parametrize("limit", [0, 5])
def test_an_environment_of_the_old_api_is_rejected(limit):
  config = given.config_of(f"{__name__}:WithoutSeed", {"time_limit": limit})
  with given.one_line(checked.EnvironmentFailedError) as caught:
    factory.make_spec(config)
  text = str(caught.value)
  assert "seed" in text and "gym" in text and "WithoutSeed" in text


# Faults whose values differ from the declaration, but are unambiguous, and the
# observation space.
ACCEPTED = [
  (put(0, np.zeros(4)), _BOX),  # float64 instead of float32
  (put(0, [0.0, 0.5, 1.0, 1.0]), _BOX),
  (put(0, np.array([-128, 127])), _INT8),  # int64 instead of int8
  (put(0, np.float32([9e14] * 4)), _BOX),  # values whose sum is absurd
  (put(0, np.int32(2)), spaces.Discrete(3)),
  (put(1, 1), _BOX),
  (put(1, np.float32(1.0)), _BOX),
  (put(1, np.array(1.0)), _BOX),
  (put(2, np.bool_(True)), _BOX),
  (put(3, 1), _BOX),
]


@pytest.mark.parametrize(("fault", "space"), ACCEPTED)
@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
def test_unambiguous_results_are_accepted(fault, space):
  play(fault=fault, space=space)


@pytest.mark.parametrize("call", ["constructor", "reset", "step", "close"])
def test_a_spec_needs_an_environment_that_works(call):
  Faulty.made = 1
  config = given.config_of(
    "Faulty-v0", call=call, fault=raise_error(ValueError("boom"))
  )
  with pytest.raises(checked.EnvironmentFailedError, match="ValueError: boom"):
    factory.make_spec(config)


class FaultyVector(gymnasium.vector.VectorEnv):
  """Vector environment whose step and reset handle all environments at once."""

  def __init__(self, num_envs, fault):
    self.num_envs, self._fault = num_envs, fault
    self.single_observation_space = _BOX
    self.single_action_space = spaces.Discrete(2)
    self.metadata = {"autoreset_mode": gymnasium.vector.AutoresetMode.NEXT_STEP}

  def reset(self, *, seed=None, options=None):
    return np.zeros((self.num_envs, 4), np.float32), {}

  def step(self, actions):
    no = np.zeros(self.num_envs, bool)
    return self._fault((self.reset()[0], np.zeros(self.num_envs), no, no, {}))


@pytest.mark.parametrize(
  ("fault", "message"),
  [
    (raise_error(Panic()), "(seed 1, step 1): step() raised Panic"),
    (raise_error(SystemExit(0)), "(seed 1, step 1): step() raised SystemExit"),
    (put(1, np.array([0, np.inf, 0])), "(index 1, seed 1, step 1): step() "),
    (put(0, np.zeros((3, 5))), "observations [3, 5]"),
    (put(1, np.zeros(4)), "rewards [4]"),
    *((put(1, x), "3 numbers") for x in (["1"] * 3, [1j] * 3, [None] * 3, 1.0)),
  ],
)
def test_faults_of_vector_environments(fault, message):
  environment = vector.VectorEnvironment(FaultyVector(3, fault), "Own-v0", 1)
  environment.reset()
  with pytest.raises(checked.EnvironmentFailedError) as caught:
    environment.step(np.zeros(3, np.int32))
  assert "environment Own-v0 " in caught.value.line
  assert message in caught.value.line


_WHOLE = {"a": np.zeros((3, 2), np.float32), "n": np.zeros(3, np.int64)}
# observations of a Dict of a vector environment, and texts of the message
PARTS = [
  ({**_WHOLE, "a": np.zeros((3, 1), np.float32)}, ["['a'] [3, 1]", "[3, 2]"]),
  ({**_WHOLE, "n": np.zeros(1, np.int64)}, ["['n'] [1]"]),
  ({**_WHOLE, "n": np.zeros(3)}, ["['n'] of type float64"]),
  ({"a": _WHOLE["a"]}, ["no array as observations['n']"]),
  ([1, 2], ["no array as observations['a']"]),
]


@pytest.mark.parametrize(("observation", "texts"), PARTS)
def test_parts_of_a_vector_environments_observations(observation, texts):
  envs = FaultyVector(3, put(0, observation))
  envs.single_observation_space = spaces.Dict(
    {"a": spaces.Box(-1, 1, (2,), np.float32), "n": spaces.Discrete(3)}
  )
  envs.reset = lambda **kwargs: (_WHOLE, {})
  environment = vector.VectorEnvironment(envs, "Own-v0", 1)
  environment.reset()
  with pytest.raises(checked.EnvironmentFailedError) as caught:
    environment.step(np.zeros(3, np.int32))
  for text in texts:
    assert text in caught.value.line


def test_a_vector_environment_of_another_size_is_rejected():
  with pytest.raises(ValueError, match="3 environments where 8"):
    vector.VectorEnvironment(FaultyVector(3, None), "Own-v0", 1, num_envs=8)


# Text of a module, and the text that the message contains.
MODULES = {
  "panics": ("class P(BaseException): ...\nraise P(1)\n", "P: 1"),
  "exits": ("import sys\nsys.exit(0)\n", "SystemExit: 0"),
  "fails": ("1 / 0\n", "ZeroDivisionError: division by zero"),
  "needs": ("import absent_package\n", "No module named 'absent_package'"),
  "is no Python": ("class:\n", "SyntaxError: invalid syntax"),
}


@pytest.mark.parametrize("title", MODULES)
def test_a_module_that_cannot_be_imported(title, tmp_path, monkeypatch):
  text, message = MODULES[title]
  monkeypatch.syspath_prepend(tmp_path)
  module = f"users_{title.replace(' ', '_')}"
  path = tmp_path / f"{module}.py"
  path.write_text(text)
  with pytest.raises(user_code.UserCodeError) as caught:
    factory.make_spec(given.config_of(f"{module}:Toy-v0"))
  assert f"importing {module} failed" in caught.value.line
  assert message in caught.value.line
  assert f'File "{path}", line ' in caught.value.traceback
  assert caught.value.traceback.count("File ") == 1
