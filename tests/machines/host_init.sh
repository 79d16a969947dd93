#!/bin/sh
# host_init.sh NAME FOLDER SHARED PATH...: process 1 of a simulated host
# (hosts.py), in namespaces of its own. The host gets the name NAME, the table of
# host names in FOLDER, and its own /tmp and /dev/shm. Each PATH below /tmp is
# still the machine's, and so is FOLDER if SHARED is "yes". The script prints
# "ready", and ends when its standard input is closed.
set -eu
name=$1 folder=$2 shared=$3
shift 3
[ "$shared" = yes ] && set -- "$@" "$folder"

echo "$name" >/proc/sys/kernel/hostname
mount --bind "$folder/hosts" /etc/hosts
[ "$shared" = yes ] || mount -t tmpfs none "$folder"
mount -t tmpfs -o mode=1777 shm /dev/shm
# The new /tmp hides the machine's, so its mounts are prepared elsewhere first.
aside=/dev/shm/tmp
mkdir "$aside"
mount -t tmpfs -o mode=1777 tmp "$aside"
for path; do
  case $path in
  /tmp/*)
    mkdir -p "$aside${path#/tmp}"
    mount --rbind "$path" "$aside${path#/tmp}"
    ;;
  esac
done
mount --move "$aside" /tmp
rmdir "$aside"

echo ready
# The kernel itself reaps the orphans of a pid 1 that ignores SIGCHLD.
exec env --ignore-signal=CHLD cat
