"""Tests of hooks: checks, calls, and the records of the built-in hooks."""

import importlib.util
import sys
import threading

import pytest

from slipway.configs import dqn
from slipway.environments import user_code
from slipway.launch.hooks import caller, catalog
from slipway.launch.runs import run_status

MODULE = """
import threading
calls, release = [], threading.Event()
not_callable = 3
def notify(event):
  calls.append((event.name, event.status.env_steps, threading.get_ident()))
def fail(event):
  calls.append(event.name)
  raise ValueError("boom")
def stop(event):
  event.stop("seen enough")
def leave(event):
  raise SystemExit(3)
def wait(event):
  release.wait(30)
  calls.append(event.status.env_steps)
def without_argument():
  pass
class Logger:
  def __call__(self, event):
    calls.append((self, event.metrics["evaluation/mean_return"],
                  event.hyperparameters["seed"], event.folder))
class NoCall:
  pass
class NeedsArgument:
  def __init__(self, path):
    pass
  def __call__(self, event):
    pass
"""


@pytest.fixture
def mine(tmp_path, monkeypatch):
  """Yields a user's module with several hooks."""
  (tmp_path / "my_hooks.py").write_text(MODULE)
  (tmp_path / "broken_hooks.py").write_text("import my_hooks\n1 / 0\n")
  monkeypatch.syspath_prepend(tmp_path)
  yield importlib.import_module("my_hooks")
  sys.modules.pop("my_hooks")


def status_at(env_steps, count=0, mean_return=None, **fields):
  evaluation = run_status.EvaluationStatus(count, mean_return, 20)
  return run_status.RunStatus(
    env_steps=env_steps, evaluation=evaluation, **fields
  )


def make_caller(path, *hooks):
  config = dqn.get_config()
  config.hooks = hooks
  return caller.Caller(config, path)


# name of a hook, pattern that the error must match
REJECTED = [
  (
    "wanbd",
    "'wanbd', which is no built-in hook, so nothing would be called: did you",
  ),
  ("", "use one of wandb, mlflow"),
  ("no_such_module:f", "ModuleNotFoundError"),
  ("my_hooks:no_such", "AttributeError"),
  ("my_hooks:not_callable", "int, which can't be called"),
  ("my_hooks:NoCall", "can't be called"),
  ("my_hooks:NeedsArgument", "with one argument"),
  ("my_hooks:without_argument", "with one argument"),
]


@pytest.mark.parametrize(("name", "pattern"), REJECTED)
@pytest.mark.usefixtures("mine")
def test_hooks_that_are_rejected_with_one_line(name, pattern):
  with pytest.raises(ValueError, match=pattern) as caught:
    catalog.check([name])
  assert f"config.hooks has {name!r}" in str(caught.value)
  assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("mine")
def test_a_hook_is_named_once():
  with pytest.raises(ValueError, match="twice"):
    catalog.check(["my_hooks:notify", "my_hooks:notify"])


def test_hooks_take_a_config_with_dicts_in_lists(tmp_path):
  config = dqn.get_config()
  with config.unlocked():
    config.environment.kwargs.levels = [{"size": 1}]
  hooks = caller.Caller(config, tmp_path)
  hooks.close(lambda: status_at(0))


@pytest.mark.parametrize("name", ["wandb", "mlflow"])
def test_a_package_that_is_missing_is_named(name, monkeypatch):
  monkeypatch.setattr(importlib.util, "find_spec", lambda package: None)
  with pytest.raises(ValueError, match=f"run `pip install '?{name}"):
    catalog.check([name])


@pytest.mark.usefixtures("mine")
def test_the_frames_of_a_module_that_fails_are_shown():
  with pytest.raises(user_code.UserCodeError) as caught:
    catalog.check(["broken_hooks:f"])
  assert "ZeroDivisionError" in caught.value.line
  assert "broken_hooks.py" in caught.value.traceback


def test_a_function_is_called_in_its_own_thread(mine, tmp_path):
  catalog.check(["my_hooks:notify"])
  hooks = make_caller(tmp_path, "my_hooks:notify")
  for steps, name in enumerate(("start", "evaluation", "snapshot")):
    hooks.send(name, lambda steps=steps: status_at(steps))
  hooks.close(lambda: status_at(3))
  names = ["start", "evaluation", "snapshot", "end"]
  assert [call[:2] for call in mine.calls] == [
    (name, steps) for steps, name in enumerate(names)
  ]
  assert threading.get_ident() not in {call[2] for call in mine.calls}
  assert not hooks.failed


