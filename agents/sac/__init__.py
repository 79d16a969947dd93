"""SAC: soft actor-critic for continuous actions, from a replay table."""
