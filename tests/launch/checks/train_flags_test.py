"""Tests of the flags of `slipway train`: values, and one-line errors."""

import math
import subprocess
import sys

import pytest

from slipway.configs import value
from slipway.environments import user_code
from slipway.launch.checks import train_flags
from slipway.launch.runs import run_folder

pytestmark = pytest.mark.filterwarnings(
  "ignore:the load_module.. method:DeprecationWarning"
)

_PONG = "--config=dqn:pong"


def parse(*arguments):
  return train_flags.parse(["train", *arguments], "Trains.")


def value_of(config, field):
  for name in field.split("."):
    config = config[name]
  return config


# arguments, field, expected value of the field
ACCEPTED = [
  ((), "replay.sampler", "prioritized"),
  (("--config.replay.capacity=50_000",), "replay.capacity", 50_000),
  (("--config.replay.capacity", "7"), "replay.capacity", 7),
  (("--config.replay.capacity=1e5",), "replay.capacity", 100_000),
  (("--config.replay.capacity", "2e3", "--config.seed=3.0"),
   "replay.capacity", 2000),
  (("--config.network.hidden_sizes=(1e2, 4)",), "network.hidden_sizes",
   (100, 4)),
  (("--config.replay.capacity=1", "--config.replay.capacity=2"),
   "replay.capacity", 2),
  (("--config.topology.proxy=False",), "topology.proxy", False),
  (("--noconfig.topology.proxy",), "topology.proxy", False),
  (("--config.network.hidden_sizes=(32,)",), "network.hidden_sizes", (32,)),
  (("--config.network.hidden_sizes=(8, 4)",), "network.hidden_sizes", (8, 4)),
  (("--config.network.hidden_sizes=32",), "network.hidden_sizes", (32,)),
  (("--config.environment.wrappers=a:B", "--config.environment.wrappers=c:D"),
   "environment.wrappers", ("a:B", "c:D")),
  (("--config.environment.wrappers=('a:B', 'c:D')",),
   "environment.wrappers", ("a:B", "c:D")),
  (("--config.limits.wall_clock_s=5",), "limits.wall_clock_s", 5.0),
  (("--config.limits.target_return=inf",), "limits.target_return",
   float("inf")),
  (("--config.learner.learning_rate=1e-4",), "learner.learning_rate", 1e-4),
  (("--config.hooks=mlflow",), "hooks", ("mlflow",)),
  (("--config.hooks=mlflow,mine:notify",), "hooks", ("mlflow", "mine:notify")),
  (('--config.hooks=("mlflow", "wandb")',), "hooks", ("mlflow", "wandb")),
  (("--config.hooks=",), "hooks", ()),
  (("--config.hooks", "mlflow,mine:f"), "hooks", ("mlflow", "mine:f")),
  (("--config.environment.name=Acrobot-v1",), "environment.name",
   "Acrobot-v1"),
  (("--config.environment.kwargs.gravity=-5",), "environment.kwargs",
   {"gravity": -5}),
  (("--config.environment.kwargs.map_name=4x4",
    "--config.environment.kwargs.slippery=False"), "environment.kwargs",
   {"map_name": "4x4", "slippery": False}),
  ((_PONG, "--config.environment.kwargs.repeat_action_probability=1"),
   "environment.kwargs.repeat_action_probability", 1.0),
  # The config's flag may follow those of its overrides.
  (("--config.replay.capacity=9", _PONG), "environment.game", "Pong"),
  (("--config.replay.capacity=9", _PONG), "replay.capacity", 9),
  (("--config", "dqn:lunarlander"), "environment.name",
   "LunarLander-v3"),
  # Without the override, the field's value is out of range.
  (("--config=bc", "--config.dataset.path=episodes/a"),
   "dataset.path", "episodes/a"),
  ((), "mode", "async"),
  (("--mode=single",), "mode", "single"),
  (("--mode", "sync", "--launch=local_mt"), "mode", "sync"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "field", "value"), ACCEPTED)
def test_flags_that_are_accepted(arguments, field, value):
  found = value_of(parse(*arguments).config, field)
  found = found.to_dict() if isinstance(value, dict) else found
  assert found == value
  assert type(found) is type(value)


