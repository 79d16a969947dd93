"""Launch: the nodes of a run, their control, and the commands of `slipway`."""

import os

# Set before TensorFlow is imported, which otherwise prints notices.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
