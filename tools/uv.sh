#!/bin/sh
# Runs uv, which pip installs on first use, with pip's settings:
#   tools/uv.sh pip install ...
# uv reads neither pip.conf nor PIP_*, so it would ignore a mirror, a certificate
# or a folder of wheels that the user has configured for pip.
set -eu
cd "$(dirname "$0")/.."
version=$(sed -n 's/^uv==\([^ ]*\).*/\1/p' tools/uv.txt)
home=.cache/uv/$version
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore

fail() {
  echo "setup: $*" >&2
  exit 1
}

# Prints a command that runs pip, of a Python or of a new venv.
find_pip() {
  for python in python3 python3.11 python; do
    if "$python" -m pip --version >/dev/null 2>&1; then
      echo "$python -m pip"
      return
    fi
  done
  if python3 -m venv --clear .cache/pip >/dev/null 2>&1; then
    echo ".cache/pip/bin/python -m pip"
    return
  fi
  fail "no pip: python3 has neither pip nor venv; install them, on Debian" \
    "with \`apt-get install python3-venv python3-pip\`, and run make again"
}

# setting NAME: prints a setting of pip; environment variables take precedence.
setting() {
  printf '%s\n' "$settings" |
    sed -n "s/^[^.]*\.$1='\(.*\)'\$/\1/p" | sed 's/\\n/ /g' | head -n 1
}

# give VARIABLE VALUE: exports a variable, unless the user has set it.
give() {
  eval "current=\${$1:-}"
  if [ -n "$2" ] && [ -z "$current" ]; then export "$1=$2"; fi
}

mkdir -p .cache/uv
pip=$(find_pip)
if ! [ -x "$home/bin/uv" ]; then
  part=$(mktemp -d .cache/uv/part.XXXXXX)
  trap 'rm -rf "$part"' EXIT
  $pip install -qq --no-deps --require-hashes --only-binary :all: \
    --target "$part" -r tools/uv.txt ||
    fail "pip could not install uv==$version: see pip's message above;" \
      "pip needs PyPI or a mirror of it (\`pip config set global.index-url\`)"
  rm -rf "$home"
  mv "$part" "$home"
  trap - EXIT
fi

settings=$($pip config list 2>/dev/null || true)
give UV_DEFAULT_INDEX "$(setting index-url)"
give UV_INDEX "$(setting extra-index-url)"
give SSL_CERT_FILE "$(setting cert)"
give ALL_PROXY "$(setting proxy)"
give UV_INSECURE_HOST "$(setting trusted-host)"
folders=
for folder in $(setting find-links); do
  # pip ignores a folder that does not exist; uv fails.
  case $folder in
    *://*) folders="$folders,$folder" ;;
    *) if [ -d "$folder" ]; then folders="$folders,$folder"; fi ;;
  esac
done
give UV_FIND_LINKS "${folders#,}"
# Like pip, takes the best version of all indexes, not that of the first index;
# this is safe because the lock has hashes.
give UV_INDEX_STRATEGY unsafe-best-match
exec "$home/bin/uv" "$@"
