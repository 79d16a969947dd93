"""The world: gymnasium environments, a batch at a time.

The only package that imports gymnasium. `factory.make` turns a config into a
`vector.VectorEnvironment`, which `specs` describes in Acme's terms and `video`
can film.
"""