# arguments, words that the error must contain
REJECTED = [
  (("--config.replay.capacty=1",),
   ["--config.replay.capacty=1", "did you mean --config.replay.capacity?"]),
  (("--config.replay.colour=1",),
   ["the fields of --config.replay are ", " capacity,"]),
  (("--config.colour=1",), ["no field 'colour'", "--help"]),
  (("--config.capacity=1",),
   ["no field 'capacity'", "--config.replay.capacity?"]),
  (("--noconfig.topology.prox",), ["--config.topology.proxy?"]),
  (("--config.replay=1",), ["no field 'replay'", "--config.replay."]),
  (("--config.replay.capacity=abc",),
   ["--config.replay.capacity=abc", "int", "75000 by default"]),
  (("--config.replay.capacity=1.5",), ["--config.replay.capacity=1.5", "int"]),
  (("--config.replay.capacity",), ["--config.replay.capacity"]),
  (("--config.topology.proxy=maybe",),
   ["--config.topology.proxy=maybe", "bool"]),
  (("--config.network.hidden_sizes=(a,)",),
   ["--config.network.hidden_sizes=", "tuple of int", "(64, 64) by default"]),
  (("--config.network.hidden_sizes=(8.5,)",), ["(8.5,)", "tuple of int"]),
  (("--config.environment.wrappers=(3,)",), ["(3,)", "tuple of str"]),
  (("--config.environment.kwargs.gravity",),
   ["--config.environment.kwargs.gravity", "=VALUE"]),
  ((_PONG, "--config.environment.kwargs.frameskip=often"),
   ["--config.environment.kwargs.frameskip=often", "int", "4 by default"]),
  (("--launch=x",), ["--launch=x", "local_mp, local_mt, ray: give one"]),
  (("--launch=local_p",), ["did you mean local_mp?"]),
  (("--launch=single",), ["--launch=single", "local_mp, local_mt, ray:"]),
  (("--seed=2",), ["did you mean --config.seed?"]),
  (("--lr=2",), ["did you mean --config.learner.learning_rate?"]),
  (("--learner.lr=2",), ["did you mean --config.learner.learning_rate?"]),
  (("--config.learner.lr=2",),
   ["did you mean --config.learner.learning_rate?"]),
  # A bonus has a step size, too.
  (("--config.learning_rate=2",),
   ["did you mean --config.learner.learning_rate?"]),
  (("--config.gamma=2",), ["did you mean --config.adder.discount?"]),
  (("--gamma=2",), ["did you mean --config.adder.discount?"]),
  (("--env=A",), ["did you mean --config.environment.name?"]),
  (("--total-timesteps=9",),
   ["did you mean --config.limits.environment_steps?"]),
  (("--batch=9",), ["did you mean --config.learner.batch_size?"]),
  (("--capacity=9",), ["did you mean --config.replay.capacity?"]),
  (("--algo=dqn",), ["did you mean --config?"]),
  (("--wandb",), ["did you mean --config.hooks?"]),
  (("--zzz=2",), ["`train --help` shows all flags"]),
  (("--config.hooks=(1, 2)",), ["--config.hooks=(1, 2)", "tuple of str"]),
  (("--insecure",), ["--insecure is for --launch=ray", "--launch=local_mp"]),
  (("--mode=singel",),
   ["--mode=singel", "async, sync, single", "did you mean single?"]),
  (("--mode=single", "--launch=local_mt"),
   ["--launch=local_mt", "'single'", "leave it out"]),
  (("--launch", "local_mp", "--mode", "single"), ["--launch=local_mp"]),
  (("--config.mode=single",), ["--config.mode=single", "--mode=VALUE"]),
  (("--config.mode", "sync"), ["--config.mode", "--mode=VALUE"]),
  (("--noconfig.mode",), ["--noconfig.mode", "--mode=VALUE"]),
  (("--config=nope",), ["--config=nope can't be read"]),
  (("--config=configs",), ["--config=configs can't be read"]),
  (("--config=",), ["--config has no value"]),
  (("--config",), ["--config has no value"]),
  (("--config=dqn", "--config=ppo"), ["--config", "twice", "'dqn'"]),
  (("--resume=",), ["--resume has no value"]),
  (("--config=dqn:cartpol",),
   ["--config=dqn:cartpol", "'cartpol' is unknown", "mean cartpole?"]),
  (("--config=dqn:CartPole-v1",), ["'CartPole-v1'", "mean cartpole?"]),
  (("--config=DQN-CartPole",), ["=DQN-CartPole", "mean dqn:cartpole?"]),
  (("--config=dqn/cartpole",), ["=dqn/cartpole", "mean dqn:cartpole?"]),
  (("--config=own/dqn.py",), ["no file 'own/dqn.py'", "mean dqn?"]),
  (("--config=configs",), ["--config=configs can't be read"]),
  (("cartpole",), ["'cartpole' is no flag", "--"]),
  (("config.seed=3",), ["'config.seed=3'", "mean --config.seed=3?"]),
  (("dqn:pong",), ["'dqn:pong'", "mean --config=dqn:pong?"]),
  (("\u2014name=x",), ["mean --name=x?"]),
  (("--run=runs/a",), ["--run is no flag", "mean --resume?"]),
  (("--config.environment_name=A",), ["mean --config.environment.name?"]),
  (("--config.environment.action-mask=1",),
   ["mean --config.environment.action_mask?"]),
  (("--config.environment.kwargs={'a': 1}",), ["kwargs.NAME=VALUE"]),
  (("--config.environment.game=Pong",),
   ["--config.environment.game=Pong", "'CartPole-v1'", "no effect"]),
  (("--nme=x",), ["--nme is no flag", "did you mean --name?"]),
  (("--runs=x",), ["--runs is no flag", "did you mean --run_dir?"]),
  (("--overwrite=perhaps",), ["--overwrite=perhaps", "--nooverwrite"]),
  (("--name",), ["--name has no value"]),
  (("--config.hooks",), ["--config.hooks has no value"]),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "words"), REJECTED)
