"""Environments: batches of gymnasium environments.

The only package that imports gymnasium and Minari. `factory.make` creates a
`vector.VectorEnvironment` from a config; it checks all values that environments
return, and raises `checked.EnvironmentFailedError`. `specs` defines its specs
in Acme's terms; `spaces`, `conversion` and `masks` convert its values; `video`
films an episode; `recordings` writes and reads episodes.
"""
