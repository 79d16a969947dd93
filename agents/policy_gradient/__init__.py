"""Policy gradients: algorithms that learn from rollouts, each used once."""
