#!/bin/sh
# Boots the systemd of a root directory in namespaces of its own; ends with it.
#
#   boot.sh BASE DIRECTORY
#
# BASE is not changed: what the machine writes is in DIRECTORY. It has no network but loopback.
set -eu
base=$1
directory=$2
group=verifyd-test-$$

# What the machine does to its processes must not meet ours.
groups=
for hierarchy in /sys/fs/cgroup /sys/fs/cgroup/*; do
    # NOTE: a new group of cpuset takes no processes, and systemd makes none.
    if [ -f "$hierarchy/cgroup.procs" ] && [ "${hierarchy##*/}" != cpuset ]; then
        mkdir "$hierarchy/$group"
        groups="$groups $hierarchy/$group"
    fi
done
# shellcheck disable=SC2086 # names are words
trap 'find $groups -depth -type d -exec rmdir {} +' EXIT

mkdir -p "$directory/root" "$directory/upper" "$directory/work"
# shellcheck disable=SC2016 # what is quoted runs inside
sh -c '
    for group in $4; do echo $$ >"$group/cgroup.procs"; done
    exec unshare --fork --kill-child --pid --mount --uts --ipc --net --cgroup sh -euc "$3" sh "$1" "$2"
' sh "$base" "$directory" '
    cd "$2"
    mount -t overlay -o "lowerdir=$1,upperdir=upper,workdir=work" overlay root
    cd root
    mount -t proc proc proc
    mount -t sysfs sysfs sys
    mount -t tmpfs -o mode=755 tmpfs run
    mount -t tmpfs -o mode=755 tmpfs dev
    for device in null zero full random urandom tty; do
        touch "dev/$device"
        mount --bind "/dev/$device" "dev/$device"
    done
    mkdir dev/pts dev/shm old
    mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
    ln -s pts/ptmx dev/ptmx
    mount -t tmpfs tmpfs dev/shm
    if [ -f /sys/fs/cgroup/cgroup.procs ]; then
        mount -t cgroup2 cgroup2 sys/fs/cgroup
    else
        mount -t tmpfs -o mode=755 tmpfs sys/fs/cgroup
        mkdir sys/fs/cgroup/systemd sys/fs/cgroup/unified
        mount -t cgroup -o none,name=systemd cgroup sys/fs/cgroup/systemd
        mount -t cgroup2 cgroup2 sys/fs/cgroup/unified
    fi
    hostname machine
    ip link set lo up
    pivot_root . old
    umount -l old
    # As systemd expects it of whoever starts it in namespaces: credentials are mounts.
    mount --make-rshared /
    exec env -i container=verifyd PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd
' "$groups"
