"""Policy inspection: what a run's policy does in some episodes."""

import typing
from collections.abc import Iterator

import ml_collections
import msgspec
import numpy as np
from acme import specs

from slipway.agents import core, epsilon_greedy, policies, q_builder, registry
from slipway.configs import base, fields
from slipway.environments import arrays, factory, hanging, vector
from slipway.launch.checks import overrides
from slipway.launch.inspection import perturbation
from slipway.launch.nodes import evaluation
from slipway.launch.runs import recorded_spaces, run_folder, snapshot_store
from slipway.replay.items import adder

_MAX_ENVS = 8  # environments that are stepped together
_MAX_STEPS = 10_000  # environment steps after which an episode is cut off
_SEED = 3_000_000  # of the environments; differs from those of training
_BINS = 8  # bins of the calibration
_MAX_KEPT = 256  # observations that are perturbed
# Distance to a bound of continuous actions, [-1, 1], that counts as there.
_AT_BOUND = 0.01


class ActionSummary(msgspec.Struct, kw_only=True):
  """One component of the actions.

  Attributes:
    frequencies: frequency of each action; None: actions are continuous.
    entropy: entropy of the frequencies in nats.
    mean: mean of continuous actions, whose bounds are -1 and 1.
    deviation: their standard deviation.
    at_bounds: fraction of them that are at a bound.
  """

  frequencies: list[float] | None = None
  entropy: float | None = None
  mean: float | None = None
  deviation: float | None = None
  at_bounds: float | None = None


class CalibrationBin(msgspec.Struct, kw_only=True):
  """Steps with similar values: their number, mean value and mean return."""

  steps: int
  mean_value: float
  mean_return: float


class Calibration(msgspec.Struct, kw_only=True):
  """The values of steps, against the discounted returns that followed.

  Rewards are those from which the policy learns. Where a limit cuts an episode
  off, the value of its last observation stands for the rest of the return.

  Attributes:
    steps: number of steps.
    bias: mean of value minus return; above 0: the values are too high.
    correlation: Pearson's, of values and returns; None: one does not vary.
    explained_variance: 1 - Var(return - value) / Var(return); None: the returns
      do not vary.
    bins: equal numbers of steps, ordered by their values.
  """

  steps: int
  bias: float
  correlation: float | None
  explained_variance: float | None
  bins: list[CalibrationBin]


class PolicyInspection(msgspec.Struct, kw_only=True):
  """What a policy does.

  Attributes:
    actions_are: 'sampled', as in training, if the policy is a distribution;
      otherwise 'greedy'.
    episodes: number of episodes played.
    mean_return: their mean undiscounted return.
    mean_length: their mean length in environment steps.
    actions: each component of the actions.
    entropy: mean of -log pi(a | o) in nats, of a policy that is a distribution.
    calibration: values against returns; None: the algorithm has no values, or
      its network is recurrent.
    perturbations: parts of the observations on which greedy actions depend, the
      most important one first; None: the network is recurrent.
  """

  actions_are: str
  episodes: int
  mean_return: float
  mean_length: float
  actions: list[ActionSummary]
  entropy: float | None = None
  calibration: Calibration | None = None
  perturbations: list[perturbation.Perturbation] | None = None


