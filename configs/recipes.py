"""Recipes: the values of an algorithm, in two tables on top of its parent's.

```python
RECIPE = recipes.Recipe(
  parent=dqn.RECIPE,
  paper={"learner.double": True},  # what the paper changes
  tasks={"cartpole": {"replay.capacity": 50_000}},  # tuned for a preset's task
)
PRESETS, get_config = RECIPE.presets, RECIPE.get_config
```
"""

import dataclasses
import typing
from collections.abc import Mapping

import ml_collections

from slipway.configs import fields as fields_lib
from slipway.configs import names

# Values of config fields, by dotted name.
Values = Mapping[str, typing.Any]


class UnknownPresetError(ValueError):
  """An algorithm has no preset with the given name."""


@dataclasses.dataclass(frozen=True)
class Recipe:
  """The values of an algorithm's config, for each of its presets.

  Attributes:
    paper: values of all presets, which replace those of the parent.
    tasks: values by preset, which replace those of `paper`.
    parent: recipe that is extended, with its presets; None: the fields'
      defaults.
    fields: declarations of the config's fields; None: those of the parent.
  """

  paper: Values
  tasks: Mapping[str, Values] = dataclasses.field(default_factory=dict)
  parent: "Recipe | None" = None
  fields: fields_lib.Fields | None = None

  @property
  def presets(self) -> tuple[str, ...]:
    """Names of the presets; the first one is the default."""
    inherited = self.parent.presets if self.parent else ()
    return tuple(dict.fromkeys((*inherited, *self.tasks)))

  def get_config(self, preset: str | None = None) -> ml_collections.ConfigDict:
    """Returns the config of a preset.

    Raises:
      UnknownPresetError: no preset has this name; the message lists all.
    """
    preset = self.presets[0] if preset is None else preset
    if preset not in self.presets:
      near = names.find_preset(preset, self.presets)
      advice = f"did you mean {near}? " if near else ""
      raise UnknownPresetError(
        f"config preset {preset!r} is unknown, so there are no values to run "
        f"with: {advice}choose one of {', '.join(self.presets)}"
      )
    return self._make(preset)

  def _make(self, preset: str) -> ml_collections.ConfigDict:
    """Returns the config of a preset, which the parent may not have."""
    config = self.parent and self.parent._make(preset)
    if self.fields is not None:
      config = fields_lib.make_config(self.fields, like=config)
    assert config is not None
    for name, value in (
      *self.paper.items(),
      *self.tasks.get(preset, {}).items(),
    ):
      section, _, field = name.rpartition(".")
      fields_lib.get(config, section, config)[field] = value
    return config
