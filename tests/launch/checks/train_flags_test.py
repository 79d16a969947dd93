"""Tests of the flags of `slipway train`: values, and one-line errors."""

import math
import shlex

import pytest

from slipway.configs import value
from slipway.environments import factory, user_code
from slipway.launch.checks import environment_check, run_check, train_flags
from slipway.launch.runs import run_folder
from tests.launch import errors


def parse(*arguments):
  return train_flags.parse(["train", *arguments], "Trains.")


def value_of(config, field):
  for name in field.split("."):
    config = config[name]
  return config.to_dict() if hasattr(config, "to_dict") else config


# arguments, field of the config, its value
ACCEPTED = [
  ("", "learner.policy_loss", "clipped"),
  ("--config.learner.epochs=50_000", "learner.epochs", 50_000),
  ("--config.learner.epochs 7", "learner.epochs", 7),
  ("--config.learner.epochs=1e5", "learner.epochs", 100_000),
  ("--config.learner.epochs 2e3 --config.seed=3.0", "learner.epochs", 2000),
  ("--config.learner.epochs=1 --config.learner.epochs=2",
   "learner.epochs", 2),
  ("--config.topology.proxy=False", "topology.proxy", False),
  ("--config.topology.proxy 0", "topology.proxy", False),
  ("--noconfig.topology.proxy", "topology.proxy", False),
  ("--config.learner.normalize_advantages", "learner.normalize_advantages",
   True),
  ("--config.network.hidden_sizes=32", "network.hidden_sizes", (32,)),
  ("--config.network.hidden_sizes=8,4", "network.hidden_sizes", (8, 4)),
  ("--config.network.hidden_sizes='(1e2, 4)'", "network.hidden_sizes",
   (100, 4)),
  ("--config.environment.wrappers=a:B --config.environment.wrappers=c:D",
   "environment.wrappers", ("a:B", "c:D")),
  ("--config.environment.wrappers=\"('a:B', 'c:D')\"", "environment.wrappers",
   ("a:B", "c:D")),
  ("--config.hooks=mlflow,mine:notify", "hooks", ("mlflow", "mine:notify")),
  ("--config.hooks mlflow,mine:f", "hooks", ("mlflow", "mine:f")),
  ("--config.hooks=", "hooks", ()),
  ("--config.limits.wall_clock_s=5", "limits.wall_clock_s", 5.0),
  ("--config.limits.target_return=inf", "limits.target_return", math.inf),
  ("--config.limits.target_return -3", "limits.target_return", -3.0),
  ("--config.learner.learning_rate=1e-4", "learner.learning_rate", 1e-4),
  ("--config.environment.name=Acrobot-v1", "environment.name", "Acrobot-v1"),
  ("--config.environment.kwargs.gravity=-5", "environment.kwargs",
   {"gravity": -5}),
  ("--config.environment.kwargs.map_name=4x4 "
   "--config.environment.kwargs.slippery=false", "environment.kwargs",
   {"map_name": "4x4", "slippery": False}),
  ("--config.evaluation.environment.kwargs.gravity=-5",
   "evaluation.environment.kwargs", {"gravity": -5}),
  ("--config.evaluation.environment.kwargs.gravity=-5",
   "environment.kwargs", {}),
  ("--config.evaluation.environment.time_limit=7",
   "evaluation.environment.time_limit", 7),
  # A preset's arguments can be removed, wherever the flag is.
  ("--config=sac:lunarlander --config.environment.kwargs.a=0.1 "
   "--config.environment.kwargs={}", "environment.kwargs", {"a": 0.1}),
  ("--config=dqn:pong --config.environment.kwargs.repeat_action_probability=1",
   "environment.kwargs.repeat_action_probability", 1.0),
  # The config's flag may follow those of its overrides.
  ("--config.seed=9 --config=dqn:pong", "environment.game", "Pong"),
  ("--config.replay.capacity=9 --config=dqn:pong", "replay.capacity", 9),
  ("-config dqn:lunarlander", "environment.name", "LunarLander-v3"),
  # Without the override, the field's value is out of range.
  ("--config=bc --config.dataset.path=episodes/a", "dataset.path",
   "episodes/a"),
  ("", "mode", "sync"),
  ("", "environment.name", "CartPole-v1"),
  ("--config.learner.epochs=9", "learner.epochs", 9),
  # The config of a named environment expects nothing of it.
  ("--config.environment.name=Pendulum-v1", "normalization.observations", True),
  ("--config.environment.name Pendulum-v1", "normalization.observations", True),
  # Its actions choose the algorithm.
  ("--config.environment.name=Pendulum-v1", "agent", "actor_critic"),
  ("--config.environment.name=Acrobot-v1", "agent", "policy_gradient"),
  ("--config.environment.name=tests.environments.shaped:Shaped-v0 "
   "--config.environment.kwargs.action=multi_discrete", "agent",
   "policy_gradient"),
  ("--config.environment.name=Pendulum-v1 --config.learner.tau=0.5",
   "learner.tau", 0.5),
  ("--config=ppo:generic --config.environment.name=Pendulum-v1", "agent",
   "policy_gradient"),
  ("--config=ppo:generic --config.environment.name=Acrobot-v1",
   "limits.target_return", -100.0),
  ("--mode=single", "mode", "single"),
  ("--mode sync --launch=local_mt", "mode", "sync"),
  # Another environment than the preset's has a target of its own.
  ("--config.environment.name=CartPole-v1", "limits.target_return", 475.0),
  ("--config.environment.name=Acrobot-v1", "limits.target_return", -100.0),
  ("--config=sac:pendulum --config.environment.name=HalfCheetah-v5",
   "limits.target_return", 4800.0),
  ("--config=sac:pendulum --config.environment.name=Humanoid-v5",
   "limits.target_return", math.inf),
  ("--config=dqn:pong --config.environment.game=Breakout",
   "limits.target_return", math.inf),
  # ... and a preset's support of returns is for its environment.
  ("--config=c51:lunarlander --config.environment.name=Acrobot-v1",
   "network.lowest_return", -math.inf),
  ("--config=d4pg:pendulum --config.environment.name=HalfCheetah-v5",
   "network.highest_return", math.inf),
  ("--config=c51:lunarlander --config.environment.name=Acrobot-v1 "
   "--config.network.lowest_return=-9", "network.highest_return", 300.0),
  ("--config=c51:lunarlander --config.environment.kwargs.gravity=-9.0",
   "network.highest_return", 300.0),
  ("--config=c51:atari57 --config.environment.name=ALE/Breakout-v5",
   "network.highest_return", 10.0),
  ("--config.environment.name=Acrobot-v1 --config.limits.target_return=-90",
   "limits.target_return", -90.0),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "field", "value"), ACCEPTED)