def inspect(
  folder: run_folder.RunFolder,
  config: ml_collections.ConfigDict,
  snapshot: snapshot_store.Snapshot,
  episodes: int,
) -> PolicyInspection:
  """Plays episodes with the policy of a snapshot, and returns its statistics.

  Args:
    episodes: number of episodes, at least 1.

  Raises:
    ValueError: the environment has other spaces than the run's.
    user_code.UserCodeError: the environment failed.
  """
  from slipway.launch.runs import checkpoints  # loads TensorFlow

  environment = factory.make(
    base.get_evaluation_environment(config),
    min(episodes, _MAX_ENVS),
    _SEED,
    role="evaluator",
  )
  spec = environment.spec
  recorded_spaces.check(folder, environment.name, spec)
  builder = registry.make_builder(config.agent)
  learner = builder.make_learner(config, spec)
  checkpoints.restore(snapshot.path, learner)
  played_config = _make_sampled(config, builder, spec) or config
  actor = builder.make_greedy_actor(played_config, spec)
  actor.load(learner.get_variables())
  recorder = _Recorder(actor, builder, learner)
  with hanging.detect_hanging(config.environment.step_timeout_s):
    played = evaluation.play(
      environment,
      typing.cast("core.Actor", recorder),  # of which only `act` is called
      episodes,
      observe=recorder.observe,
      max_steps=_MAX_STEPS,
    )
    environment.close()
  assert played is not None
  steps = recorder.stack()
  is_step = ~steps.is_reset
  found = PolicyInspection(
    actions_are="greedy" if played_config is config else "sampled",
    episodes=episodes,
    mean_return=float(np.mean(played.returns)),
    mean_length=float(np.mean(played.lengths)),
    actions=[*_summarize_actions(spec.actions, steps.action[is_step])],
  )
  if steps.log_prob is not None:
    found.entropy = -float(steps.log_prob[is_step].mean())
  if steps.value is not None:
    found.calibration = _calibrate(steps, config.adder.discount)
  if len(builder.make_network(config, spec).inputs) == 1:
    greedy = builder.make_greedy_actor(_make_greedy(config), spec)
    greedy.load(learner.get_variables())
    found.perturbations = perturbation.measure(greedy, spec, recorder.kept)
  return found


def _make_sampled(
  config: ml_collections.ConfigDict,
  builder: core.Builder,
  spec: specs.EnvironmentSpec,
) -> ml_collections.ConfigDict | None:
  """Returns a config of sampled actions; None: the policy has only greedy ones.

  The algorithm's own checks decide.
  """
  config = config.copy_and_resolve_references()
  if fields.get(config, "evaluation.policy") is None:
    return None
  config.evaluation.policy = "sampled"
  try:
    fields.validate(config, overrides.declared_fields(config))
    builder.check(config, spec)
  except ValueError:
    return None
  return config


def _make_greedy(
  config: ml_collections.ConfigDict,
) -> ml_collections.ConfigDict:
  """Returns a config of greedy actions only."""
  config = config.copy_and_resolve_references()
  if fields.get(config, "evaluation.policy") is not None:
    config.evaluation.policy = "greedy"
  if fields.get(config, "exploration.evaluation_epsilon") is not None:
    config.exploration.evaluation_epsilon = 0.0
  return config


class _Steps(typing.NamedTuple):
  """T steps of B environments, [T, B, ...] each.

  Attributes:
    action: actions.
    log_prob: their log-probabilities, or None.
    value: values of the observations before the steps, or None.
    reward: rewards of the steps.
    terminated: whether the step reached a terminal state.
    truncated: whether a limit ended the episode.
    is_reset: whether the step was an autoreset, which ignored the action.
  """

  action: np.ndarray
  log_prob: np.ndarray | None
  value: np.ndarray | None
  reward: np.ndarray
  terminated: np.ndarray
  truncated: np.ndarray
  is_reset: np.ndarray


