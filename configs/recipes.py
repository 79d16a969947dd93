"""Recipes: the values of an algorithm, in two tables.

```python
RECIPE = recipes.Recipe(
  paper={"learner.double": True},  # what the paper changes
  tasks={"cartpole": {"replay.capacity": 50_000}},  # tuned for a preset's task
  family=dqn.RECIPE,
)
PRESETS, get_config = RECIPE.presets, RECIPE.get_config
```

Nothing else is inherited: a family's recipe has the same two tables, and no
family.
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

  A field has the first value of: `tasks`, `paper`, the family's `tasks`, the
  family's `paper`, and the field's default.

  Attributes:
    paper: values of all presets.
    tasks: values by preset.
    family: recipe that these values change, with its presets; None: the fields'
      defaults.
    fields: declarations of the config's fields; None: those of the family.
  """

  paper: Values
  tasks: Mapping[str, Values] = dataclasses.field(default_factory=dict)
  family: "Recipe | None" = None
  fields: fields_lib.Fields = dataclasses.field(default_factory=dict)

  @property
  def presets(self) -> tuple[str, ...]:
    """Names of the presets; the first one is the default."""
    inherited = self.family.tasks if self.family else ()
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
    config = fields_lib.make_config(self.declared)
    for name, value in self._find_changes(preset).items():
      section, _, field = name.rpartition(".")
      fields_lib.get(config, section, config)[field] = value
    return config

  def list_values(self, preset: str) -> dict[str, typing.Any]:
    """Returns the value of each declared field in a preset of `presets`."""
    defaults = {name: field.default for name, field in self.declared.items()}
    return defaults | self._find_changes(preset)

  @property
  def declared(self) -> fields_lib.Fields:
    """Declarations of the config's fields, also where they are the family's."""
    return self.fields or (self.family.fields if self.family else {})

  def _find_changes(self, preset: str) -> dict[str, typing.Any]:
    """Returns the values of a preset that differ from the defaults."""
    family = self.family or Recipe({})
    values = {**family.paper, **family.tasks.get(preset, {})}
    for name in family.fields.keys() - self.declared:
      values.pop(name, None)
    return values | {**self.paper, **self.tasks.get(preset, {})}
