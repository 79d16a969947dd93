#!/bin/sh
# setup.sh [ray]: builds .venv from requirements.txt, or .venv-ray from
# requirements-ray.txt, and installs this folder in it as the package slipway.
# Does nothing if both are up to date, which two stamps in the venv record: the
# lock's checksum; pyproject.toml's checksum and the folder, which may be moved.
# They are written last, so that an interrupted build starts again.
set -eu
cd "$(dirname "$0")/.."
venv=.venv${1:+-$1}
requirements=requirements${1:+-$1}.txt
stamp=$venv/requirements.sha256
lock=$(sha256sum "$requirements")
package="$(sha256sum pyproject.toml) $PWD"

built() {
  [ -x "$venv/bin/python" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$lock" ]
}

installed() {
  [ "$(cat "$venv/slipway" 2>/dev/null)" = "$package" ]
}

# Installs a link to this folder, so that edits take effect immediately.
install_slipway() {
  rm -f "$venv/slipway"
  tools/uv.sh pip install -q --python "$venv/bin/python" --no-deps \
    --no-build-isolation -e . ||
    fail "this folder could not be installed in $venv: see uv's message above"
  echo "$package" >"$venv/slipway"
}

fail() {
  echo "setup: $*" >&2
  exit 1
}

# Before 3.10.9 every user of the machine can run code in multiprocessing's fork
# server (CVE-2022-42919). Without 3.10, a pyenv shim on PATH exists but fails.
is_cpython_3_10() {
  "$1" -c 'import sys
sys.exit(sys.implementation.name != "cpython"
         or not (3, 10, 9) <= sys.version_info < (3, 11))
' >/dev/null 2>&1
}

# Prints the path of a suitable Python; prints nothing if there is none.
find_python() {
  for python in python3.10 \
    "${PYENV_ROOT:-${HOME:-}/.pyenv}"/versions/3.10.*/bin/python; do
    if is_cpython_3_10 "$python"; then
      "$python" -c 'import sys; print(sys.executable)'
      return
    fi
  done
}

if built && installed; then exit 0; fi
[ "$(uname -sm)" = "Linux x86_64" ] ||
  fail "this machine is $(uname -sm): Reverb and Launchpad have wheels for" \
    "x86-64 Linux only; use such a machine or container"
mkdir -p .cache
exec 9>.cache/setup.lock
flock 9
if built; then # by another make meanwhile; slipway itself may be missing
  installed || install_slipway
  exit 0
fi

start=$(date +%s)
echo "setup: installing $(grep -c '^[a-z].*==' "$requirements") packages" \
  "into $venv (0.7 GB to fetch the first time)" >&2
tools/uv.sh --version >/dev/null # Fails with its own message.
# If this build fails, for example without a network, the old venv is restored.
before=$venv.before
rm -rf "$before"
[ ! -d "$venv" ] || mv "$venv" "$before"
restore() {
  rm -rf "$venv"
  [ ! -d "$before" ] || mv "$before" "$venv"
}
trap restore EXIT
trap 'exit 1' INT TERM HUP
python=$(find_python)
if [ -n "$python" ]; then
  tools/uv.sh venv -q --clear --python "$python" "$venv"
else
  tools/uv.sh venv -q --clear --managed-python --python 3.10 "$venv" \
    2>/dev/null ||
    fail "no CPython 3.10: not python3.10 on PATH, not in pyenv, and uv" \
      "could not fetch one; install it (\`pyenv install 3.10\`, or" \
      "\`uv python install 3.10\` where GitHub is reachable)"
fi
# Compiles bytecode, since otherwise, with PYTHONDONTWRITEBYTECODE, each process
# would compile TensorFlow's 3,000 modules (3 s).
tools/uv.sh pip install -q --python "$venv/bin/python" --no-deps \
  --require-hashes --build-constraints "$requirements" --compile-bytecode \
  -r "$requirements" ||
  fail "the packages of $requirements could not be installed: see uv's" \
    "message above; uv needs PyPI or the mirror that pip is set to"
install_slipway
echo "$lock" >"$stamp"
trap - EXIT
rm -rf "$before"
echo "setup: done in $(($(date +%s) - start)) s" >&2