class _Recorder:
  """Acts as an actor whose variables are loaded, and records what it does.

  Attributes:
    kept: observations of random moments, [M, ...].
  """

  def __init__(
    self, actor: core.Actor, builder: core.Builder, learner: core.Learner
  ):
    self._actor, self._builder, self._learner = actor, builder, learner
    self._random = np.random.default_rng(_SEED)
    self._kept: list[np.ndarray] = []
    self._seen = 0
    self._outputs, self._steps = [], []

  def act(
    self, observation: np.ndarray, reward: np.ndarray, first: np.ndarray
  ) -> adder.ActorOutput:
    """Returns the actor's output; see `core.Actor`."""
    output = self._actor.act(observation, reward, first)
    log_prob = output.extras.get(policies.LOG_PROB)
    value = self._find_values(observation, output)
    self._outputs.append((output.action, log_prob, value))
    self._keep(observation[self._random.integers(len(observation))])
    return output

  def observe(
    self, action: np.ndarray | None, step: vector.StepBatch, _: np.ndarray
  ) -> None:
    """Records a step; see `evaluation.Observer`."""
    if action is not None:
      self._steps.append(
        (step.reward, step.terminated, step.truncated, step.first)
      )

  def stack(self) -> _Steps:
    """Returns all steps."""
    actions, log_probs, values = zip(*self._outputs, strict=True)
    rewards, terminated, truncated, resets = zip(*self._steps, strict=True)
    return _Steps(
      np.stack(actions),
      None if log_probs[0] is None else np.stack(log_probs),
      None if values[0] is None else np.stack(values),
      *map(np.stack, (rewards, terminated, truncated, resets)),
    )

  @property
  def kept(self) -> np.ndarray:
    return np.stack(self._kept)

  def _keep(self, observation: np.ndarray) -> None:
    """Keeps a sample of all observations so far (reservoir sampling)."""
    self._seen += 1
    if len(self._kept) < _MAX_KEPT:
      self._kept.append(observation)
    elif (i := self._random.integers(self._seen)) < _MAX_KEPT:
      self._kept[i] = observation

  def _find_values(
    self, observation: np.ndarray, output: adder.ActorOutput
  ) -> np.ndarray | None:
    """Returns the values [B] of observations as expected returns, or None."""
    value = output.extras.get(epsilon_greedy.VALUE_OF_ACTION)
    if value is not None and isinstance(self._builder, q_builder.QBuilder):
      return self._builder.unscale_values(value)
    if not isinstance(self._learner, core.ValueLearner):
      return None
    found = self._learner.estimate_values(observation, output.action)
    return None if found is None else found.numpy()


def _summarize_actions(
  spec: specs.Array, actions: np.ndarray
) -> Iterator[ActionSummary]:
  """Yields a summary of each component of actions [N, ...]."""
  columns = actions.reshape(len(actions), -1).T
  sizes = [getattr(spec, "num_values", 0)]
  if isinstance(spec, arrays.MultiDiscreteArray):
    sizes = spec.sizes
  for i, column in enumerate(columns):
    if actions.dtype.kind == "f":
      yield ActionSummary(
        mean=float(column.mean()),
        deviation=float(column.std()),
        at_bounds=float((np.abs(column) >= 1 - _AT_BOUND).mean()),
      )
    else:
      shares = np.bincount(column, minlength=sizes[i]) / len(column)
      some = shares[shares > 0]
      yield ActionSummary(
        frequencies=shares.tolist(), entropy=-float((some * np.log(some)).sum())
      )


def _calibrate(steps: _Steps, discount: float) -> Calibration | None:
  """Compares the values of steps with the discounted returns that followed."""
  value = steps.value
  assert value is not None
  following = np.zeros_like(value, np.float64)  # the returns
  # The value after the last step is unknown; that before it stands for it.
  following[-1] = np.where(steps.terminated[-1], steps.reward[-1], value[-1])
  for t in reversed(range(len(value) - 1)):
    rest = np.where(steps.truncated[t], value[t + 1], following[t + 1])
    rest = np.where(steps.terminated[t], 0.0, rest)
    following[t] = steps.reward[t] + discount * rest
  is_step = ~steps.is_reset
  is_step[-1] = False
  values, returns = value[is_step].astype(np.float64), following[is_step]
  if not len(values):
    return None
  varies = returns.std() > 0
  correlation = None
  if varies and values.std() > 0:
    correlation = float(np.corrcoef(values, returns)[0, 1])
  order = np.argsort(values)
  return Calibration(
    steps=len(values),
    bias=float((values - returns).mean()),
    correlation=correlation,
    explained_variance=(
      float(1 - (returns - values).var() / returns.var()) if varies else None
    ),
    bins=[
      CalibrationBin(
        steps=len(x),
        mean_value=float(values[x].mean()),
        mean_return=float(returns[x].mean()),
      )
      for x in np.array_split(order, min(_BINS, len(order)))
    ],
  )
