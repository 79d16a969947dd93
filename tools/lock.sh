#!/bin/sh
# Resolves the three locks from scratch: packages whose versions the .in files do
# not pin move to their newest release.
set -eu
cd "$(dirname "$0")/.."
mkdir -p .cache
work=$(mktemp -d .cache/lock.XXXXXX)
trap 'rm -rf "$work"' EXIT

# resolve LOCK SOURCE ARGUMENT...: resolves SOURCE to $work/LOCK.
resolve() {
  lock=$1 source=$2
  shift 2
  tools/uv.sh pip compile -q "$source" --excludes tools/excludes.txt \
    --python-version 3.11 --python-platform x86_64-manylinux_2_28 \
    --generate-hashes --no-annotate --no-header --no-emit-index-url \
    --output-file "$work/$lock" "$@" >/dev/null
}

# publish LOCK COMMENT: writes LOCK, after two lines of comment.
publish() {
  {
    echo "# $2"
    echo "# Made by \`make lock\`; installed with --no-deps, since some packages pin others."
    cat "$work/$1"
  } >"$work/new"
  mv "$work/new" "$1"
}

resolve requirements.txt requirements.in "$@"
# The same releases, but for TensorFlow and the libraries of CUDA.
sed 's/^tensorflow-cpu==/tensorflow[and-cuda]==/' requirements.in >"$work/gpu.in"
sed -n '/^tensorflow-cpu==/d; s/^\([a-z].*==[^ ]*\).*/\1/p' \
  "$work/requirements.txt" >"$work/constraints"
resolve requirements-gpu.txt "$work/gpu.in" --constraint "$work/constraints"
resolve requirements-dev.txt requirements-dev.in \
  --constraint "$work/requirements.txt" requirements.in
# What requirements.txt has is left out.
awk '/^[a-z]/ { split($1, name, "==") }
  NR == FNR { has[name[1]]; next }
  !(name[1] in has)' "$work/requirements.txt" "$work/requirements-dev.txt" \
  >"$work/new"
mv "$work/new" "$work/requirements-dev.txt"

publish requirements.txt "All packages of requirements.in, with hashes, but for Launchpad."
publish requirements-gpu.txt "requirements.txt, with TensorFlow for NVIDIA's GPUs."
publish requirements-dev.txt "Packages of requirements-dev.in that requirements.txt does not have."
