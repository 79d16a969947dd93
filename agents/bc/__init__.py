"""Behaviour cloning: a policy that imitates recorded episodes."""