def test_flags_that_are_accepted(arguments, field, value):
  found = value_of(parse(*shlex.split(arguments)).config, field)
  assert found == value
  assert type(found) is type(value)


# arguments, and a part of the error
REJECTED = [
  ("--config.learner.epocs=1", "=1: the config has no field"),
  ("--config.learner.epocs=1", "did you mean --config.learner.epochs?"),
  ("--config.learner.colour=1", "the fields of --config.learner are "),
  ("--config.colour=1", "`slipway train --config=FILE --help` shows all"),
  ("--config.epochs=1", "--config.learner.epochs?"),
  ("--noconfig.topology.prox", "--config.topology.proxy?"),
  ("--config.replay=1", "give one of the section's fields, --config.replay."),
  ("--config.learner.epochs=abc", "=abc: the field's type is int"),
  ("--config.learner.epochs=abc", "it is 20 by default"),
  ("--config.learner.epochs=1.5", "--config.learner.epochs=1.5: the"),
  ("--config.learner.epochs", "--config.learner.epochs has no value"),
  ("--noconfig.learner.epochs", "give --config.learner.epochs=VALUE"),
  ("--noconfig.environment.name=a", "give --config.environment.name=VALUE"),
  ("--config.topology.proxy=maybe", "=maybe: the field's type is bool"),
  ("--config.topology.proxy maybe", "=maybe: the field's type is bool"),
  ("--config.network.hidden_sizes=(a,)", "tuple of int (separated by commas)"),
  ("--config.network.hidden_sizes=(8.5,)", "(64, 64) by default"),
  ("--config.environment.wrappers=(3,)", "tuple of str"),
  ("--config.hooks='(1, 2)'", "--config.hooks=(1, 2): the field's type is"),
  ("--config.hooks", "--config.hooks has no value"),
  ("--config.environment.kwargs.gravity", "kwargs.gravity=VALUE"),
  ("--config.environment.kwargs=1", "kwargs.NAME=VALUE"),
  ("--config.evaluation.environment.kwargs=1",
   "--config.evaluation.environment.kwargs.NAME=VALUE"),
  ("--config.environment.kwargs.a-b=1", "can't be the environment's argument"),
  ("--config=dqn:pong --config.environment.kwargs.frameskip=often",
   "frameskip=often: the field's type is int"),
  ("--config.mode=single", "--config.mode=single: only --mode sets"),
  ("--config.mode sync", "give --mode=VALUE"),
  ("--noconfig.mode", "give --mode=VALUE"),
  ("--config.environment.game=Pong", "'CartPole-v1', so it would have no"),
  ("--config.environment_name=A", "mean --config.environment.name?"),
  ("--config.environment.action-mask=1", "--config.environment.action_mask?"),
  ("--config.learner.lr=2", "did you mean --config.learner.learning_rate?"),
  # A bonus has a step size, too.
  ("--config.learning_rate=2", "mean --config.learner.learning_rate?"),
  ("--config.gamma=2", "did you mean --config.adder.discount?"),
  ("--seed=2", "did you mean --config.seed?"),
  ("--lr=2", "did you mean --config.learner.learning_rate?"),
  ("--learner.lr=2", "did you mean --config.learner.learning_rate?"),
  ("--gamma=2", "did you mean --config.adder.discount?"),
  ("--env=A", "did you mean --config.environment.name?"),
  ("--total-timesteps=9", "mean --config.limits.environment_steps?"),
  ("--batch=9", "did you mean --config.learner.batch_size?"),
  ("--epochs=9", "did you mean --config.learner.epochs?"),
  ("--algo=dqn", "did you mean --config?"),
  ("--wandb", "did you mean --config.hooks?"),
  ("--nme=x", "--nme is no flag, so it would do nothing: did you mean --name?"),
  ("--runs=x", "did you mean --run_dir?"),
  ("--run=runs/a", "did you mean --resume?"),
  ("--zzz=2", "`train --help` shows all flags"),
  ("--launch=x", "--launch=x is none of local_mp, local_mt, ray: give one"),
  ("--launch=local_p", "did you mean local_mp?"),
  ("--mode=singel", "did you mean single?"),
  ("--overwrite=perhaps", "give --overwrite or --nooverwrite"),
  ("--name", "--name has no value"),
  ("--insecure", "--insecure is for --launch=ray, and with --launch=local_mp"),
  ("--mode=single --launch=local_mt", "--launch=local_mt places nodes"),
  ("--config.evaluation.period_steps=9",
   "period_steps has no effect in mode 'sync': leave it out, or give "
   "--mode=single"),
  ("--mode=single --config.evaluation.period_s=9", "=async or --mode=sync"),
  ("--config=dqn:cartpole --mode=async --config.sync.environment_steps=9",
   "give --mode=sync"),
  ("--trust", "--trust is for --resume"),
  ("--config.environment.name=Acrobot-v1 --config.learner.tau=0.5",
   "the config is ppo:generic, because none was given"),
  ("--config.environment.name=Pendulum-v1 --config.learner.gae_lambda=0.5",
   "the config is sac:generic, because none was given"),
  ("--config.environment.name=Pendulum-v1 --config.environment.game=Pong",
   "'Pendulum-v1', so it would have no"),
  ("--config=nope", "--config=nope can't be read"),
  ("--config=configs", "--config=configs can't be read"),
  ("--config=", "--config has no value"),
  ("--config", "--config has no value"),
  ("--config=dqn --config=ppo", "--config is given twice, and 'dqn' would"),
  ("--resume=", "--resume has no value"),
  ("--config=dqn:cartpol", "'cartpol' is unknown"),
  ("--config=dqn:CartPole-v1", "mean cartpole?"),
  ("--config=DQN-CartPole", "=DQN-CartPole can't be read"),
  ("--config=dqn/cartpole", "mean dqn:cartpole?"),
  ("--config=own/dqn.py", "there is no file 'own/dqn.py'"),
  ("cartpole", "'cartpole' is no flag, so it would do nothing: flags start"),
  ("config.seed=3", "did you mean --config.seed=3?"),
  ("dqn:pong", "did you mean --config=dqn:pong?"),
  ("\u2014name=x", "mean --name=x?"),
  ("--flagfile=absent", "a flag file can't be used"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "part"), REJECTED)