def test_flags_that_are_rejected_with_one_line(arguments, words):
  with pytest.raises(ValueError) as caught:
    parse(*arguments)
  line = str(caught.value)
  assert "\n" not in line
  for phrase in words:
    assert phrase in line


# text of a file, words that the error must contain
NO_CONFIGS = [
  ("", ["is no config", "get_config"]),
  ("def get_config(preset): pass", ["is no config", "preset"]),
  ("def get_config(): pass", ["is no config", "None"]),
]


@pytest.mark.parametrize(("text", "words"), NO_CONFIGS)
def test_a_file_that_is_no_config(text, words, tmp_path):
  path = tmp_path / "own.py"
  path.write_text(text)
  with pytest.raises(ValueError) as caught:
    parse(f"--config={path}")
  for phrase in [f"--config={path}", *words]:
    assert phrase in str(caught.value)


# text of a file, number of the line that fails, its error
FAILING = [
  ("import sys\nsys.exit(0)", 2, "SystemExit: 0"),
  ("\nimport absent_package", 2, "No module named 'absent_package'"),
  ("def get_config():\n  return 1 / 0", 2, "ZeroDivisionError: division by"),
  ("def get_config():\n  open('absent')", 2, "FileNotFoundError: "),
  ("def get_config():\n  raise SystemExit", 2, "SystemExit"),
  ("def get_config():\n  raise GeneratorExit", 2, "GeneratorExit"),
  ("x = (", 1, "SyntaxError: '(' was never closed"),
  ("import json\njson.loads('{')", 2, "JSONDecodeError: "),
]


@pytest.mark.parametrize(("text", "line", "error"), FAILING)
def test_a_config_file_that_fails(text, line, error, tmp_path):
  path = tmp_path / "own.py"
  path.write_text(text)
  with pytest.raises(user_code.UserCodeError) as caught:
    parse(f"--config={path}")
  failed = caught.value
  assert failed.line.startswith(f"--config={path}: line {line} of {path} ")
  assert error in failed.line
  assert "\n" not in failed.line
  assert failed.traceback.count("File ") == 1
  assert f'File "{path}", line {line}' in failed.traceback


