"""The program: nodes, their orchestration, and the commands."""

import os

# Before TensorFlow's libraries are loaded, which Launchpad does too: no
# notices of theirs on the user's screen.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