def test_flags_that_are_rejected_with_one_line(arguments, part):
  check_rejected(shlex.split(arguments), part)


def check_rejected(arguments, *parts):
  with errors.one_line(*parts):
    flags, config = parse(*arguments)
    run_check.check(config, flags.launch)


# text of a file, part of the error
NO_CONFIGS = [
  ("", "is no config"),
  ("def get_config(preset): pass", "preset"),
  ("def get_config(): pass", "None"),
]


@pytest.mark.parametrize(("text", "part"), NO_CONFIGS)
def test_a_file_that_is_no_config(text, part, tmp_path):
  path = tmp_path / "own.py"
  path.write_text(text)
  check_rejected([f"--config={path}"], f"--config={path} is no config", part)


# text of a file, number of the line that fails, its error
FAILING = [
  ("import sys\nsys.exit(0)", 2, "SystemExit: 0"),
  ("\nimport absent_package", 2, "No module named 'absent_package'"),
  ("def get_config():\n  return 1 / 0", 2, "ZeroDivisionError: division by"),
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


# change of a file's config, part of the error
CHANGES = [
  ("c.learner.batch_sise = 3", "learner.batch_sise is no field"),
  ("c.colours = 3", "config.colours is no field"),
  ("del c.replay['capacity']", "config.replay.capacity is missing"),
  ("del c['mode']", "config.mode is missing"),
  ("del c['environment']", "own.py: config.environment.name is missing"),
  ("del c['agent']", "config.agent=None must be of type str"),
  ("c.agent = 'dqnn'", "config.agent='dqnn'"),
  ("c.learner.batch_size = 0", "config.learner.batch_size=0 must be"),
  ("with c.ignore_type(): c.seed = 'one'", "seed='one' must be of type int"),
]


@pytest.mark.parametrize(("change", "part"), CHANGES)
def test_a_file_with_other_fields(tmp_path, change, part):
  path = tmp_path / "own.py"
  path.write_text(f"""
from slipway.configs import dqn
from tests.launch import errors

def get_config(preset='cartpole'):
  c = dqn.get_config(preset)
  {change}
  return c
""")
  check_rejected([f"--config={path}"], part)


@pytest.mark.parametrize(
  ("arguments", "name"),
  [
    ((), "ppo_cartpole"),
    (("--config=dqn:pong",), "dqn_pong"),
    (("--config=dqn",), "dqn"),
    (("--config.environment.name=Acrobot-v1",), "ppo_acrobot_v1"),
    (("--config.environment.name=Pendulum-v1",), "sac_pendulum_v1"),
    (("--config=dqn:atari57", "--config.environment.game=Qbert"), "dqn_qbert"),
  ],
)
def test_a_run_is_named_after_algorithm_and_task(arguments, name):
  made = parse(*arguments).flags.name
  assert made.rpartition("-")[0].rpartition("-")[0] == name
  assert parse("--name=mine", *arguments).flags.name == "mine"


@pytest.mark.parametrize("argument", ["--help", "-h", "--helpfull"])
def test_the_help_has_all_flags_and_fields(argument, capsys):
  with pytest.raises(SystemExit) as caught:
    parse("--nme=x", "--mode=x", "--config=rainbow:pong", argument)
  assert caught.value.code == 0
  printed = capsys.readouterr().out
  assert printed.startswith("Trains.\n")
  for flag in ("--config:", "--name:", "--run_dir:", "--mode:", "--flagfile:"):
    assert flag in printed
  for name, field in value.FIELDS.items():
    assert name in printed
    assert " ".join(field.meaning.split()) in " ".join(printed.split())
  assert "--config.network.atoms=51\n" in printed


def test_the_help_on_a_named_environment_does_not_make_it(capsys):
  with pytest.raises(SystemExit):
    parse("--config.environment.name=absent:Absent-v0", "--help")
  assert "Fields of --config=ppo:generic:" in capsys.readouterr().out


@pytest.mark.parametrize(
  ("flags", "config"),
  [
    (["--config.environment.name=Pendulum-v1"], "sac:generic"),
    (["--config.environment.name=CartPole-v1"], "ppo:generic"),
    (["--config.environment.name=CartPole-v1", "--config=ppo:generic"], None),
    ([], None),
  ],
)
def test_a_config_that_the_environment_chose_is_reported(flags, config):
  """The environment is made once for the choice and the checks."""
  made = []

  def make_spec(section):
    made.append(section.name)
    return factory.make_spec(section)

  make_spec = environment_check.remember(make_spec)
  command = train_flags.parse(["train", *flags], "", make_spec)
  run_check.check(command.config, command.flags.launch, make_spec)
  assert len(made) == 1
  assert command.notice.count("\n") == 0
  assert command.notice.startswith(f"config: {config}, " if config else "")
  assert bool(command.notice) == bool(config)


def test_an_unknown_field_is_rejected_before_the_environment_is_made():
  with errors.one_line("config has no field 'learner.lr'"):
    parse("--config.environment.name=absent:Absent-v0", "--config.learner.lr=1")


@pytest.fixture
def run(tmp_path):
  """Returns the folder of a run whose config differs from all config files."""
  folder = run_folder.RunFolder.create(tmp_path, "a-run", overwrite=False)
  changes = (
    *("--config.learner.epochs=7_777", "--config.network.hidden_sizes=8"),
    *("--config.environment.kwargs.gravity=9.5", "--mode=sync"),
  )
  folder.write_config(parse(*changes).config)
  return folder.path


RESUMED = [
  ("", "learner.epochs", 7_777),
  ("", "network.hidden_sizes", (8,)),
  ("", "limits.target_return", 475.0),
  ("", "mode", "sync"),
  ("--mode=async", "mode", "async"),
  ("--config.learner.epochs=9_999", "learner.epochs", 9_999),
  ("--config.limits.target_return inf", "limits.target_return", math.inf),
  ("--config.network.hidden_sizes=8,4", "network.hidden_sizes", (8, 4)),
  ("--noconfig.topology.proxy", "topology.proxy", False),
  ("--config.environment.kwargs.gravity=9", "environment.kwargs.gravity", 9.0),
]


@pytest.mark.parametrize(("arguments", "field", "value"), RESUMED)
def test_a_resumed_run_keeps_its_config(run, arguments, field, value):
  parsed = parse(*shlex.split(arguments), "--resume", str(run))
  assert parsed.flags.resume == str(run)
  found = value_of(parsed.config, field)
  assert found == value
  assert type(found) is type(value)


RESUME_REJECTED = [
  ("--config=dqn", "change its fields one by one, --config.FIELD=VALUE"),
  ("--config dqn", "--config is for a new run"),
  ("--name=x", "--name is for a new run"),
  ("--run_dir=runs", "--run_dir is for a new run"),
  ("--nooverwrite", "--overwrite is for a new run"),
  ("--config.learner.epocs=1", "did you mean --config.learner.epochs?"),
  ("--config.learner.epochs=x", "7777 by default"),
  ("--config.environment.kwargs.gravity=low", "float, so this value can't"),
  ("--config.mode=async", "--mode=VALUE"),
  ("--mode=single --launch=local_mp", "--launch=local_mp"),
]


@pytest.mark.parametrize(("arguments", "part"), RESUME_REJECTED)
def test_flags_that_a_resume_rejects(run, arguments, part):
  check_rejected([f"--resume={run}", *shlex.split(arguments)], part)


@pytest.mark.parametrize("name", ["frist", "a-run/snapshots"])
def test_no_such_run_to_resume(run, name):
  near = [str(run)] if name == "a-run/snapshots" else []
  check_rejected([f"--resume={run.parent / name}"], "is not a run", *near)