def test_a_class_is_made_once(mine, tmp_path):
  hooks = make_caller(tmp_path, "my_hooks:Logger")
  hooks.send("start", lambda: status_at(0, 1, 2.5))
  hooks.close(lambda: status_at(0, 1, 3.5))
  (first, *received), (second, *received_at_the_end) = mine.calls
  assert first is second
  assert received == [2.5, 1, tmp_path]
  assert received_at_the_end == [3.5, 1, tmp_path]


@pytest.mark.parametrize(
  ("name", "error"), [("fail", "ValueError: boom"), ("leave", "SystemExit: 3")]
)
def test_a_failing_hook_does_not_stop_the_others(
  mine, tmp_path, caplog, name, error
):
  hooks = make_caller(tmp_path, f"my_hooks:{name}", "my_hooks:notify")
  for _ in range(3):
    hooks.send("evaluation", lambda: status_at(0))
  hooks.close(lambda: status_at(0))
  assert hooks.failed == {f"my_hooks:{name}": error}
  assert mine.calls.count("evaluation") <= 1  # not called again
  assert len([call for call in mine.calls if isinstance(call, tuple)]) == 4
  (logged,) = caplog.messages  # the error is logged once
  assert error in logged
  assert "my_hooks.py" in logged and "caller.py" not in logged


def test_a_slow_hook_misses_the_oldest_events(mine, tmp_path, caplog):
  hooks = make_caller(tmp_path, "my_hooks:wait")
  for steps in range(500):
    hooks.send("evaluation", lambda steps=steps: status_at(steps))
  mine.release.set()
  hooks.close(lambda: status_at(500))
  assert len(mine.calls) < 100
  assert mine.calls[-10:] == list(range(491, 501))
  assert len(caplog.messages) == 1


def test_without_hooks_no_status_is_made(tmp_path):
  hooks, made = make_caller(tmp_path), []
  hooks.send("start", lambda: made.append("start"))
  hooks.close(lambda: made.append("end"))
  assert not made


def play(path, *hooks, resumes=0):
  """Sends the events of a short run to hooks."""
  called = make_caller(path, *hooks)
  called.send("start", lambda: status_at(0, name="a-run", resumes=resumes))
  for count in (1, 2):
    called.send(
      "evaluation",
      lambda count=count: status_at(10 * count, count, 1.5, name="a-run"),
    )
  called.close(lambda: status_at(20, 2, 1.5, stopped_because="SIGINT"))
  assert not called.failed


def test_mlflow_in_a_folder(tmp_path, monkeypatch):
  mlflow = pytest.importorskip("mlflow")
  monkeypatch.setenv("MLFLOW_TRACKING_URI", f"file://{tmp_path / 'store'}")
  monkeypatch.delenv("MLFLOW_EXPERIMENT_NAME", raising=False)
  catalog.check(["mlflow"])
  for resumes in (0, 1):  # both write to the same run of MLflow
    play(tmp_path, "mlflow", resumes=resumes)
  client = mlflow.MlflowClient()
  experiment = client.get_experiment_by_name("slipway")
  (run,) = client.search_runs([experiment.experiment_id])
  assert run.info.run_name == "a-run"
  assert run.info.status == "FINISHED"
  assert run.data.params["agent"] == "dqn"
  assert run.data.params["network.hidden_sizes"] == "(64, 64)"
  assert run.data.tags["stopped_because"] == "SIGINT"
  history = client.get_metric_history(run.info.run_id, "evaluation/mean_return")
  assert {(one.step, one.value) for one in history} == {(10, 1.5), (20, 1.5)}


def test_wandb_offline(tmp_path, monkeypatch):
  pytest.importorskip("wandb")
  monkeypatch.setenv("WANDB_MODE", "offline")
  catalog.check(["wandb"])
  play(tmp_path, "wandb")
  (folder,) = (tmp_path / "wandb").glob("offline-run-*")
  run_id = (tmp_path / "wandb_run_id").read_text()
  record = (folder / f"run-{run_id}.wandb").read_bytes()
  for word in (b"a-run", b"evaluation/mean_return", b"hidden_sizes", b"SIGINT"):
    assert word in record


def test_a_hook_stops_the_run(mine, tmp_path):
  hooks, reasons = make_caller(tmp_path, "my_hooks:stop"), []
  hooks.stop_run = reasons.append
  hooks.send("evaluation", lambda: status_at(7))
  hooks.close(lambda: status_at(8))
  assert reasons == 2 * ["a hook stopped it: seen enough"]
  assert not hooks.failed
