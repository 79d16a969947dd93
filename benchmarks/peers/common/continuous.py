"""Continuous: the tasks that all libraries learn by SAC, TD3 or D4PG.

A test checks that the values in `TASKS` equal the presets of `configs/sac.py`,
`configs/td3.py` and `configs/d4pg.py`, except for D4PG's rate of updates. This
module imports the standard library only, since it runs with each peer's
packages.
"""

import dataclasses
import typing


@dataclasses.dataclass(frozen=True)
class Task:
  """Hyperparameters of an actor-critic algorithm on one task.

  Policy and critics have an MLP each. SAC and TD3 have two critics with target
  networks, and SAC adapts its temperature.

  Attributes:
    environment: gymnasium id.
    learning_rate: learning rate of Adam.
    capacity: transitions in the full replay.
    min_size: transitions in the replay before the first update.
    evaluation_period: environment steps between two greedy evaluations; 0: only
      speed is measured, without evaluations.
    hidden_sizes: units of each MLP's hidden layers.
    batch_size: transitions per update.
    discount: discount per environment step.
    tau: weight of the learned networks in the moving average that is made of
      the target networks.
    steps_per_update: environment steps per update of the critics.
    decay_steps: environment steps over which the learning rate falls linearly
      to 0; 0: it is constant.
    policy_period: updates of the critics per update of the policy and of the
      target networks.
    noise_std: standard deviation of the exploration noise of a deterministic
      policy, for actions in [-1, 1].
    target_noise: standard deviation of the noise on the target policy's
      actions.
    target_noise_clip: largest absolute noise on the target policy's actions.
    n_step: environment steps per transition.
    atoms: number of returns in the support of a categorical critic.
    lowest_return: lowest return in the support.
    highest_return: highest return in the support.
    kwargs: arguments of the environment.
  """

  environment: str
  learning_rate: float
  capacity: int
  min_size: int
  evaluation_period: int
  hidden_sizes: tuple[int, ...] = (256, 256)
  batch_size: int = 256
  discount: float = 0.99
  tau: float = 0.005
  steps_per_update: int = 1
  decay_steps: int = 0
  policy_period: int = 1
  noise_std: float = 0.1
  target_noise: float = 0.0
  target_noise_clip: float = 0.5
  n_step: int = 1
  atoms: int = 51
  lowest_return: float = 0.0
  highest_return: float = 100.0
  kwargs: dict[str, typing.Any] = dataclasses.field(default_factory=dict)

  def learning_rate_at(self, env_steps: float) -> float:
    """Returns the learning rate after a number of environment steps."""
    if not self.decay_steps:
      return self.learning_rate
    return self.learning_rate * max(0.0, 1.0 - env_steps / self.decay_steps)


_HALFCHEETAH = Task(
  environment="HalfCheetah-v5",
  learning_rate=3e-4,
  capacity=1_000_000,
  min_size=10_000,
  evaluation_period=0,
)

_PENDULUM = Task(
  environment="Pendulum-v1",
  learning_rate=1e-3,
  capacity=50_000,
  min_size=1_000,
  evaluation_period=1_000,
)

TASKS = {
  "sac_halfcheetah": dataclasses.replace(_HALFCHEETAH, min_size=5_000),
  "td3_halfcheetah": dataclasses.replace(
    _HALFCHEETAH,
    learning_rate=1e-3,
    policy_period=2,
    target_noise=0.2,
  ),
  "sac_lunarlander": dataclasses.replace(
    _HALFCHEETAH,
    environment="LunarLander-v3",
    kwargs={"continuous": True},
    learning_rate=7.3e-4,
    min_size=5_000,
    evaluation_period=10_000,
    hidden_sizes=(128, 128),
    tau=0.01,
    steps_per_update=4,
    n_step=5,
  ),
  "sac_pendulum": dataclasses.replace(_PENDULUM, batch_size=128),
  "d4pg_pendulum": dataclasses.replace(
    _PENDULUM,
    steps_per_update=8,  # Acme's own: 32 samples per environment step
    n_step=5,
    noise_std=0.3,
    lowest_return=-1_600.0,
    highest_return=0.0,
  ),
}

# Values that RL Baselines3 Zoo (rl_zoo3 2.9.2, hyperparameters/sac.yml and
# td3.yml) has tuned, for libraries with the interface of Stable-Baselines3, by
# task.
ZOO = {
  "sac_halfcheetah": _HALFCHEETAH,
  "td3_halfcheetah": dataclasses.replace(
    TASKS["td3_halfcheetah"], hidden_sizes=(400, 300)
  ),
  "sac_lunarlander": dataclasses.replace(
    TASKS["sac_lunarlander"],
    min_size=10_000,
    hidden_sizes=(400, 300),
    steps_per_update=1,
    n_step=1,
    decay_steps=500_000,
  ),
  "sac_pendulum": dataclasses.replace(
    _PENDULUM, capacity=1_000_000, min_size=100
  ),
}
