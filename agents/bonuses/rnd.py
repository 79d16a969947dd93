"""Random network distillation: steps are new if their results are."""

from collections.abc import Sequence

import ml_collections
import tensorflow as tf
from acme import specs

from slipway.agents.bonuses import embedding, novelty


class RandomNetworkDistillation(tf.Module):
  """Novelty of an observation: a predictor's error on a random network.

    (1 / F) || g(o') - f(o') ||^2

  with a fixed random network f and a network g of F outputs each, which learns
  to predict f. It is small for observations like those that g has learned from.
  Burda et al. 2019, "Exploration by random network distillation"
  (https://arxiv.org/abs/1810.12894), section 2.2. As there, g has two linear
  layers more than f.
  """

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    observations: specs.Array,
    actions: specs.Array,
  ):
    super().__init__(name="rnd")
    del actions
    features = config.bonus.features
    sizes = tuple(config.network.hidden_sizes)

    self._target = embedding.make_embedding(
      config, observations, sizes, "rnd_target"
    )
    self._predictor = embedding.make_embedding(
      config, observations, (*sizes, features, features), "rnd_predictor"
    )

  @property
  def learned(self) -> Sequence[tf.Variable]:
    return self._predictor.trainable_variables

  def __call__(self, steps: novelty.Steps) -> novelty.Measured:
    """Measures steps; see `novelty.Novelty`."""
    target = tf.stop_gradient(self._target(steps.next_observation))
    predicted = self._predictor(steps.next_observation)
    error = tf.reduce_mean((predicted - target) ** 2, axis=1)
    return novelty.Measured(tf.stop_gradient(error), error)
