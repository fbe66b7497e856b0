#!/bin/sh
# Removes what install.sh installed. See docs/install.md.
#
#   install.sh --uninstall [--purge [--yes]] [--prefix ROOT]
#
# Data, settings and the user stay, so that a new installation continues with them: they cannot be
# made again. --purge removes them too; it asks first, unless --yes is given. After an interrupted
# installation or removal, this removes what is left.
set -eu

say() { echo "verifyd: $*"; }
fail() {
    echo "verifyd: $*" >&2
    exit 1
}

root=
purge=no
yes=no
while [ $# -gt 0 ]; do
    case $1:${2:+value} in
        --uninstall:*) ;;
        --purge:*) purge=yes ;;
        --yes:*) yes=yes ;;
        --prefix:value) root=$(readlink -m "$2") && shift ;;
        *)
            echo "usage: install.sh --uninstall [--purge [--yes]] [--prefix ROOT]" >&2
            exit 2
            ;;
    esac
    shift
done

home=$root/opt/verifyd
etc=$root/etc/verifyd
data=$root/var/lib/verifyd
credentials=$root/etc/credstore
units=$root/etc/systemd/system
site=$root/etc/nginx/sites-available/verifyd.conf

has_systemd() { [ -z "$root" ] && [ -d /run/systemd/system ]; }

confirm_purge() {
    if grep -qF " $data/" /proc/self/mounts; then
        fail "nothing was changed: something is mounted below $data; unmount it first"
    fi
    [ $yes = no ] || return 0
    [ -t 0 ] || fail "nothing was changed: without a terminal, confirm --purge with --yes"
    printf 'verifyd: delete %s with all data, %s and the user verifyd? [y/N] ' "$data" "$etc"
    read -r answer || answer=
    case $answer in [Yy] | [Yy][Ee][Ss]) ;; *) fail "nothing was changed" ;; esac
}

# Names of the units that are links into a release.
linked_units() {
    for unit in "$units"/verifyd*; do
        case $(readlink "$unit" || true) in
            /opt/verifyd/*) echo "${unit##*/}" ;;
        esac
    done
}

remove_units() {
    names=$(linked_units)
    if has_systemd && [ -n "$names" ]; then
        # shellcheck disable=SC2086 # names are words
        systemctl stop $names 2>/dev/null || true
        # shellcheck disable=SC2086
        systemctl disable --quiet $names 2>/dev/null || true
        ! systemctl is-active --quiet verifyd.service ||
            fail "verifyd.service does not stop; run systemctl status verifyd to see why"
    fi
    for name in $names; do rm -f "$units/$name" "$units"/*.wants/"$name"; done
    for dropped_in in "$units"/verifyd*.d; do
        [ -d "$dropped_in" ] || continue
        rm -f "$dropped_in/hardening.conf"
        [ $purge = no ] || rm -rf "$dropped_in"
        [ ! -d "$dropped_in" ] || rmdir --ignore-fail-on-non-empty "$dropped_in"
    done
    rm -f "$root"/var/lib/systemd/timers/stamp-verifyd*.timer
    ! has_systemd || systemctl daemon-reload
}

remove_site() {
    enabled=$root/etc/nginx/sites-enabled/verifyd.conf
    [ ! -L "$enabled" ] || rm "$enabled"
    # As install.sh adapts it to nginx 1.25.1 and newer.
    adapted='/^    http2 on;$/d; s/^\(    listen .*443 ssl\) default_server/\1 http2 default_server/'
    if [ $purge = yes ] || sed "$adapted" "$site" 2>/dev/null |
        cmp -s - "$home/current/nginx/verifyd.conf"; then
        rm -f "$site" "$site.new"
    elif [ -e "$site" ]; then
        say "$site was edited, so it stays"
    fi
    has_systemd && systemctl is-active --quiet nginx || return 0
    if nginx -t 2>/dev/null; then
        systemctl reload nginx
    else
        say "nginx was not reloaded; run sudo nginx -t to see why" >&2
    fi
}

remove_program() {
    case $(readlink "$root/usr/local/bin/verifyd" || true) in
        /opt/verifyd/*) rm "$root/usr/local/bin/verifyd" ;;
    esac
    for page in "$root"/usr/local/share/man/man?/verifyd*; do
        case $(readlink "$page" || true) in
            /opt/verifyd/*) rm "$page" && rmdir --ignore-fail-on-non-empty "${page%/*}" ;;
        esac
    done
    rm -rf "$home" "$root/run/verifyd" "$root/run/verifyd.sock"
}

remove_data() {
    rm -rf "$etc" "$credentials/verifyd.database_url" "$credentials/verifyd.notify_secret" \
        "$credentials/verifyd.console_proxy_secret" "$root/etc/nginx/verifyd.passwords"
    [ ! -d "$credentials" ] || rmdir --ignore-fail-on-non-empty "$credentials"
    rm -f "$root"/var/log/nginx/verifyd.log* "$root"/var/log/nginx/verifyd.error.log*
    if [ -d "$data" ]; then
        find "$data" -xdev -mindepth 1 -delete
        rmdir "$data" 2>/dev/null || say "$data is empty, but stays: a disk is mounted there"
    fi
    if grep -q '^verifyd:' "$root/etc/passwd" 2>/dev/null; then
        userdel ${root:+--prefix "$root"} verifyd
    fi
}

[ -n "$root" ] || [ "$(id -u)" -eq 0 ] || fail "only root can remove verifyd; run sudo $0 $*"
[ $purge = no ] || confirm_purge
if [ -d "$home" ]; then
    exec 9>"$home/.lock"
    flock --nonblock 9 ||
        fail "nothing was changed: an installation is running; try again when it has ended"
fi
remove_units
remove_site
remove_program
if [ $purge = yes ]; then
    remove_data
    say "removed with all data; a Postgres database stays"
else
    say "removed; $data, $etc and the user verifyd stay; --purge removes them too"
fi
