"""Tests of value rescaling against the paper's formulas, and its inverse."""

import numpy as np
import pytest
import tensorflow as tf

from slipway.agents.losses import rescaling
from tests.agents.losses import checks

VALUES = np.array([-1e4, -37.5, -1.0, -1e-3, 0.0, 1e-3, 0.5, 12.0, 1e5])


@pytest.mark.parametrize("make", [np.asarray, tf.constant])
def test_rescaling_is_that_of_the_paper(make):
  found = rescaling.rescale(make(VALUES))
  expected = [checks.slow_rescale(x) for x in VALUES]
  np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("make", [np.asarray, tf.constant])
def test_unscaling_is_the_inverse(make):
  rescaled = rescaling.rescale(make(VALUES))
  np.testing.assert_allclose(
    rescaling.unscale(rescaled), VALUES, rtol=1e-6, atol=1e-9
  )
  unscaled = rescaling.unscale(make(VALUES))
  np.testing.assert_allclose(
    rescaling.rescale(unscaled), VALUES, rtol=1e-6, atol=1e-12
  )


def test_single_precision_keeps_its_digits():
  rescaled = rescaling.rescale(VALUES.astype(np.float32))
  np.testing.assert_allclose(
    rescaling.unscale(rescaled), VALUES, rtol=1e-5, atol=1e-6
  )
