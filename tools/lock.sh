#!/bin/sh
# Resolves requirements.in to requirements.txt, anew: what requirements.in
# leaves open moves to its newest release.
set -eu
cd "$(dirname "$0")/.."
mkdir -p .cache
part=$(mktemp .cache/lock.XXXXXX)
trap 'rm -f "$part"' EXIT
tools/uv.sh pip compile -q requirements.in --excludes tools/excludes.txt \
  --python-version 3.10 --python-platform x86_64-manylinux_2_28 \
  --generate-hashes --no-header --no-emit-index-url \
  --output-file "$part" "$@" >/dev/null
{
  echo "# The complete lock, with hashes: all that .venv holds."
  echo "# Made by \`make lock\` from requirements.in and tools/excludes.txt,"
  echo "# which say what is asked for and why. To be installed with --no-deps:"
  echo "# what others pin contradicts what imports together."
  cat "$part"
} >"$part.txt"
mv "$part.txt" requirements.txt
