"""Off-policy evaluation: values of a run's policies on recorded episodes."""

from collections.abc import Iterator

import numpy as np

from slipway.agents.networks import layers
from slipway.agents.off_policy import importance_sampling
from slipway.agents.off_policy import recording as recording_lib
from slipway.configs import fields
from slipway.environments import recordings, specs
from slipway.launch.api import policy as policy_lib
from slipway.launch.checks import flags as flags_lib
from slipway.launch.runs import run_folder

_ALL = "all"  # value of --which
# Effective number of episodes below which a few of them decide.
_FEW = 10


def add_flags(flags: flags_lib.Flags) -> None:
  """Adds the flags of the evaluation on recorded episodes."""
  flags.add_text(
    "dataset",
    None,
    "Folder of recorded episodes, from which the policy's discounted return is "
    "estimated, by fitted Q evaluation and importance sampling, without an "
    "environment. --which=all estimates those of all snapshots.",
  )
  flags.add_integer(
    "updates", 20_000, "With --dataset: updates per estimate.", 100, 10**9
  )


def check_flags(flags: flags_lib.Flags) -> None:
  """Raises ValueError for flags that contradict each other."""
  others = ("episodes", "max_steps") if flags.dataset else ("updates",)
  for name in others:
    if flags[name].present:
      way = "without" if flags.dataset else "with"
      raise ValueError(
        f"--{name} has an effect only {way} --dataset=FOLDER: leave it out"
      )


def evaluate(flags: flags_lib.Flags) -> None:
  """Prints the estimates of a run's policies, and which one is the best.

  Raises:
    ValueError: there is no policy or no episodes for it, or its network is
      recurrent.
  """
  estimator: _Estimator | None = None
  best = (-np.inf, "")
  for which, policy in _load_policies(flags):
    estimator = estimator or _Estimator(flags, policy)
    value, text = estimator.estimate(policy)
    print(f"--which={which}, version {policy.version}: {text}", flush=True)
    best = max(best, (value, which))
  if flags.which == _ALL:
    print(f"best by fitted Q: --which={best[1]}")


class _Estimator:
  """Estimates the values of one run's policies on recorded episodes."""

  def __init__(self, flags: flags_lib.Flags, policy: policy_lib.Policy):
    """Reads the episodes, and prints lines about them."""
    # Imported here: evaluations in an environment don't need TensorFlow.
    from slipway.agents.off_policy import behaviour, fitted_q

    self._evaluate, self._flags = fitted_q.evaluate, flags
    config = policy.config
    episodes = recordings.read(flags.dataset, policy.spec)
    recording = recording_lib.Recording(policy.spec, episodes)
    self._recording = recording
    self._settings = layers.TorsoSettings("mlp", (64, 64))
    if "torso" in config.get("network", {}):
      self._settings = layers.TorsoSettings.from_config(config.network)
    self._discount = fields.get(config, "adder.discount") or 0.99
    returns = recording.compute_returns(self._discount)
    print(
      f"{len(returns)} recorded episodes with {len(recording.before)} steps: "
      f"return {_describe_mean(returns)}, discounted by {self._discount:g}"
    )
    self._behaviour = None
    if not isinstance(policy.spec.actions, specs.DiscreteArray):
      why = "a step's action is not one discrete value"
    elif not hasattr(policy.actor, "log_prob"):
      why = "the actor of the algorithm has no method log_prob"
    else:
      self._behaviour = behaviour.estimate_log_probs(
        *(recording, self._settings, flags.updates, flags.seed)
      )
      print(
        "importance sampling: the probabilities of recorded actions, which the "
        f"episodes lack, are learned; {np.exp(self._behaviour).mean():.2f} in "
        "the mean"
      )
      return
    print(f"no importance sampling, as {why}: compare policies by fitted Q")

  def estimate(self, policy: policy_lib.Policy) -> tuple[float, str]:
    """Returns a policy's value by fitted Q evaluation, and all estimates."""
    recording, flags = self._recording, self._flags
    values = self._evaluate(
      *(recording, recording.sample_actions(policy.actor), self._settings),
      *(self._discount, flags.updates, flags.seed),
    )
    text = f"fitted Q {_describe_mean(values)}"
    if self._behaviour is None:
      return values.mean(), text
    episodes = recording.episodes
    log_prob = getattr(policy.actor, "log_prob")  # noqa: B009, not of all actors
    value, effective = importance_sampling.estimate(
      log_prob(episodes.observations[recording.before], episodes.actions)
      - self._behaviour,
      *(episodes.rewards, episodes.lengths, self._discount),
    )
    text += f"; importance sampling {value:.2f}"
    if np.isnan(value):
      step = int(np.argmin(effective > 0)) + 1
      text += f" (no episode has the policy's actions up to step {step})"
    elif effective[-1] < _FEW:
      text += (
        f" (of {effective[-1]:.1f} effective episodes, too few to compare)"
      )
    else:
      text += f" (of {effective[-1]:.1f} effective episodes)"
    return values.mean(), text


def _load_policies(
  flags: flags_lib.Flags,
) -> Iterator[tuple[str, policy_lib.Policy]]:
  """Yields each chosen policy of a run, with its name."""
  chosen = [flags.which]
  if flags.which == _ALL:
    folder = run_folder.RunFolder.open(flags.run, flags.trust)
    chosen = sorted(x.name for x in folder.snapshots.glob("[0-9]*"))
    if not chosen:
      raise ValueError(
        f"--which={_ALL}: {flags.run!r} has no snapshot, so there is nothing "
        "to evaluate: let the run write one"
      )
  for which in chosen:
    policy = policy_lib.load(flags.run, which, flags.trust, flags.policy)
    if policy.is_recurrent:
      raise ValueError(
        f"--run={flags.run} has a recurrent network, whose actions depend on "
        "all steps before, so single recorded steps give no estimate: evaluate "
        "it in an environment, without --dataset"
      )
    yield which.lstrip("0"), policy


def _describe_mean(values: np.ndarray) -> str:
  """Returns a mean and its standard error, such as '8.12 +- 0.06'."""
  if len(values) < 2:
    return f"{values.mean():.2f}"  # one episode has no standard error
  return f"{values.mean():.2f} +- {values.std() / len(values) ** 0.5:.2f}"
