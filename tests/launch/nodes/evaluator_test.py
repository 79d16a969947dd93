"""Evaluator: whole evaluations of a version, on a sink of this process."""

import math
import pickle

import pytest

from slipway.launch.nodes import evaluator as evaluator_lib
from tests.launch.nodes import local_run


class Evaluated:
  """An evaluator with the evaluations that it has handed out."""

  def __init__(self, episodes=3, restarts=0):
    self.results = []
    self.best_return = math.inf
    config = local_run.make_config()
    config.evaluation.episodes = episodes
    run = local_run.LocalRun(config)
    run.publish()
    self.snapshot = run.variables.newest
    self.evaluator = evaluator_lib.Evaluator(
      *(config, run.spec, run.builder),
      self._take,
      restarts,
      savable=True,
    )

  def _take(self, *result):
    self.results.append(result)
    return self.best_return

  def play(self, steps=None):
    """Evaluates; `steps` are those after which it is stopped."""
    left = iter([False] * (steps or 0) + [True])
    stopping = (lambda: False) if steps is None else (lambda: next(left))
    return self.evaluator.evaluate(self.snapshot, stopping)


@pytest.fixture
def make():
  made = []

  def make(**settings):
    made.append(Evaluated(**settings))
    return made[-1]

  yield make
  for evaluated in made:
    evaluated.evaluator.close()


def test_a_result_has_its_episodes_and_its_variables(make):
  evaluated = make()
  played = evaluated.play()
  ((episodes, _, snapshot),) = evaluated.results
  assert episodes == played
  assert len(episodes.returns) == 3
  assert episodes.returns == episodes.lengths  # CartPole: 1 per step
  assert snapshot.version == 1


def test_an_evaluation_that_may_be_the_best_is_repeated(make):
  evaluated = make()
  for _ in range(2):
    evaluated.play()
    evaluated.best_return = 1.0
  evaluated.play()
  # The first is compared with none, the second with inf, the third with 1.
  assert [len(repeated.returns) for _, repeated, _ in evaluated.results] == [
    *(3, 0, 3)
  ]
  for episodes, repeated, _ in evaluated.results:
    assert episodes != repeated


def test_an_evaluation_that_is_stopped_is_as_if_it_had_not_begun(make):
  whole, stopped = make(), make()
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


def test_a_state_of_another_size_starts_from_its_own_environments(make):
  first, second, fresh = make(), make(episodes=5), make(episodes=5)
  first.play()
  second.evaluator.set_state(first.evaluator.get_state())
  assert second.play() == fresh.play()
  assert len(second.results[0][0].returns) == 5


def test_another_incarnation_plays_other_episodes(make):
  first, again, later = make(), make(), make(restarts=1)
  assert first.play() == again.play() != later.play()
