"""Off-policy evaluation: the value of a policy, from episodes of another."""