@pytest.mark.parametrize(
  ("change", "words"),
  [
    ("c.learner.batch_sise = 3", ["config.learner.batch_sise", "batch_size?"]),
    ("c.colours = 3", ["config.colours is no field", "--help"]),
    ("del c.replay['capacity']", ["config.replay.capacity is missing"]),
    ("del c['mode']", ["config.mode is missing"]),
    (
      "del c['environment']",
      ["own.py: config.environment.name is missing", "set it"],
    ),
    ("del c['agent']", ["config.agent=None must be of type str"]),
    ("c.agent = 'dqnn'", ["config.agent='dqnn'", "did you mean dqn"]),
    ("c.learner.batch_size = 0", ["config.learner.batch_size=0 must be"]),
    (
      "with c.ignore_type(): c.seed = 'one'",
      ["config.seed='one' must be of type int"],
    ),
  ],
)
def test_a_file_with_other_fields(tmp_path, change, words):
  text = f"""
from slipway.configs import dqn

def get_config(preset='cartpole'):
  c = dqn.get_config(preset)
  {change}
  return c
"""
  assert_rejected(tmp_path, text, *words)


def assert_rejected(tmp_path, text, *words, flags=()):
  # In its own process, as ml_collections loads all config files as one module.
  path = tmp_path / "own.py"
  path.write_text(text)
  done = subprocess.run(
    [
      sys.executable,
      "-m",
      "slipway.launch.commands.train",
      f"--config={path}",
      *flags,
    ],
    capture_output=True,
    text=True,
  )
  assert done.returncode == 2
  (line,) = done.stderr.splitlines()
  for phrase in words:
    assert phrase in line


def test_help_of_a_file_without_a_section(tmp_path):
  text = """
from slipway.configs import dqn

def get_config():
  c = dqn.get_config()
  del c["replay"]
  return c
"""
  assert_rejected(tmp_path, text, "own.py: config.replay.", flags=("--help",))


@pytest.mark.parametrize(
  ("arguments", "name"),
  [
    ((), "apex_dqn_cartpole"),
    ((_PONG,), "dqn_pong"),
    (("--config=dqn",), "dqn"),
    (("--config.environment.name=Acrobot-v1",), "apex_dqn_acrobot_v1"),
    (("--config=dqn:atari57", "--config.environment.game=Qbert"), "dqn_qbert"),
  ],
)
def test_a_run_is_named_after_algorithm_and_task(arguments, name):
  assert parse(*arguments).name.rpartition("-")[0].rpartition("-")[0] == name
  assert parse("--name=mine", *arguments).name == "mine"


@pytest.mark.parametrize("argument", ["--help", "-h", "--helpfull"])
def test_help(argument, capsys):
  with pytest.raises(SystemExit) as caught:
    parse("--nme=x", argument)
  assert caught.value.code == 0
  printed = capsys.readouterr().out
  assert printed.startswith("Trains.\n")
  for flag in ("--config:", "--name:", "--run_dir:", "--mode:", "--resume:"):
    assert flag in printed


def test_help_explains_the_fields_of_the_config(capsys):
  with pytest.raises(SystemExit):
    parse("--config=rainbow:pong", "--help")
  printed = capsys.readouterr().out
  for name, field in value.FIELDS.items():
    assert name in printed
    assert " ".join(field.meaning.split()) in " ".join(printed.split())
  assert "--config.network.atoms=51\n" in printed


@pytest.fixture
def run(tmp_path):
  """Returns the folder of a run whose config differs from all config files."""
  folder = run_folder.RunFolder.create(tmp_path, "a-run", overwrite=False)
  config = parse(
    "--mode=sync",
    "--config.replay.capacity=7_777",
    "--config.network.hidden_sizes=(8,)",
    "--config.environment.kwargs.gravity=9.5",
  ).config
  folder.write_config(config)
  return folder.path


