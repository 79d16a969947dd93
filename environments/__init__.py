"""The world: gymnasium environments, a batch at a time.

The only package that imports gymnasium and Minari. `factory.make` turns a config into a
`vector.VectorEnvironment`, which `specs` describes in Acme's terms, `video` can
film and `recordings` writes the episodes of.
"""
