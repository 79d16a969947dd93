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
from tests.launch import errors


@pytest.mark.parametrize("arguments", [[], ["--help"], ["help"]])
def test_help_opens_with_examples(arguments, capsys):
  assert cli.run(["slipway", *arguments]) == 0
  out = capsys.readouterr().out
  for word in ("train", "evaluate", "control", "list", "config"):
    assert f"  {word} " in out
  assert out.index("slipway train --config=") < out.index("commands")


@pytest.mark.parametrize(
  ("words", "part"),
  [
    ("trian", "did you mean train?"),
    ("fly", "are train"),
    ("eval", "slipway evaluate --run="),
    ("status", "slipway control --run="),
    ("config", "0 configs"),
    ("config dqn ppo", "2 configs"),
    ("config dqn --config.seed=3", "--config.seed=3"),
    ("config --conifg=dqn", "did you mean --config?"),
    ("config sac:pendulm", "'pendulm' is unknown"),
    ("config sacc", "--config=sacc can't be read"),
  ],
)
def test_a_wrong_command_prints_one_line(words, part, capsys):
  assert cli.run(["slipway", *words.split()]) == 2
  errors.check_printed(capsys, part)


@pytest.mark.parametrize("content", [None, b"\x8c"])
def test_a_flag_file_that_cannot_be_read_prints_one_line(
  tmp_path, content, capsys
):
  path = tmp_path / "flags"
  if content:
    path.write_bytes(content)
  for command in ("train", "evaluate", "sweep", "list"):
    assert cli.run(["slipway", command, f"--flagfile={path}"]) == 2
    errors.check_printed(capsys, f"{command}: a flag file can't be used")


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


@pytest.mark.parametrize("command", ["train", "list", "plot"])
def test_a_deleted_working_directory_prints_one_line(
  command, tmp_path, monkeypatch, capsys
):
  folder = tmp_path / "deleted"
  folder.mkdir()
  monkeypatch.chdir(folder)
  folder.rmdir()
  assert cli.run(["slipway", command]) == 2
  errors.check_printed(capsys, f"{command}: the working directory can't be")


def list_configs(folder):
  """Runs `slipway list` in a folder, in a process of its own."""
  # With -P, like the installed program, whose own folder is not this one.
  command = [sys.executable, "-P", "-m", "slipway.launch.commands.cli", "list"]
  return subprocess.run(command, cwd=folder, capture_output=True, text=True)


@pytest.mark.parametrize("name", ["queue", "token", "types"])
def test_the_working_folder_hides_no_standard_module(tmp_path, name):
  (tmp_path / f"{name}.py").write_text("")
  assert list_configs(tmp_path).returncode == 0


@pytest.mark.parametrize("name", ["gymnasium", "slipway"])
def test_a_file_that_hides_a_package_is_named(tmp_path, name):
  (tmp_path / f"{name}.py").write_text("")
  done = list_configs(tmp_path)
  assert (done.returncode, done.stdout) == (2, "")
  assert f"{name}.py' hides the package {name}" in done.stderr
  assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
  ("arguments", "status"), [(["list"], 1), (["train", "--help"], 0)]
)
def test_a_reader_of_the_output_may_close_it(arguments, status):
  closed, output = os.pipe()
  os.close(closed)
  command = [sys.executable, "-m", "slipway.launch.commands.cli", *arguments]
  done = subprocess.run(command, stdout=output, stderr=subprocess.PIPE)
  os.close(output)
  assert (done.returncode, done.stderr) == (status, b"")


def test_a_closed_standard_output_is_no_error():
  command = f"{sys.executable} -m slipway.launch.commands.cli config dqn >&-"
  done = subprocess.run(command, shell=True, stderr=subprocess.PIPE)
  assert (done.returncode, done.stderr) == (0, b"")


# Imports as root, because another user may have no access to the interpreter.
_OTHER_USER = """
import os, sys
from slipway.environments import user_code
from slipway.launch.commands import cli, control, plot
os.chdir("/")
if os.getuid() == 0:
  os.setuid(65_534)
print(cli.run(["slipway", "control", f"--run={sys.argv[1]}", "status"]))
print(cli.run(["slipway", "plot", sys.argv[1]]))
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
