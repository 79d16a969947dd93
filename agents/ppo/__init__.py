"""PPO: clipped policy gradients on rollouts, each of which is used once."""
