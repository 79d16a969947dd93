#!/bin/sh
# The interpreter of Bazel's tests: .venv's Python of this folder, found
# through the links that Bazel lays to this file.
exec "$(dirname "$(readlink -f "$0")")/../.venv/bin/python" "$@"
