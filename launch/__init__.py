"""Launch: the nodes of a run, their orchestration, and `slipway`'s commands."""

import os

# Set before TensorFlow is imported, which otherwise prints notices.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