@pytest.mark.parametrize(
  ("arguments", "field", "value"),
  [
    ((), "replay.capacity", 7_777),
    ((), "network.hidden_sizes", (8,)),
    ((), "limits.target_return", 475.0),
    ((), "mode", "sync"),
    (("--mode=async",), "mode", "async"),
    (("--config.replay.capacity=9_999",), "replay.capacity", 9_999),
    (("--config.limits.target_return", "inf"), "limits.target_return",
     float("inf")),
    (("--config.limits.wall_clock_s=5",), "limits.wall_clock_s", 5.0),
    (("--config.network.hidden_sizes=(8, 4)",), "network.hidden_sizes", (8, 4)),
    (("--noconfig.topology.proxy",), "topology.proxy", False),
    (("--config.environment.kwargs.gravity=9",), "environment.kwargs.gravity",
     9.0),
  ],
)  # fmt: skip
def test_a_resumed_run_keeps_its_config(run, arguments, field, value):
  parsed = parse(f"--resume={run}", *arguments)
  assert parsed.resume == str(run)
  found = value_of(parsed.config, field)
  assert found == value
  assert type(found) is type(value)


def test_resume_may_be_the_last_flag_with_a_separate_value(run):
  parsed = parse("--config.seed=5", "--resume", str(run))
  assert (parsed.config.seed, parsed.config.replay.capacity) == (5, 7_777)


RESUME_REJECTED = [
  (("--config=dqn",), ["--config is for a new run", "FIELD=VALUE"]),
  (("--config", "dqn"), ["--config is for a new run"]),
  (("--name=x",), ["--name is for a new run", "leave it out"]),
  (("--run_dir=runs",), ["--run_dir is for a new run"]),
  (("--overwrite",), ["--overwrite is for a new run"]),
  (("--nooverwrite",), ["--overwrite is for a new run"]),
  (("--config.replay.capacty=1",), ["did you mean --config.replay.capacity?"]),
  (("--config.replay.capacity=x",), ["int", "7777 by default"]),
  (("--config.network.hidden_sizes=(8.5,)",), ["tuple of int"]),
  (("--config.environment.kwargs.gravity=low",), ["float", "9.5 by default"]),
  (("--config.mode=async",), ["--mode=VALUE"]),
  (("--mode=single", "--launch=local_mp"), ["--launch=local_mp"]),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "words"), RESUME_REJECTED)
def test_flags_that_a_resume_rejects(run, arguments, words):
  with pytest.raises(ValueError) as caught:
    parse(f"--resume={run}", *arguments)
  assert "\n" not in str(caught.value)
  for phrase in words:
    assert phrase in str(caught.value)


@pytest.mark.parametrize("value", ["frist", "a-run/snapshots"])
def test_no_such_run_to_resume(run, value):
  path = run.parent / value
  with pytest.raises(ValueError, match="is not a run") as caught:
    parse(f"--resume={path}")
  if value == "a-run/snapshots":
    assert str(run) in str(caught.value)


# --config, further flags, expected target return
TARGETS = [
  ("dqn:cartpole", ("--config.environment.name=CartPole-v1",), 475.0),
  ("dqn:cartpole", ("--config.environment.name=Acrobot-v1",), -100.0),
  ("sac:pendulum", ("--config.environment.name=HalfCheetah-v5",), 4800.0),
  ("sac:pendulum", ("--config.environment.name=Humanoid-v5",), math.inf),
  ("dqn:pong", ("--config.environment.game=Breakout",), math.inf),
  ("dqn:cartpole",
   ("--config.environment.name=Acrobot-v1",
    "--config.limits.target_return=-90"), -90.0),
  ("rainbow:atari57", ("--config.environment.game=Breakout",), math.inf),
]  # fmt: skip


@pytest.mark.parametrize("config, arguments, target", TARGETS)
def test_another_environment_has_its_own_target(config, arguments, target):
  values = parse(f"--config={config}", *arguments)
  assert values.config.limits.target_return == target


def test_a_presets_environment_arguments_can_be_removed():
  values = parse(
    "--config=sac:lunarlander",
    "--config.environment.kwargs={}",
    "--config.environment.kwargs.goal_velocity=0.1",
    "--config.environment.name=MountainCarContinuous-v0",
  )
  assert values.config.environment.kwargs.to_dict() == {"goal_velocity": 0.1}
