"""Behaviour cloning: supervised learning of a policy from recorded episodes."""
