"""Tests of the evaluator: whole evaluations of one version, in this process."""

import math
import pickle

import pytest
from gymnasium.envs.classic_control import cartpole

from slipway.environments import context, user_code
from slipway.launch.control import messages
from slipway.launch.nodes import evaluator as evaluator_lib
from tests.launch.nodes import local_run


class Informed(cartpole.CartPoleEnv):
  """CartPole with a number in all infos, and one in those of environment 0."""

  def __init__(self):
    super().__init__()
    index = context.environment_context().index
    self._info = {"always": True} | ({"seldom": 1.0} if index == 0 else {})

  def step(self, action):
    return *super().step(action)[:4], self._info


class Evaluated:
  """An evaluator and its control, with the results of its evaluations."""

  def __init__(self, path, episodes=3, restarts=0, epsilon=0.0, target_info=""):
    self.results = []
    self.best_return = math.inf
    config = local_run.make_config()
    config.evaluation.episodes = episodes
    config.exploration.evaluation_epsilon = epsilon
    if target_info:
      config.environment.name = f"{__name__}:Informed"
      config.limits.target_info = target_info
    run = local_run.LocalRun(config)
    run.publish()
    self.snapshot = run.variables.newest
    self.evaluator = evaluator_lib.Evaluator(
      *(config, run.spec, run.builder),
      *(self, path / "best.npz", restarts),
      savable=True,
    )

  def evaluated(self, evaluation):
    self.results.append(evaluation)
    return messages.EvaluationReply(best_return=self.best_return)

  def play(self, steps=None):
    """Evaluates the snapshot, and returns the episodes.

    Args:
      steps: steps after which the evaluation is stopped; None: never.
    """
    left = iter([False] * (steps or 0) + [True])
    stopping = (lambda: False) if steps is None else (lambda: next(left))
    return self.evaluator.evaluate(self.snapshot, stopping)


@pytest.fixture
def make(tmp_path):
  made = []

  def make(**settings):
    made.append(Evaluated(tmp_path, **settings))
    return made[-1]

  yield make
  for evaluated in made:
    evaluated.evaluator.close()


def test_an_environment_of_other_spaces_than_the_runs_is_rejected():
  run = local_run.LocalRun(local_run.make_config())
  run.config.environment.name = "MountainCar-v0"
  with pytest.raises(user_code.UserCodeError) as caught:
    evaluator_lib.Evaluator(run.config, run.spec, run.builder, None, None)
  assert caught.value.line.startswith(
    "environment MountainCar-v0: observations"
  )
  assert "\n" not in caught.value.line


def test_a_result_has_its_episodes_and_its_variables(make):
  evaluated = make()
  played = evaluated.play()
  (result,) = evaluated.results
  assert result.returns == played.returns
  assert len(result.returns) == 3
  assert result.returns == result.lengths  # CartPole: reward 1 per step
  assert result.variables_version == 1


def test_an_evaluation_that_may_be_the_best_is_repeated(make):
  evaluated = make()
  for _ in range(2):
    evaluated.play()
    evaluated.best_return = 1.0
  evaluated.play()
  # The first evaluation is compared with no best return, the second with inf,
  # and the third with 1.
  assert [len(result.repeated) for result in evaluated.results] == [3, 0, 3]
  for result in evaluated.results:
    assert result.returns != result.repeated


@pytest.mark.parametrize("epsilon", [0.0, 0.5])
def test_a_stopped_evaluation_is_repeated_from_its_start(make, epsilon):
  whole, stopped = make(epsilon=epsilon), make(epsilon=epsilon)
  first, expected = whole.play(), whole.play()
  assert stopped.play() == first != expected
  assert stopped.play(steps=5) is None
  assert len(stopped.results) == 1
  assert stopped.play() == expected


def test_a_state_continues_bit_identically(make):
  first, second = make(), make()
  first.play()
  state = pickle.loads(pickle.dumps(first.evaluator.get_state()))
  second.evaluator.set_state(state)
  assert second.play() == first.play()


def test_a_state_with_another_number_of_episodes_uses_new_environments(make):
  first, second, fresh = make(), make(episodes=5), make(episodes=5)
  first.play()
  second.evaluator.set_state(first.evaluator.get_state())
  assert second.play() == fresh.play()
  assert len(second.results[0].returns) == 5


def test_another_incarnation_plays_other_episodes(make):
  first, again, later = make(), make(), make(restarts=1)
  assert first.play() == again.play() != later.play()


def test_a_target_of_infos_needs_its_number_in_each_episode(make):
  always, seldom = make(target_info="always:1"), make(target_info="seldom:1")
  assert always.play().mean_info == {"always": 1.0}
  assert seldom.play().mean_info == {}
