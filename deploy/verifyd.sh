#!/bin/sh
# verifyd as the service runs it: with its settings, as its user. `sudo verifyd accounts list`
set -eu
settings=/etc/verifyd/verifyd.env
credential=/etc/credstore/verifyd.database_url
program=$(dirname "$(readlink -f "$0")")/verifyd

if [ "$(id -un)" != verifyd ] && [ "$(id -u)" -ne 0 ]; then
    echo "verifyd: only root and the user verifyd may do so: sudo verifyd $*" >&2
    exit 1
fi

# As systemd reads it: NAME=VALUE, the value perhaps in quotes; nothing in it is run.
while IFS= read -r line || [ -n "$line" ]; do
    case $line in
        [A-Z]*=*) ;;
        *) continue ;;
    esac
    value=${line#*=}
    case $value in
        \"*\" | \'*\') value=${value#?} && value=${value%?} ;;
    esac
    export "${line%%=*}=$value"
done <"$settings"
if [ -z "${VERIFYD_DATABASE_URL+set}" ] && [ -r "$credential" ]; then
    VERIFYD_DATABASE_URL=$(cat "$credential")
    export VERIFYD_DATABASE_URL
fi
# The program unpacks itself there, and runs what it unpacked.
export TMPDIR="${TMPDIR:-/var/tmp}"

[ "$(id -un)" != verifyd ] || exec "$program" "$@"
exec setpriv --reuid=verifyd --regid=verifyd --init-groups -- "$program" "$@"
