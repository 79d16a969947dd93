"""Tests of the configs that a training rejects before any node starts."""

import pytest

from slipway.launch.checks import run_check, train_flags

SHARDS = ("--config.replay.shards=4", "--config.topology.replay=own_process")
RAY = "--launch=ray"


def check_line(*arguments):
  run_check.check(train_flags.parse(["train", *arguments], "Trains."))


def check(*arguments):
  check_line(*SHARDS, *arguments)


def workers(count):
  return f"--config.topology.workers={count}"


# arguments, number of workers that they start
REJECTED = [
  ((workers(3),), 3),
  ((workers(1), RAY, "--config.topology.machines=3"), 3),
  (
    (
      workers(1),
      RAY,
      "--config.topology.machines=2",
      "--config.topology.home_workers=1",
    ),
    3,
  ),
]


@pytest.mark.parametrize(
  "argument",
  [
    "--config.topology.machines=3",
    "--config.topology.home_workers=1",
    "--config.topology.trainer_machine=own",
    "--config.topology.trainer_gpus=1",
    "--config.topology.trainer_cpus=2",
    "--config.topology.cpus_per_worker=2",
  ],
)
def test_fields_of_a_cluster_are_rejected_without_one(argument):
  with pytest.raises(ValueError, match="is for --launch=ray") as error:
    check_line(argument)
  assert argument.removeprefix("--").partition("=")[0] in str(error.value)


@pytest.mark.parametrize(
  "url",
  ["file://", "file:///", "file://host/x", "~/x", "/", "x/y", "s3://", "/a::b"],
)
def test_a_url_that_is_no_folder_of_all_machines_is_rejected(url):
  with pytest.raises(ValueError, match=r"snapshot\.url=") as error:
    check_line(f"--config.snapshot.url={url}")
  assert "\n" not in str(error.value)


def test_a_tolerance_that_removes_the_limit_is_rejected():
  with pytest.raises(ValueError, match=r"tolerance=999999999"):
    check_line("--config.replay.tolerance=999999999")


@pytest.mark.parametrize(("arguments", "count"), REJECTED)
def test_shards_without_a_worker_are_rejected(arguments, count):
  with pytest.raises(ValueError) as error:
    check(*arguments)
  line = str(error.value)
  assert f"config.replay.shards=4 with {count} workers" in line
  assert "\n" not in line


@pytest.mark.parametrize(
  "arguments",
  [
    (workers(4),),
    (workers(0),),  # external processes insert the items
    (workers(2), RAY, "--config.topology.machines=2"),
    (workers(1), RAY),  # on all machines of the cluster
  ],
)
def test_shards_with_enough_workers(arguments):
  check(*arguments)


def test_rules_of_the_environment_section_precede_the_first_step():
  # CartPole has no masks, so its first step would raise another error.
  with pytest.raises(ValueError, match="frame_skip=2 repeats each action"):
    check_line(
      "--config.environment.action_mask=True",
      "--config.environment.frame_skip=2",
    )


@pytest.mark.parametrize(
  "limit", ["target_return=475", "evaluations_without_improvement=3"]
)
def test_limits_that_no_evaluation_could_reach(limit):
  arguments = (
    "--config.evaluation.period_steps=0",
    "--config.limits.target_return=inf",
    f"--config.limits.{limit}",
  )
  check_line(*arguments)  # other modes have a period in seconds
  with pytest.raises(ValueError, match="so the run would not end by it"):
    check_line(*arguments, "--mode=single")


ASYNC_PPO = ("--config=configs/ppo.py:cartpole", "--mode=async")

# arguments, number of environments (8 per worker)
TOO_MANY = [
  ((workers(3),), 24),
  ((workers(1), RAY, "--config.topology.machines=3"), 24),
  (
    (
      workers(1),
      RAY,
      "--config.topology.machines=2",
      "--config.topology.home_workers=2",
    ),
    32,
  ),
]


def check_queue(*arguments):
  check_line(*ASYNC_PPO, *arguments)


@pytest.mark.parametrize(("arguments", "count"), TOO_MANY)
def test_the_age_of_a_queue_counts_the_workers_of_all_machines(
  arguments, count
):
  with pytest.raises(ValueError) as error:
    check_queue(*arguments)
  line = str(error.value)
  assert "config.variables.max_age=4 is below " in line
  assert f"the rollouts of {count} environments" in line


@pytest.mark.parametrize(
  "arguments",
  [
    (workers(2),),
    (workers(1), RAY, "--config.topology.machines=2"),
    (workers(2), RAY),  # on all machines of the cluster
    (workers(4), RAY, "--config.variables.max_age=6"),
  ],
)
def test_an_age_that_a_queue_can_keep(arguments):
  check_queue(*arguments)
