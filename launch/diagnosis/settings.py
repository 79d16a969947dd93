"""Checks of the config against what the run and the environment are like."""

import math
from collections.abc import Iterator

from slipway.launch.diagnosis import finding

# Field, range with which runs learn, and values of presets, by the name of the
# finding. Of several values, such as the sizes of layers, the smallest counts.
_RANGES = {
  "n-step": ("adder.n_step", 1, 30, "1 to 15"),
  "entropy weight": ("learner.entropy_weight", 0, 0.15, "0 to 0.01"),
  "evaluation": ("exploration.evaluation_epsilon", 0, 0.3, "0"),
  "noise": ("exploration.noise_std", 1e-9, 1, "0.1 to 0.3"),
  "batch size": ("learner.batch_size", 8, math.inf, "64, or 8 sequences"),
  "policy clip": ("learner.clip", 0.02, 1, "0.2"),
  "epochs": ("learner.epochs", 1, 50, "4 to 20"),
  "publications": ("variables.publish_period", 1, 2_000, "1 to 100"),
  "small network": ("network.hidden_sizes", 8, math.inf, "64 and more"),
}
# Step size of an update, and the sum of all, the most that a weight moves.
_MAX_RATE, _MIN_MOVE = 0.008, 5e-3
# Shortest horizon 1 / (1 - discount) where episodes are this much longer.
_MIN_HORIZON, _HORIZONS_PER_EPISODE = 8.0, 4.0
# Transitions and episodes that a replay should hold; presets have 20,000.
_MIN_REPLAY, _MIN_EPISODES, _ENOUGH_REPLAY = 2_000, 3.0, 10_000.0
# Part of the way to the networks that target networks make per update, and the
# least that they should have made in all.
_MAX_TARGET_WEIGHT, _MIN_FOLLOWED = 0.1, 0.3
_MAX_EPSILON = 0.5  # at the end of exploration
_LONG_RUN_S = 12 * 3600.0
_MANY_UPDATES, _MORE_UPDATES = 500, 2_000


def check(e: finding.Evidence) -> Iterator[finding.Finding]:
  """Yields the findings in the config of a run."""
  yield from _check_learner(e)
  yield from _check_episodes(e)
  yield from _check_exploration(e)
  for name, (field, low, high, presets) in _RANGES.items():
    value = e.get(field)
    value = min(value) if isinstance(value, tuple) else value
    if value is not None and not low <= value <= high:
      yield finding.warning(
        name,
        f"{e.show(field)}, but runs learn with {low:g} to {high:g}: presets "
        f"have {presets}",
      )


def _check_learner(e: finding.Evidence) -> Iterator[finding.Finding]:
  rate, updates = e.get("learner.learning_rate"), e.status.trainer_steps
  moved = (rate or math.inf) * updates * (e.get("learner.epochs") or 1)
  is_small = updates > _MANY_UPDATES and moved < _MIN_MOVE
  is_large = (rate or 0.0) > _MAX_RATE and e.get("learner.optimizer") != "sgd"
  if is_small or is_large:
    yield finding.problem(
      "learning rate",
      f"{e.show('learner.learning_rate')} "
      + ("lets updates undo one another" if is_large else "changes nothing")
      + ": presets have 5e-5 to 5e-3",
    )
  period, tau = e.get("learner.target_update_period"), e.get("learner.tau")
  weight = (1.0 if tau is None else tau) / (period or 100)
  is_slow = updates > _MORE_UPDATES and weight * updates < _MIN_FOLLOWED
  if weight > _MAX_TARGET_WEIGHT or (period and is_slow):
    field = "target_update_period" if tau is None else "tau"
    yield finding.problem(
      "target network",
      f"{e.show(f'learner.{field}')} lets the target network follow "
      + ("hardly, so rewards don't spread" if is_slow else "at once")
      + ": presets have tau=0.005, or target_update_period=100",
    )


def _check_episodes(e: finding.Evidence) -> Iterator[finding.Finding]:
  discount, steps = e.get("adder.discount") or 1.0, e.episode_steps
  horizon = 1 / max(1 - discount, 1e-9)
  if horizon < _MIN_HORIZON and steps > _HORIZONS_PER_EPISODE * horizon:
    yield finding.problem(
      "discount",
      f"{e.show('adder.discount')} looks {horizon:.2g} steps ahead, but "
      f"episodes have up to {steps:.4g}: raise it to 0.98 or 0.99",
    )
  capacity = e.get("replay.capacity") or math.inf
  episodes = min(_MIN_EPISODES * steps, _ENOUGH_REPLAY)
  if capacity < max(_MIN_REPLAY, episodes):
    yield finding.problem(
      "replay",
      f"{e.show('replay.capacity')} holds the newest steps only, so the "
      "networks forget the rest: presets have 20,000 to 1,000,000",
    )


def _check_exploration(e: finding.Evidence) -> Iterator[finding.Finding]:
  if e.get("exploration.schedule") != "linear":
    return
  start, end = (e.get(f"exploration.epsilon_{x}") for x in ("start", "end"))
  speed = e.status.rates.mean_env_steps_per_s or math.inf
  steps = e.get("limits.environment_steps") or _LONG_RUN_S * speed
  done = min(1.0, steps / max(1, e.get("exploration.decay_steps")))
  last = start + done * (end - start)
  is_greedy = max(start, end) == 0 and not e.get("network.noisy")
  if is_greedy or last > _MAX_EPSILON:
    yield finding.problem(
      "exploration",
      f"epsilon, the part of random actions, is {last:.2g} at the end: let it "
      "fall from exploration.epsilon_start=1 to epsilon_end=0.05 in a tenth of "
      "the run's steps (decay_steps)",
    )
