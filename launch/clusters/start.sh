#!/bin/sh
# start.sh head [FLAG...]: starts Ray on this machine, as the head of a cluster.
# start.sh join HOST:PORT [FLAG...]: starts Ray on this machine, and joins it to
# the cluster whose head is there.
# start.sh run HOST:PORT MACHINES [FLAG...] -- COMMAND: started on so many
# machines at once, starts Ray on each, its head on HOST, where COMMAND runs once
# all have joined; when that has ended, so does Ray. SIGTERM is for COMMAND, and
# the other machines wait for its end.
# FLAGs are those of `ray start`, such as --num-cpus=N, and but for `run`
# --node-ip-address=ADDRESS or --block; they win over what is set here.
#
# The token that machines and drivers need is read from RAY_AUTH_TOKEN, or else
# from the file RAY_AUTH_TOKEN_PATH (~/.ray/auth_token), the same on all.
# This machine's certificate and its key are in ~/.ray/tls (`slipway
# certificates` makes them), unless RAY_USE_TLS is set: to 1 with Ray's own
# variables for other files, to 0 for plaintext.
set -eu
usage="start.sh head, start.sh join HOST:PORT, or start.sh run HOST:PORT \
MACHINES -- COMMAND"
root=$(cd "$(dirname "$0")/../.." && pwd)
ray=$root/.venv/bin/ray
# Installed from the wheel, this file is in the environment that has Ray.
[ -x "$root/tools/setup.sh" ] || ray=$(cd "$root/../../../.." && pwd)/bin/ray

fail() {
  echo "start: $*" >&2
  exit 1
}

# Fails if other users can read the token.
check_token_file() {
  [ -f "$1" ] || fail "no token for Ray's authentication in $1: make one by" \
    "\`(umask 077; $ray get-auth-token --generate)\` and copy it to each machine"
  case $(stat -Lc %a "$1") in
  *00) ;;
  *) fail "other users can read Ray's token in $1, and with it run anything" \
    "on the cluster: \`chmod 600 $1\`" ;;
  esac
  grep -q '[^[:space:]]' "$1" || fail "Ray's token in $1 is empty: remove the" \
    "file and make one by \`(umask 077; $ray get-auth-token --generate)\`"
}

check_address() {
  case $2 in
  *?:?*) ;;
  *) fail "$1 needs the head's HOST:PORT, not '$2'" ;;
  esac
}

# Runs `ray symmetric-run` to its end, and hands a SIGTERM on to the command:
# Ray itself would kill the command, and end this machine at once.
run_all() {
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  trap '[ ! -s "$folder/pid" ] || kill -TERM "$(cat "$folder/pid")" || true' TERM
  split=no
  for argument; do
    shift
    set -- "$@" "$argument"
    [ "$split $argument" = "no --" ] || continue
    split=yes
    set -- "$@" sh -c '"$@" & echo $! >"$0/pid"
status=0; wait $! || status=$?
echo $status >"$0/status"' "$folder"
  done
  [ $split = yes ] || fail "run needs -- and a command: $usage"
  "$ray" symmetric-run "$@" &
  status=143
  while [ $status -eq 143 ] && kill -0 $! 2>/dev/null; do
    status=0
    wait $! || status=$? # 143 after a signal; it is then waited for again
  done
  # Ray's own status where the command did not run: on the other machines, and
  # if Ray did not start. Where it did, it fails at losing the Ray it has ended.
  [ ! -s "$folder/status" ] || status=$(cat "$folder/status")
  return "$status"
}

mode=${1-}
case $mode in
head)
  shift
  set -- --head --include-dashboard=false "$@"
  ;;
join)
  check_address join "${2-}"
  address=$2
  shift 2
  set -- --address="$address" "$@"
  ;;
run)
  check_address run "${2-}"
  case ${3-} in
  '' | *[!0-9]*) fail "run needs the number of machines, not '${3-}'" ;;
  esac
  address=$2 machines=$3
  shift 3
  # No --include-dashboard=false, which only a head takes: it is on loopback.
  set -- --address="$address" --min-nodes="$machines" "$@"
  ;;
*) fail "$usage; not '$mode'" ;;
esac

export RAY_AUTH_MODE=token # Off by default.
if [ -z "${RAY_AUTH_TOKEN-}" ]; then
  export RAY_AUTH_TOKEN_PATH="${RAY_AUTH_TOKEN_PATH:-$HOME/.ray/auth_token}"
  check_token_file "$RAY_AUTH_TOKEN_PATH"
fi
if [ -z "${RAY_USE_TLS-}" ]; then
  tls=$HOME/.ray/tls
  [ -r "$tls/key.pem" ] || fail "no certificate of this machine in $tls: make" \
    "one by \`slipway certificates\` and copy its folder there, or on a private" \
    "network set RAY_USE_TLS=0"
  export RAY_USE_TLS=1 RAY_TLS_CA_CERT="$tls/authority.pem" \
    RAY_TLS_SERVER_CERT="$tls/certificate.pem" RAY_TLS_SERVER_KEY="$tls/key.pem"
fi
[ ! -x "$root/tools/setup.sh" ] || "$root/tools/setup.sh"

# A machine that is silent is given up by the head after 5 probes, in 20 s.
export RAY_health_check_period_ms=1000
export RAY_health_check_timeout_ms=3000
# A head that is silent, or that this machine is cut off from, is given up after
# 10 s without an acknowledgement and 10 s of calling it: Ray ends here, with its
# actors, instead of going on for minutes.
export RAY_grpc_client_keepalive_timeout_ms=10000
export RAY_gcs_rpc_server_reconnect_timeout_s=10
export RAY_enable_pipe_based_agent_to_parent_health_check=1
export RAY_DEDUP_LOGS=0
export RAY_USAGE_STATS_ENABLED=0
# Start workers only when they are used; metrics are not read.
export RAY_enable_worker_prestart=0
export RAY_prestart_worker_first_driver=0
export RAY_enable_metrics_collection=0
# These two would publish metrics without authentication; -1 turns them off.
export AUTOSCALER_METRIC_PORT=-1
export DASHBOARD_METRIC_PORT=-1

# Slipway passes no data through Ray: 80 MB is about its least.
set -- --object-store-memory=80000000 --log-color=false "$@"
if [ "$mode" = run ]; then
  # It calls `ray`, and COMMAND is to find Ray too.
  export PATH="${ray%/*}:$PATH"
  # Many machines that read one shared folder are slower than 30 s.
  export RAY_SYMMETRIC_RUN_CLUSTER_WAIT_TIMEOUT=300
  run_all "$@"
  exit
fi
set -- start "$@"
case " $* " in
*" --block "*) exec "$ray" "$@" ;;
esac
output=$("$ray" "$@" 2>&1) || fail "Ray did not start, and printed:
$output"
