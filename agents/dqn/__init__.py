"""The DQN family: double, dueling, prioritized, n-step, Ape-X."""
