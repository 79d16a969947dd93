#!/bin/sh
# Resolves requirements.in to requirements.txt from scratch: packages whose
# versions it does not pin move to their newest release. requirements-ray.txt
# has the same packages and those of requirements-ray.in.
set -eu
cd "$(dirname "$0")/.."
mkdir -p .cache
part=$(mktemp .cache/lock.XXXXXX)
trap 'rm -f "$part" "$part.txt"' EXIT

# resolve LOCK VENV ARGUMENT...: writes LOCK, from which VENV is built.
resolve() {
  lock=$1 venv=$2
  shift 2
  tools/uv.sh pip compile -q requirements.in --excludes tools/excludes.txt \
    --python-version 3.10 --python-platform x86_64-manylinux_2_28 \
    --generate-hashes --no-header --no-emit-index-url \
    --output-file "$part" "$@" >/dev/null
  {
    echo "# The complete lock, with hashes: all that $venv holds."
    echo "# Made by \`make lock\` from ${lock%.txt}.in and tools/excludes.txt,"
    echo "# which say what is asked for and why. To be installed with --no-deps:"
    echo "# what others pin contradicts what imports together."
    sed "/^    #   -c /d" "$part" # Without comments on constraints.
  } >"$part.txt"
  mv "$part.txt" "$lock"
  : >"$part"
}

resolve requirements.txt .venv "$@"
resolve requirements-ray.txt .venv-ray requirements-ray.in \
  --constraint requirements.txt
