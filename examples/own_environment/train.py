"""Trains in corridor.py's environment, and plays an episode with the policy."""

import corridor

import slipway

config = slipway.load_config("ppo:generic")
config.environment.name = "corridor:Corridor"
config.limits.target_return = 1.0
result = slipway.train(config, name="corridor", overwrite=True)

policy = slipway.load(result.folder)
environment = corridor.Corridor()
observation, done = environment.reset()[0], False
while not done:
  observation, reward, terminated, truncated, _ = environment.step(
    policy(observation)
  )
  done = terminated or truncated
print(f"reward {reward} after {environment.steps} steps")
