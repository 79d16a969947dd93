"""The command `slipway`."""

import json
import os
import subprocess
import sys

import pytest

import slipway
from slipway.configs import dqn
from slipway.launch.commands import cli
from slipway.launch.runs import run_folder


@pytest.mark.parametrize("arguments", [[], ["--help"], ["help"]])
def test_help_opens_with_examples(arguments, capsys):
  assert cli.run(["slipway", *arguments]) == 0
  out = capsys.readouterr().out
  for word in ("train", "evaluate", "control", "list", "config"):
    assert f"  {word} " in out
  assert out.index("slipway train --config=") < out.index("commands")


@pytest.mark.parametrize(
  ("word", "advice"),
  [
    ("trian", "did you mean train?"),
    ("fly", "are train"),
    ("eval", "slipway evaluate --run="),
    ("status", "slipway control --run="),
    ("export", ".export("),
  ],
)
def test_an_unknown_command_prints_one_line(word, advice, capsys):
  assert cli.run(["slipway", word]) == 2
  err = capsys.readouterr().err
  assert advice in err
  assert err.count("\n") == 1


@pytest.mark.parametrize("content", [None, b"\x8c"])
def test_a_flag_file_that_cannot_be_read_prints_one_line(
  tmp_path, content, capsys
):
  path = tmp_path / "flags"
  if content:
    path.write_bytes(content)
  for command in ("train", "evaluate", "sweep", "list"):
    assert cli.run(["slipway", command, f"--flagfile={path}"]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"{command}: a flag file can't be used")
    assert err.count("\n") == 1


def test_all_flags_may_be_in_a_flag_file(tmp_path):
  path = tmp_path / "flags"
  path.write_text(
    "# What is trained.\n--config=ppo:cartpole\n--mode=single\n--name=a\n"
    "--config.limits.environment_steps=100\n"
  )
  command = [sys.executable, "-m", "slipway.launch.commands.cli", "train"]
  command += [f"--run_dir={tmp_path}", "--flagfile", path]
  done = subprocess.run(command, capture_output=True, text=True)
  assert done.returncode == 0, done.stderr
  config = json.loads((tmp_path / "a" / "config.json").read_text())
  assert (config["agent"], config["mode"]) == ("policy_gradient", "single")


def test_the_version(capsys):
  assert cli.run(["slipway", "--version"]) == 0
  assert capsys.readouterr().out == f"{slipway.__version__}\n"


def test_config_shows_each_field(capsys):
  assert cli.run(["slipway", "config", "sac:pendulum"]) == 0
  out = capsys.readouterr().out
  assert "--config.learner.learning_rate=" in out
  assert "--config.variables.max_age" not in out  # a field of other algorithms


@pytest.mark.parametrize(
  ("arguments", "value"),
  [
    ([], "0 configs"),
    (["dqn", "ppo"], "2 configs"),
    (["dqn", "--config.seed=3"], "--config.seed=3"),
    (["--conifg=dqn"], "--conifg=dqn"),
  ],
)
def test_config_rejects_other_arguments(arguments, value, capsys):
  assert cli.run(["slipway", "config", *arguments]) == 2
  out, err = capsys.readouterr()
  assert value in err and err.count("\n") == 1 and not out


@pytest.mark.parametrize("command", ["train", "list", "plot"])
def test_a_deleted_working_directory_prints_one_line(
  command, tmp_path, monkeypatch, capsys
):
  folder = tmp_path / "deleted"
  folder.mkdir()
  monkeypatch.chdir(folder)
  folder.rmdir()
  assert cli.run(["slipway", command]) == 2
  line = capsys.readouterr().err
  assert line.startswith(f"{command}: the working directory can't be used")
  assert line.count("\n") == 1


@pytest.mark.parametrize("name", ["sac:pendulm", "sacc"])
def test_config_of_an_unknown_name_prints_one_line(name, capsys):
  assert cli.run(["slipway", "config", name]) == 2
  assert capsys.readouterr().err.count("\n") == 1


def test_a_reader_of_the_output_may_close_it():
  closed, output = os.pipe()
  os.close(closed)
  command = [sys.executable, "-m", "slipway.launch.commands.cli", "list"]
  done = subprocess.run(command, stdout=output, stderr=subprocess.PIPE)
  os.close(output)
  assert (done.returncode, done.stderr) == (1, b"")


def test_a_closed_standard_output_is_no_error():
  command = f"{sys.executable} -m slipway.launch.commands.cli config dqn >&-"
  done = subprocess.run(command, shell=True, stderr=subprocess.PIPE)
  assert (done.returncode, done.stderr) == (0, b"")


# Imports as root, because another user may have no access to the interpreter.
_OTHER_USER = """
import os, sys
from slipway.launch.commands import control, plot
if os.getuid() == 0:
  os.setuid(65_534)
print(control.main(["control", f"--run={sys.argv[1]}", "status"]))
print(plot.main(["plot", sys.argv[1]]))
"""


def test_a_run_of_another_user_prints_one_line(tmp_path):
  folder = run_folder.RunFolder.create(tmp_path, "a-run", overwrite=False)
  folder.write_config(dqn.get_config())
  folder.path.chmod(0)
  done = subprocess.run(
    [sys.executable, "-c", _OTHER_USER, folder.path],
    capture_output=True,
    text=True,
  )
  assert done.stdout.split() == ["2", "2"], done.stderr
  control_line, plot_line = done.stderr.splitlines()
  for line in (control_line, plot_line):
    assert f"{str(folder.path)!r} can't be read" in line


def test_the_package_imports_nothing_heavy():
  script = (
    "import sys, slipway, slipway.launch.commands.cli\n"
    "heavy = {'numpy', 'absl', 'tensorflow', 'reverb', 'gymnasium'}\n"
    "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
  )
  subprocess.run([sys.executable, "-c", script], check=True)
