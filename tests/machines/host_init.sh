#!/bin/sh
# host_init.sh NAME FOLDER SHARED PATH...: pid 1 of a host of hosts.py, in its
# new namespaces. Gives it the NAME, the FOLDER's table of names, and a /tmp and
# a /dev/shm of its own, in which each PATH is still the machine's; so is FOLDER
# if SHARED is "yes". Says "ready", and lives until its standard input ends.
set -eu
name=$1 folder=$2 shared=$3
shift 3
[ "$shared" = yes ] && set -- "$@" "$folder"

echo "$name" >/proc/sys/kernel/hostname
mount --bind "$folder/hosts" /etc/hosts
[ "$shared" = yes ] || mount -t tmpfs none "$folder"
mount -t tmpfs -o mode=1777 shm /dev/shm
# Put together aside, as it hides what it shows again.
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
