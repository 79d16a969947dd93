#!/bin/sh
# setup.sh [dev]: builds .venv from requirements.txt, with Launchpad and this
# folder as the package slipway; with `dev`, adds requirements-dev.txt. GPU=1
# builds it from requirements-gpu.txt, GPU=0 from requirements.txt again.
# Does nothing if all is up to date, which stamps in .venv record: checksums of
# the locks, and for slipway of pyproject.toml and the folder, which may be moved.
# They are written last, so that an interrupted build starts again.
set -eu
cd "$(dirname "$0")/.."
venv=.venv
dev=${1:-}
base=$(sed -n 's/.* \(requirements.*txt\)$/\1/p' $venv/base 2>/dev/null || true)
case ${GPU:-} in
  1) base=requirements-gpu.txt ;;
  0) base=requirements.txt ;;
esac
base=${base:-requirements.txt}
package="$(sha256sum pyproject.toml) $PWD"

# up_to_date STAMP: whether the files of a stamp are as they were.
up_to_date() {
  [ -x $venv/bin/python ] && sha256sum --check --status "$venv/$1" 2>/dev/null
}

# Is out of date, too, where an older set of checks could leave packages behind.
has_base() {
  up_to_date base && grep -q " $base\$" $venv/base &&
    { [ ! -e $venv/dev ] || up_to_date dev; }
}

has_dev() {
  [ -z "$dev" ] || up_to_date dev
}

has_slipway() {
  [ "$(cat $venv/slipway 2>/dev/null)" = "$package" ]
}

fail() {
  echo "setup: $*" >&2
  exit 1
}

# install ARGUMENT...: installs in .venv. Compiles bytecode, since otherwise, with
# PYTHONDONTWRITEBYTECODE, each process would compile TensorFlow's 3,000 modules.
install() {
  tools/uv.sh pip install -q --python $venv/bin/python --no-deps \
    --compile-bytecode "$@"
}

# install_lock LOCK: installs the packages of a lock.
install_lock() {
  install --require-hashes -r "$1" ||
    fail "the packages of $1 could not be installed: see uv's message above;" \
      "uv needs PyPI or the mirror that pip is set to"
}

install_dev() {
  install_lock requirements-dev.txt
  sha256sum requirements-dev.txt >$venv/dev
}

# Installs a link to this folder, so that edits take effect immediately.
install_slipway() {
  rm -f $venv/slipway
  install --no-build-isolation -e . ||
    fail "this folder could not be installed in $venv: see uv's message above"
  echo "$package" >$venv/slipway
}

# Before 3.11.1 every user of the machine can run code in multiprocessing's fork
# server (CVE-2022-42919). Without 3.11, a pyenv shim on PATH exists but fails.
is_cpython_3_11() {
  "$1" -c 'import sys
sys.exit(sys.implementation.name != "cpython"
         or not (3, 11, 1) <= sys.version_info < (3, 12))
' >/dev/null 2>&1
}

# Prints the path of a suitable Python; prints nothing if there is none.
find_python() {
  for python in python3.11 python3 \
    "${PYENV_ROOT:-${HOME:-}/.pyenv}"/versions/3.11.*/bin/python; do
    if is_cpython_3_11 "$python"; then
      "$python" -c 'import sys; print(sys.executable)'
      return
    fi
  done
}

if has_base && has_dev && has_slipway; then exit 0; fi
[ "$(uname -sm)" = "Linux x86_64" ] ||
  fail "this machine is $(uname -sm): Reverb has wheels for x86-64 Linux only;" \
    "use such a machine or container"
mkdir -p .cache
exec 9>.cache/setup.lock
flock 9

start=$(date +%s)
if ! has_base; then # Another make may have built it meanwhile.
  echo "setup: installing $(grep -c '^[a-z].*==' "$base") packages of $base" \
    "into $venv (0.7 GB to fetch the first time$(
      [ $base = requirements.txt ] || echo ", and 2 GB of CUDA"
    ))" >&2
  tools/uv.sh --version >/dev/null # Fails with its own message.
  # If this build fails, for example without a network, the old venv is restored.
  before=$venv.before
  rm -rf "$before"
  [ ! -d $venv ] || mv $venv "$before"
  restore() {
    rm -rf $venv
    [ ! -d "$before" ] || mv "$before" $venv
  }
  trap restore EXIT
  trap 'exit 1' INT TERM HUP
  python=$(find_python)
  if [ -n "$python" ]; then
    tools/uv.sh venv -q --clear --python "$python" $venv
  else
    tools/uv.sh venv -q --clear --managed-python --python 3.11 $venv \
      2>/dev/null ||
      fail "no CPython 3.11: not python3.11 on PATH, not in pyenv, and uv" \
        "could not fetch one; install it (\`apt-get install python3.11\`," \
        "\`pyenv install 3.11\`, or \`uv python install 3.11\` where GitHub is" \
        "reachable)"
  fi
  install_lock "$base"
  launchpad=$($venv/bin/python tools/launchpad_wheel.py .cache) ||
    fail "Launchpad could not be fetched: see uv's message above"
  install "$launchpad"
  [ -z "$dev" ] || install_dev
  install_slipway
  sha256sum "$base" tools/launchpad.txt tools/launchpad_wheel.py >$venv/base
  trap - EXIT
  rm -rf "$before"
else
  has_dev || {
    echo "setup: installing the packages of requirements-dev.txt" \
      "(0.2 GB to fetch the first time)" >&2
    install_dev
  }
  has_slipway || install_slipway
fi
echo "setup: done in $(($(date +%s) - start)) s" >&2
