#!/bin/sh
# Runs the Python of .venv for Bazel's tests; resolves Bazel's link to this file.
exec "$(dirname "$(readlink -f "$0")")/../.venv/bin/python" "$@"
