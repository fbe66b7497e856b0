#!/bin/sh
# verifyd as the service runs it: with its settings, as its user. `sudo verifyd accounts list`
set -eu
settings=/etc/verifyd/verifyd.env
credential=/etc/credstore/verifyd.database_url
secret=/etc/credstore/verifyd.notify_secret
program=$(dirname "$(readlink -f "$0")")/verifyd

fail() {
    echo "verifyd: $*" >&2
    exit 1
}

[ "$(id -un)" = verifyd ] || [ "$(id -u)" -eq 0 ] ||
    fail "only root and the user verifyd may do so: sudo verifyd $*"
[ -f "$settings" ] || fail "there is no $settings: begin with ${program%/*}/verifyd.env.example"

# The settings in the file win. A command such as `restore` must not use another database than
# the environment says. A unit has the settings of the file in its environment already; systemd gives
# it an INVOCATION_ID.
given=
[ -n "${INVOCATION_ID-}" ] || given=" $(env | sed -n 's/^\(VERIFYD_[A-Z_]*\)=.*/\1/p' | tr '\n' ' ')"

# As systemd reads it: NAME=VALUE, the value perhaps in quotes; nothing in it is run. What systemd
# would read in another way, or pass over in silence, is refused.
number=0
while IFS= read -r line || [ -n "$line" ]; do
    number=$((number + 1))
    case $line in
        '#'* | ';'*) continue ;;
        *[![:space:]]*) ;;
        *) continue ;;
    esac
    # SEC: the line is not repeated; it may hold a password.
    case ${line%%=*} in
        "$line" | '' | [!A-Za-z_]* | *[!A-Za-z0-9_]*)
            fail "$settings, line $number: it must be NAME=VALUE, without export and spaces"
            ;;
    esac
    case $given in
        *" ${line%%=*} "*)
            fail "${line%%=*} is set in the environment and in $settings; unset it," \
                "or run the program itself: sudo -u verifyd env ${line%%=*}=... $program"
            ;;
    esac
    value=${line#*=}
    case $value in
        \"*\" | \'*\') value=${value#?} && value=${value%?} ;;
    esac
    export "${line%%=*}=$value"
done <"$settings"
if [ -z "${VERIFYD_DATABASE_URL+set}" ]; then
    # By itself the program would take a file of wherever it is run.
    [ -r "$credential" ] ||
        fail "VERIFYD_DATABASE_URL is not in $settings, and $credential cannot be read"
    VERIFYD_DATABASE_URL=$(cat "$credential")
    export VERIFYD_DATABASE_URL
fi
if [ -z "${VERIFYD_NOTIFY_SECRET+set}" ] && [ -r "$secret" ]; then
    VERIFYD_NOTIFY_SECRET=$(cat "$secret")
    export VERIFYD_NOTIFY_SECRET
fi
# As in the units (hardening.conf): settings that were edited before a release need not name them.
export VERIFYD_DATA_DIR="${VERIFYD_DATA_DIR-/var/lib/verifyd}"
export VERIFYD_CERTIFICATE="${VERIFYD_CERTIFICATE-/etc/verifyd/tls/fullchain.pem}"
# The program unpacks itself there, and runs what it unpacked.
export TMPDIR="${TMPDIR:-/var/tmp}"

[ "$(id -un)" != verifyd ] || exec "$program" "$@"
exec setpriv --reuid=verifyd --regid=verifyd --init-groups -- "$program" "$@"
