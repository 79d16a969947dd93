"""Launch: the nodes of a run, their orchestration, and `slipway`'s commands."""

import os

# Set before Launchpad loads TensorFlow's libraries, which otherwise print
# notices on the user's screen.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
