"""Environments: batches of gymnasium environments.

No other package imports gymnasium or Minari. `factory.make` creates a
`vector.VectorEnvironment` from a config, whose name `ids` finds in gymnasium's
registry. A `VectorEnvironment` checks all values that environments return, and
raises `checked.EnvironmentFailedError`. `specs` describes observations and
actions in Acme's terms. `spaces`, `conversion` and `masks` convert values.
`video` records an episode as a video; `recordings` writes and reads episodes.
"""
