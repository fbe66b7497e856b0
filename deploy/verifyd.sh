#!/bin/sh
# Runs verifyd as the service does, with its settings and as its user: `sudo verifyd accounts list`
set -eu
settings=/etc/verifyd/verifyd.env
credential=/etc/credstore/verifyd.database_url
secret=/etc/credstore/verifyd.notify_secret
proxy_secret=/etc/credstore/verifyd.console_proxy_secret
program=$(dirname "$(readlink -f "$0")")/verifyd

fail() {
    echo "verifyd: $*" >&2
    exit 1
}

[ "$(id -un)" = verifyd ] || [ "$(id -u)" -eq 0 ] ||
    fail "only root and the user verifyd can run this; run sudo verifyd $*"
[ -f "$settings" ] || fail "$settings does not exist; copy ${program%/*}/verifyd.env.example to it"

# A setting in the environment is refused if the file has it too: a command such as `restore` must
# not use another database than you expect. In a unit, systemd has already read the file into the
# environment, and sets INVOCATION_ID.
given=
[ -n "${INVOCATION_ID-}" ] || given=" $(env | sed -n 's/^\(VERIFYD_[A-Z_]*\)=.*/\1/p' | tr '\n' ' ')"

# Read the file as systemd does: NAME=VALUE, the value perhaps in quotes. Nothing in it is executed.
# A line that systemd would read differently, or ignore silently, is refused.
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
    # The default of the program is a file in the current directory.
    [ -r "$credential" ] ||
        fail "VERIFYD_DATABASE_URL is not in $settings, and $credential cannot be read"
    VERIFYD_DATABASE_URL=$(cat "$credential")
    export VERIFYD_DATABASE_URL
fi
if [ -z "${VERIFYD_NOTIFY_SECRET+set}" ] && [ -r "$secret" ]; then
    VERIFYD_NOTIFY_SECRET=$(cat "$secret")
    export VERIFYD_NOTIFY_SECRET
fi
if [ -z "${VERIFYD_CONSOLE_PROXY_SECRET+set}" ] && [ -r "$proxy_secret" ]; then
    VERIFYD_CONSOLE_PROXY_SECRET=$(cat "$proxy_secret")
    export VERIFYD_CONSOLE_PROXY_SECRET
fi
# The defaults of the units (hardening.conf), for a settings file that is older than these settings.
export VERIFYD_DATA_DIR="${VERIFYD_DATA_DIR-/var/lib/verifyd}"
export VERIFYD_CERTIFICATE="${VERIFYD_CERTIFICATE-/etc/verifyd/tls/fullchain.pem}"
# The program unpacks itself there, and executes what it unpacked.
export TMPDIR="${TMPDIR:-/var/tmp}"

[ "$(id -un)" != verifyd ] || exec "$program" "$@"
exec setpriv --reuid=verifyd --regid=verifyd --init-groups -- "$program" "$@"
