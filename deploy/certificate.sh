#!/bin/sh
# Installs a renewed certificate and reloads nginx. See "Certificates" in docs/install.md.
#
#   certificate.sh [DIRECTORY]
#
# DIRECTORY holds fullchain.pem and privkey.pem; certbot's deploy hook names it in RENEWED_LINEAGE.
# Without a directory, nginx reads what is already in /etc/verifyd/tls. If nginx refuses the new
# certificate, the former one is restored, and nginx continues with it: a renewal at night must not
# stop the service.
set -eu
umask 077

tls=/etc/verifyd/tls
parts="fullchain.pem privkey.pem"
source=${1:-${RENEWED_LINEAGE:-}}

say() { echo "verifyd: $*"; }
fail() {
    echo "verifyd: $*" >&2
    exit 1
}

take() {
    for part in $parts; do
        [ -s "$source/$part" ] || fail "nothing was changed: $source/$part does not exist, or is empty"
    done
    for part in $parts; do
        [ ! -f "$tls/$part" ] || cp -p "$tls/$part" "$tls/$part.former"
        install -m 600 "$source/$part" "$tls/$part.part"
    done
    for part in $parts; do mv "$tls/$part.part" "$tls/$part"; done
}

put_back() {
    for part in $parts; do
        [ ! -f "$tls/$part.former" ] || mv "$tls/$part.former" "$tls/$part"
    done
}

[ "$(id -u)" -eq 0 ] || fail "only root can change the certificate; run sudo $0 $*"
[ -z "$source" ] || take
# The service reads when the certificate expires; only root can read the key.
chgrp verifyd "$tls/fullchain.pem"
chmod 640 "$tls/fullchain.pem"
if ! output=$(nginx -t 2>&1); then
    [ -z "$source" ] || put_back
    echo "$output" >&2
    fail "nginx refuses the certificate or its configuration; it was not reloaded"
fi
for part in $parts; do rm -f "$tls/$part.former"; done
if systemctl is-active --quiet nginx; then
    systemctl reload nginx
    say "nginx serves the certificate in $tls"
else
    say "nginx does not run; it reads the certificate in $tls when it starts"
fi
