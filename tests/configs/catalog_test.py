"""Every algorithm's config, with every preset, is valid and its paper's."""

import pytest

from agents import registry
from configs import catalog, dqn, validation
from environments import factory

NAMES = list(catalog.algorithms())


@pytest.mark.parametrize("preset", catalog.PRESETS)
@pytest.mark.parametrize("name", NAMES)
def test_every_preset_is_valid_and_fits(name, preset):
  config = catalog.algorithms()[name].get_config(preset)
  validation.validate(config)
  spec = factory.make_spec(config.environment)
  registry.make_builder(config.agent).check(config, spec)


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_preset_is_refused_in_one_line(name):
  with pytest.raises(ValueError, match="'pung' is unknown") as error:
    catalog.algorithms()[name].get_config("pung")
  assert str(error.value).endswith(
    "choose one of cartpole, lunarlander, minatar_breakout, pong, atari57"
  )


@pytest.mark.parametrize("name", NAMES)
def test_a_config_says_its_paper(name):
  paper = catalog.algorithms()[name].__doc__.split("\n\n")[0]
  assert "et al. 20" in paper
  assert paper.count('"') == 2


def differences(name, preset="cartpole"):
  def flat(part, prefix=""):
    for field, value in part.items():
      if hasattr(value, "items"):
        yield from flat(value, f"{prefix}{field}.")
      else:
        yield f"{prefix}{field}", value

  own = dict(flat(catalog.algorithms()[name].get_config(preset)))
  before = dict(flat(dqn.get_config(preset)))
  return {k: v for k, v in own.items() if before.get(k) != v}


def test_configs_differ_as_their_papers_do():
  assert differences("dqn") == {}
  assert differences("double_dqn") == {"learner.double": True}
  assert differences("dueling_dqn") == {
    **differences("double_dqn"),
    "network.dueling": True,
  }
  assert differences("prioritized_dqn") == {
    **differences("double_dqn"),
    "replay.sampler": "prioritized",
  }
  assert differences("apex_dqn", "pong") == {
    **differences("dueling_dqn"),
    **differences("prioritized_dqn"),
    "adder.n_step": 3,
    "exploration.schedule": "ladder",
    "topology.workers": 2,
  }
  assert differences("c51") == {"network.head": "categorical"}
  assert differences("munchausen_dqn") == {"learner.munchausen_scale": 0.9}
  assert differences("rainbow") == {
    **differences("c51"),
    **differences("dueling_dqn"),
    **differences("prioritized_dqn"),
    **differences("noisy_dqn"),
    "adder.n_step": 3,
    "replay.priority_exponent": 0.5,
  }


@pytest.mark.parametrize(
  ("wrong", "near"), [("raimbow", "rainbow"), ("qrdqn", "qr_dqn")]
)
def test_the_nearest(wrong, near):
  assert catalog.nearest(wrong) == near
