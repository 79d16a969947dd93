"""Tests of the configs that a training rejects before any node starts."""

import pytest
from moviepy.video.io import ffmpeg_writer

from slipway.launch.checks import run_check, train_flags
from tests.launch import errors


def check(arguments):
  flags, config = train_flags.parse(["train", *arguments.split()], "Trains.")
  run_check.check(config, flags.launch)


WORKERS = "--config.topology.workers="
MACHINES = "--launch=ray --config.topology.machines="
EVALUATED = "--config.evaluation.environment"
HOME = "--config.topology.home_workers="
SHARDS = (
  "--config=dqn:cartpole --config.replay.shards=4 "
  "--config.topology.replay=own_process "
)
# 8 environments per worker, whose rollouts the queue keeps.
PPO = "--config=configs/ppo.py:cartpole --mode=async "
NO_PERIOD = (
  "--config.evaluation.period_steps=0 --config.limits.target_return=inf "
)

RECORDED = "--config=cql:cartpole --config.dataset.path=none "

# arguments, part of the error
REJECTED = [
  ("--config=cql:cartpole --config.environment.name=",
   "name one, or give an algorithm that learns from recorded episodes alone"),
  (f"{RECORDED}--config.environment.name= --config.environment.time_limit=9",
   "time_limit=9 changes an environment"),
  (f"{RECORDED}--config.environment.name=", "which does not exist"),
  (f"{RECORDED}--config.environment.external=True "
   "--config.limits.target_return=9", "a run without an environment has none"),
  ("--config.recording.path=/proc/a", "recording.path='/proc/a' can't be"),
  ("--config.recording.share=0", "recording.share=0.0 must be above 0"),
  ("--config.recording.share=1.1", "recording.share=1.1 must be at most 1"),
  *((f"--config.topology.{field}", f"config.topology.{field.split('=')[0]}")
    for field in ("machines=3", "home_workers=1", "trainer_machine=own",
                  "trainer_gpus=1", "trainer_cpus=2", "cpus_per_worker=2")),
  ("--config.topology.machines=3", "is for --launch=ray"),
  *((f"--config.snapshot.url={url}", "snapshot.url=")
    for url in ("file://", "file:///", "file://host/x", "~/x", "/", "x/y",
                "s3://", "/a::b", "memory://a/b")),
  ("--config.replay.tolerance=999999999", "tolerance=999999999"),
  # CartPole has no masks, so its first step would raise another error.
  ("--config.environment.action_mask=True --config.environment.frame_skip=2",
   "frame_skip=2 repeats each action"),
  (f"{NO_PERIOD} --config.limits.target_return=475 --mode=single",
   "so the run would not end by it"),
  (f"{NO_PERIOD} --config.limits.evaluations_without_improvement=3 "
   "--mode=single", "so the run would not end by it"),
  (f"{NO_PERIOD} --config.limits.target_info=x:1 --mode=single",
   "so the run would not end by it"),
  ("--config.limits.target_info=x:1 --config.environment.external=True "
   f"{WORKERS}0", "of which a run with config.environment.external=True"),
  *((f"--config.limits.target_info={x}", "must be 'NAME:VALUE' with a finite")
    for x in (":1", "x:", "x:inf", "x:nan", "x:high")),
  (f"{EVALUATED}.name=Acrobot-v1", "environment with other observations than "),
  (f"{EVALUATED}.name=no:Such", "with config.evaluation.environment, config."),
  (f"{EVALUATED}.kwargs.level=3", "kwargs.level is 3, which the constructor"),
  (f"{EVALUATED}.time_limit=9 --config.environment.external=True {WORKERS}0",
   "so it would have no effect"),
  ("--config.evaluation.video_period=2 --config.environment.external=True "
   f"{WORKERS}0", "video_period=2 is for evaluations"),
  (f"{NO_PERIOD} --config.evaluation.video_period=2 --mode=single",
   "video_period=2 is for evaluations"),
  ("--config.evaluation.video_period=2 "
   "--config.environment.name=tests.environments.toys:Catch",
   "with config.evaluation.video_period=2, config.environment.name is "),
  # Each shard needs a worker; those of all machines count.
  (f"{SHARDS}{WORKERS}3", "replay.shards=4 with 3 workers"),
  (f"{SHARDS}{WORKERS}1 {MACHINES}3", "replay.shards=4 with 3 workers"),
  (f"{SHARDS}{WORKERS}1 {MACHINES}2 {HOME}1", "shards=4 with 3 workers"),
  (f"{PPO}{WORKERS}3", "config.variables.max_age=4 is below "),
  (f"{PPO}{WORKERS}3", "the rollouts of 24 environments"),
  (f"{PPO}{WORKERS}1 {MACHINES}3", "the rollouts of 24 environments"),
  (f"{PPO}{WORKERS}1 {MACHINES}2 {HOME}2", "the rollouts of 32 environments"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "part"), REJECTED)
def test_configs_that_are_rejected(arguments, part):
  with errors.one_line(part):
    check(arguments)


@pytest.mark.parametrize(
  "arguments",
  [
    f"{EVALUATED}.kwargs.sutton_barto_reward=True {EVALUATED}.time_limit=9",
    f"{EVALUATED}.name=CartPole-v0",
    f"{SHARDS}{WORKERS}4",
    f"{SHARDS}{WORKERS}0",  # external processes insert the items
    f"{SHARDS}{WORKERS}2 {MACHINES}2",
    f"{SHARDS}{WORKERS}1 --launch=ray",  # on all machines of the cluster
    f"{PPO}{WORKERS}2",
    f"{PPO}{WORKERS}1 {MACHINES}2",
    f"{PPO}{WORKERS}2 --launch=ray",
    f"{PPO}{WORKERS}4 --launch=ray --config.variables.max_age=6",
  ],
)
def test_configs_that_are_accepted(arguments):
  check(arguments)


def test_videos_need_ffmpeg(monkeypatch):
  monkeypatch.setattr(ffmpeg_writer, "FFMPEG_BINARY", "/missing/ffmpeg")
  with pytest.raises(ValueError, match=r"video_period=2, .*/missing/ffmpeg"):
    check("--config=dqn:cartpole --config.evaluation.video_period=2")
