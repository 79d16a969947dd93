"""The world: gymnasium environments, a batch at a time.

The only package that imports gymnasium and Minari. `factory.make` turns a
config into a `vector.VectorEnvironment`, which checks what environments return
and raises `checked.EnvironmentFailedError`. `specs` describes it in Acme's
terms, `spaces`, `conversion` and `masks` convert its values, `video` films it
and `recordings` writes and reads its episodes.
"""
