#!/bin/sh
# Runs a shell command in a root directory. All processes that it starts end with it.
#
#   enter.sh BASE DIRECTORY COMMAND
#
# BASE is not changed: what the command writes is in DIRECTORY. It uses the host's network.
set -eu
# shellcheck disable=SC2016 # what is quoted runs inside
exec unshare --fork --kill-child --pid --mount sh -euc '
    cd "$2"
    mkdir -p root upper work
    mount -t overlay -o "lowerdir=$1,upperdir=upper,workdir=work" overlay root
    mount -t proc proc root/proc
    mount --rbind /dev root/dev
    mount -t tmpfs tmpfs root/tmp
    # The host may reach package indexes by names and certificates of its own.
    # Not every debootstrap writes a file of hosts, and without one there is no localhost.
    touch root/etc/hosts
    for path in /etc/hosts /etc/resolv.conf /etc/ssl/certs; do
        mount --bind "$path" "root$path"
    done
    exec chroot root sh -c "$3"
' sh "$@"
