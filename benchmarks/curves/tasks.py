"""Tasks on which learning curves are drawn."""

import dataclasses

from benchmarks.curves import published as published_lib


@dataclasses.dataclass(frozen=True)
class Task:
  """A task on which algorithms are compared.

  Attributes:
    preset: preset of the algorithms' configs.
    title: title of the page, one line.
    env_steps: environment steps after which each run ends.
    limit_s: seconds after which a run is aborted.
    flags: further flags of the runs.
    target: mean return that counts as solved; None: there is no such number.
    published: returns of others with which the runs are compared.
  """

  preset: str
  title: str
  env_steps: int
  limit_s: float
  flags: tuple[str, ...] = ()
  target: float | None = None
  published: tuple[published_lib.Published, ...] = ()


def _minatar(
  game: str,
  published: tuple[published_lib.Published, ...],
  env_steps: int = 1_000_000,
) -> Task:
  """Returns the task of a MinAtar game, such as 'Asterix'."""
  return Task(
    *("minatar_breakout", f"MinAtar {game}", env_steps, 7_200.0),
    # The preset is for all games, of which it names one.
    (f"--config.environment.game={game}",),
    published=published,
  )


TASKS = {
  "cartpole": Task("cartpole", "CartPole-v1", 150_000, 600.0, target=475.0),
  "cartpole_policy_gradients": Task(
    *("cartpole", "CartPole-v1, policy gradients", 600_000, 600.0),
    target=475.0,
  ),
  "cartpole_held": Task(
    *("cartpole", "CartPole-v1, three times as long", 450_000, 3_600.0),
    ("--config.evaluation.period_s=1.5",),
    target=475.0,
  ),
  "acrobot": Task(
    *("cartpole", "Acrobot-v1, by presets of CartPole", 100_000, 1_200.0),
    ("--config.environment.name=Acrobot-v1",),
  ),
  "mountaincar": Task(
    *("cartpole", "MountainCar-v0, by presets of CartPole", 100_000, 1_200.0),
    ("--config.environment.name=MountainCar-v0",),
  ),
  "lunarlander": Task(
    "lunarlander", "LunarLander-v3", 100_000, 1_800.0, target=200.0
  ),
  "lunarlander_policy_gradients": Task(
    *("lunarlander", "LunarLander-v3, policy gradients", 1_000_000, 1_800.0),
    target=200.0,
  ),
  "lunarlander_held": Task(
    *("lunarlander", "LunarLander-v3, four times as long", 400_000, 7_200.0),
    target=200.0,
  ),
  # DQN has learned it after 500,000 steps: Young and Tian 2019, figure 2.
  "minatar_breakout": _minatar("Breakout", published_lib.BREAKOUT, 500_000),
  "minatar_asterix": _minatar("Asterix", published_lib.ASTERIX),
  "minatar_freeway": _minatar("Freeway", published_lib.FREEWAY),
  "minatar_seaquest": _minatar("Seaquest", published_lib.SEAQUEST),
  "minatar_space_invaders": _minatar(
    "SpaceInvaders", published_lib.SPACE_INVADERS
  ),
  "breakout": Task(
    *("atari57", "Breakout", 2_000_000, 14_400.0),
    (
      "--config.environment.game=Breakout",
      # Dopamine's, with which the runs are compared: sticky actions, and the
      # epsilon of its training episodes, whose returns are published.
      "--config.environment.kwargs.repeat_action_probability=0.25",
      "--config.exploration.evaluation_epsilon=0.01",
      "--config.network.torso=nature_cnn_bfloat16",
      "--config.evaluation.period_s=120",
    ),
    published=published_lib.ATARI_BREAKOUT,
  ),
  "pong_policy_gradients": Task(
    "pong", "Pong, policy gradients", 1_000_000, 7_200.0, target=18.0
  ),
  "pendulum": Task("pendulum", "Pendulum-v1", 20_000, 600.0, target=-200.0),
  "lunarlander_continuous": Task(
    *("lunarlander", "LunarLander-v3, continuous actions", 300_000, 3_600.0),
    target=200.0,
  ),
  "halfcheetah": Task("halfcheetah", "HalfCheetah-v5", 120_000, 3_600.0),
  "hopper": Task("hopper", "Hopper-v5", 120_000, 3_600.0),
  "walker2d": Task("walker2d", "Walker2d-v5", 120_000, 3_600.0),
}
