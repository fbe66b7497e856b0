#!/bin/sh
# Installs verifyd, or upgrades it to this release. See docs/install.md.
#
#   install.sh [--trust-key FILE] [--prefix ROOT] [--no-backup] [--binary FILE]
#   install.sh --uninstall [--purge [--yes]] [--prefix ROOT]
#
# Before anything is run or copied, the files of a release are compared with its SHA256SUMS, and
# their signature with the keys in /etc/verifyd/release-signers. --trust-key stores a key there.
#
# A second run changes nothing. An upgrade checks, backs up, migrates, switches, restarts, and waits
# until the service is ready. If it does not become ready, the previous release is restored. A file
# that you edited is never overwritten: its new version is saved alongside with the suffix .new.
# To go back to the previous release, run /opt/verifyd/previous/install.sh.
set -eu
umask 022

say() { echo "verifyd: $*"; }
warn() { echo "verifyd: warning: $*" >&2; }
fail() {
    echo "verifyd: $*" >&2
    exit 1
}

here=$(dirname "$(readlink -f "$0")")
for word in "$@"; do
    [ "$word" != --uninstall ] || exec "$here/uninstall.sh" "$@"
done
root=
binary=
trusted=
backup=yes
while [ $# -gt 0 ]; do
    case $1:${2:+value} in
        --binary:value) binary=$2 && shift ;;
        --trust-key:value) trusted=$2 && shift ;;
        --prefix:value) root=$(readlink -m "$2") && shift ;;
        --no-backup:*) backup=no ;;
        *)
            echo "usage: install.sh [--trust-key FILE] [--prefix ROOT] [--no-backup] [--binary FILE]" >&2
            echo "       install.sh --uninstall [--purge [--yes]] [--prefix ROOT]" >&2
            exit 2
            ;;
    esac
    shift
done

home=$root/opt/verifyd
etc=$root/etc/verifyd
data=$root/var/lib/verifyd
systemd=$root/etc/systemd/system
site=$root/etc/nginx/sites-available/verifyd.conf
manual=$root/usr/local/share/man
socket=unix:/run/verifyd.sock
signers=$etc/release-signers

# --- What there is to install -------------------------------------------------------------------

services="verifyd verifyd-audit-prune verifyd-audit-seal verifyd-backup verifyd-check
    verifyd-import verifyd-report verifyd-watch" # each with hardening.conf
started="verifyd.socket verifyd-audit-prune.timer verifyd-audit-seal.timer verifyd-backup.timer
    verifyd-check.timer verifyd-import.timer verifyd-report.timer verifyd-watch.timer
    verifyd-notify.path verifyd-notify.timer"
enabled="verifyd.service $started"
units="verifyd.service verifyd.socket verifyd-audit-prune.service verifyd-audit-prune.timer
    verifyd-audit-seal.service verifyd-audit-seal.timer verifyd-backup.service verifyd-backup.timer
    verifyd-check.service verifyd-check.timer verifyd-import.service verifyd-import.timer
    verifyd-notify.path verifyd-notify.service verifyd-notify.timer verifyd-report.service
    verifyd-report.timer verifyd-watch.service verifyd-watch.timer"
files="README.md console-overview.png console-look-up.png console-phone.png
    FILES.md LOADING.md REFERENCE.md install.sh uninstall.sh certificate.sh
    fetch-open-data.sh verifyd.sh
    verifyd.env.example nginx/verifyd.conf nginx/http-password-file.conf
    nginx/server-password-file.conf nginx/http-auth-request.conf nginx/server-auth-request.conf
    systemd/hardening.conf
    monitoring/README.md monitoring/prometheus.yml monitoring/verifyd.rules.yml
    monitoring/verifyd.rules.test.yml monitoring/grafana/dashboards.yml
    monitoring/grafana/datasource.yml monitoring/grafana/verifyd.json
    scale-out/README.md scale-out/nginx.conf"
for unit in $units; do files="$files systemd/$unit"; done
files="$files $(cd "$here" && echo docs/*.md man/man?/*)" # man_pages.py has made man/
sums=$here/SHA256SUMS # a release has it, a checkout does not
checksums=
[ ! -f "$sums" ] || checksums=SHA256SUMS
[ ! -f "$sums.sig" ] || checksums="$checksums SHA256SUMS.sig"
documents="verifyd.cdx.json verifyd.licenses.txt" # what the binary is made of, beside it
above="CHANGELOG.md SECURITY.md" # beside the pages of a release, but above them in the source

# Print a page of the source's top with links that lead to the pages beside it.
print_above() {
    page=$here/$1
    [ -f "$page" ] || page=$here/../$1
    [ ! -f "$page" ] || sed 's,](deploy/,](,g' "$page"
}

find_binary() {
    if [ -z "$binary" ]; then
        binary=$here/verifyd
        [ -f "$binary" ] || [ -f "$sums" ] || binary=$here/../dist/verifyd
        [ -f "$binary" ] || fail "there is no binary; build it (make binary), or name it with --binary"
    fi
    [ -f "$binary" ] || fail "$binary does not exist, or is not a file"
    binary=$(readlink -f "$binary")
}

# It was checked when it was installed, and going back must not depend on keys.
is_installed() {
    [ "$binary" = "$here/verifyd" ] &&
        [ "$(dirname "$here")" = "$(readlink -m "$home/releases")" ]
}

# SEC: nothing of a release is run or copied before this, except this script: verify that by hand.
check_release() {
    ! is_installed || [ -n "$trusted" ] || return 0
    if [ -n "$trusted" ] || [ -e "$signers" ] || [ -L "$signers" ]; then
        check_signature
    elif [ -f "$sums.sig" ]; then
        warn "the signature of this release was not checked, because no key is stored;" \
            "store one with --trust-key FILE"
    else
        warn "this release is not signed"
    fi
    [ ! -f "$sums" ] || check_sums
}

check_signature() {
    if [ -n "$trusted" ]; then
        [ -f "$trusted" ] || fail "$trusted does not exist, or is not a file"
        signers=$(mktemp)
        trap 'rm -f "$signers"' EXIT
        sed -nE 's/^(sk-)?(ssh|ecdsa)-/verifyd &/p' "$trusted" >"$signers"
        [ -s "$signers" ] || fail "$trusted has no public key of ssh-keygen"
    fi
    keys=${trusted:-$signers}
    [ -f "$sums" ] || fail "$here has no SHA256SUMS, and releases must be signed by a key in $keys"
    [ -f "$sums.sig" ] || fail "$sums is not signed, and releases must be signed by a key in $keys"
    command -v ssh-keygen >/dev/null ||
        fail "ssh-keygen is not on this host, and is needed to check the signature of the release;" \
            "install openssh-client"
    ssh-keygen -Y verify -f "$signers" -I verifyd -n verifyd-release -s "$sums.sig" \
        <"$sums" >/dev/null 2>&1 ||
        fail "$sums was changed, or was signed by a key that is not in $keys; do not install this" \
            "release, download it again"
}

check_sums() {
    [ "$binary" = "$here/verifyd" ] || fail "a release has its own binary; run $0 without --binary"
    names="$files $above verifyd verifyd.cdx.json verifyd.licenses.txt"
    names="$names $(sed -n 's,^[0-9a-f]*  man/,man/,p' "$sums")"
    for name in $names; do
        [ -f "$here/$name" ] || fail "$here/$name is missing; unpack the archive again"
    done
    # shellcheck disable=SC2086 # names are words
    found=$(cd "$here" && sha256sum -- $names)
    [ "$found" = "$(echo "$found" | grep -xF -f "$sums")" ] ||
        fail "$sums does not have the checksum of" \
            "$(echo "$found" | grep -vxF -f "$sums" | cut -c 67- | paste -sd ' ');" \
            "do not install this release, download it again"
}

run_binary() {
    [ -x "$binary" ] || fail "$binary is not executable; run chmod +x $binary"
    versions=$(TMPDIR=${TMPDIR:-/var/tmp} "$binary" version --json || true)
    version=$(echo "$versions" | sed -n 's/^ *"version": "\([^"]*\)".*/\1/p')
    commit=$(echo "$versions" | sed -n 's/^ *"commit": "\([0-9a-f]\{12\}\).*/\1/p')
    named="$version${commit:+ ($commit)}"
    [ -n "$version" ] || fail "$binary does not run on this host: it needs glibc $(needed_glibc) or" \
        "newer, and 100 MB in a directory (TMPDIR) that is not mounted noexec. The oldest supported" \
        "systems are Debian 12, Ubuntu 22.04 and RHEL 9; this host has" \
        "$(getconf GNU_LIBC_VERSION 2>/dev/null || echo no glibc)"
}

# Print the version that the SBOM says, which depends on the system that built the binary.
needed_glibc() {
    told=$(sed -n '/"verifyd:glibc"/{n;s/[^0-9.]//gp;}' "${binary%/*}/verifyd.cdx.json" \
        2>/dev/null || true)
    echo "${told:-2.34}"
}

# A release is a directory named after its version and content: the binary, and the files beside this
# script.
lay_out_release() {
    # shellcheck disable=SC2086 # names are words
    digest=$({
        (cd "$here" && cat -- "$binary" $files $checksums)
        for name in $above; do print_above "$name"; done
    } | sha256sum | cut -c 1-12)
    release=$home/releases/$version-$digest
    [ -d "$release" ] && return
    rm -rf "$release.new"
    mkdir -p "$release.new"
    for file in $files $checksums; do
        mode=644
        case $file in *.sh) mode=755 ;; esac
        install -D -m "$mode" "$here/$file" "$release.new/$file"
    done
    for name in $above; do
        print_above "$name" >"$release.new/$name"
        [ -s "$release.new/$name" ] || rm "$release.new/$name"
    done
    install -m 755 "$binary" "$release.new/verifyd"
    for document in $documents; do
        [ ! -f "${binary%/*}/$document" ] ||
            install -m 644 "${binary%/*}/$document" "$release.new/$document"
    done
    find "$release.new" -exec sync {} +
    mv "$release.new" "$release"
}

# --- Where it goes -------------------------------------------------------------------------------

make_user() {
    if ! grep -q '^verifyd:' "$root/etc/passwd" 2>/dev/null; then
        if [ -n "$root" ] && [ ! -f "$root/etc/passwd" ]; then
            say "$root has no users yet; create the user verifyd there, then run this in it"
            return
        fi
        useradd ${root:+--prefix "$root"} --system --user-group --no-create-home \
            --home-dir /var/lib/verifyd --shell /usr/sbin/nologin verifyd
    fi
    owner=$(sed -n 's/^verifyd:[^:]*:\([0-9]*\):\([0-9]*\):.*/\1:\2/p' "$root/etc/passwd")
}
owner=

# place MODE OWNER DIRECTORY: creates a directory. An existing one keeps its mode. It also keeps its
# owner, unless that is root: then it was created before the user, or a disk is mounted there.
place() {
    [ -d "$3" ] || install -d -m "$1" "$3"
    [ -z "$2" ] || [ "$(stat -c %u:%g "$3")" != 0:0 ] || chown "$2" "$3"
}

# Print the name of the host's time zone; nothing if it has none.
host_zone() {
    linked=$(readlink "$localtime" || true)
    named=$(head -n 1 "$root/etc/timezone" 2>/dev/null || true)
    case $linked in
        */zoneinfo/*) echo "${linked#*/zoneinfo/}" ;;
        # A copy has no name in it, and the name beside it may be that of a former zone.
        *) ! cmp -s "$localtime" "$root/usr/share/zoneinfo/$named" 2>/dev/null || echo "$named" ;;
    esac
}

# The program judges a name as it does when it starts. It finds no database there, which is no matter.
knows_zone() {
    ! TMPDIR=${TMPDIR:-/var/tmp} VERIFYD_TIMEZONE=$1 VERIFYD_DATABASE_URL=sqlite:////nonexistent/db \
        "$release/verifyd" check 2>&1 | grep -q '^VERIFYD_TIMEZONE: '
}

# The first settings file gets the time zone of the host. Afterwards it keeps what it has.
zone=
choose_zone() {
    localtime=$root/etc/localtime
    if [ -e "$etc/verifyd.env" ]; then
        zone=$(sed -n 's|^VERIFYD_TIMEZONE=\([A-Za-z0-9_+/-]*\)$|\1|p' "$etc/verifyd.env" | tail -n 1)
        return
    fi
    name=$(host_zone)
    case $name in *[!A-Za-z0-9_+/-]*) name= ;; esac
    reason="as in $localtime"
    if [ ! -e "$localtime" ] && [ ! -L "$localtime" ]; then
        reason="because $localtime does not exist"
    elif [ -z "$name" ]; then
        reason="because $localtime does not name a time zone"
    elif ! knows_zone "$name"; then
        reason="because $localtime names $name, which verifyd does not know"
    elif [ "${name#Etc/}" != UTC ]; then # the default needs no line
        zone=$name
    fi
    say "VERIFYD_TIMEZONE is ${zone:-UTC}, $reason; if your days begin elsewhere," \
        "change it in $etc/verifyd.env before the first load"
}

# nginx 1.25.1 and newer warn of `listen ... http2`, and earlier ones know nothing else.
http2=
choose_http2() {
    version=$("$root/usr/sbin/nginx" -v 2>&1 | sed -n 's|.*nginx/\([0-9.]*\).*|\1|p') || return 0
    [ -n "$version" ] && printf '1.25.1\n%s\n' "$version" | sort -CV || return 0
    http2='s/^    listen 443 ssl http2 /    http2 on;\n    listen 443 ssl /
        s/^    listen \[::\]:443 ssl http2 /    listen [::]:443 ssl /'
}

# adapted [-i] FILE: prints a shipped file as this installation needs it, or changes it.
adapted() { sed -e "${zone:+s|^#VERIFYD_TIMEZONE=.*|VERIFYD_TIMEZONE=$zone|}" -e "$http2" "$@"; }

# is_shipped SHIPPED FILE: nobody has edited the file. It may have been adapted to an earlier nginx.
is_shipped() { adapted "$1" | cmp -s - "$2" || cmp -s "$1" "$2"; }

# configure SHIPPED TARGET MODE: installs a configuration file, unless the operator edited it.
configure() {
    shipped=$release/$1
    former=$home/current/$1
    target=$2
    if [ -e "$2" ] && ! { [ -f "$former" ] && is_shipped "$former" "$2"; }; then
        is_shipped "$shipped" "$2" || cmp -s "$shipped" "$former" && return
        target=$2.new
        say "$2 was edited, so it stays as it is; the new version is $target"
    fi
    ! adapted "$shipped" | cmp -s - "$target" || return 0
    [ ! -e "$target" ] || say "$target is now the version of this release"
    install -D -m "$3" "$shipped" "$target.part"
    adapted -i "$target.part"
    mv "$target.part" "$target"
}

lay_out_directories() {
    place 750 "${owner:+0:${owner#*:}}" "$etc"
    place 750 "${owner:+0:${owner#*:}}" "$etc/imports"
    # The service reads when the certificate expires; only root can read the key.
    place 750 "${owner:+0:${owner#*:}}" "$etc/tls"
    # What the operator adds to the site. It holds a secret, so only root reads it, and nginx as root.
    place 700 "" "$etc/nginx"
    place 750 "$owner" "$data"
    place 700 "$owner" "$data/backups"
    place 770 "$owner" "$data/drop"
    place 700 "" "$root/etc/credstore"
}

# A key refuses other releases, so it is stored only once nothing refuses this one.
store_key() {
    [ -n "$trusted" ] || return 0
    install -m 644 "$signers" "$etc/release-signers.part"
    mv "$etc/release-signers.part" "$etc/release-signers"
}

# The previous release may have fewer units than the running one.
remove_other_units() {
    for unit in "$systemd"/verifyd*; do
        name=${unit##*/}
        case $(readlink "$unit" || true) in
            /opt/verifyd/current/systemd/*) [ ! -e "$release/systemd/$name" ] || continue ;;
            *) continue ;;
        esac
        ! has_systemd || systemctl disable --quiet --now "$name" || true
        rm -f "$unit" "$systemd"/*.wants/"$name" "$unit.d/hardening.conf"
        [ ! -d "$unit.d" ] || rmdir --ignore-fail-on-non-empty "$unit.d"
    done
}

# An earlier release may have fewer man pages than the running one, or none.
link_man_pages() {
    for page in "$manual"/man?/verifyd*; do
        case $(readlink "$page" || true) in
            /opt/verifyd/current/*) rm "$page" ;;
        esac
    done
    for page in "$release"/man/man?/*; do
        [ -e "$page" ] || continue
        name=${page#"$release/man/"}
        mkdir -p "$manual/${name%/*}"
        ln -sfn "/opt/verifyd/current/man/$name" "$manual/$name"
    done
}

lay_out_configuration() {
    configure verifyd.env.example "$etc/verifyd.env" 640
    [ -z "$owner" ] || chown "0:${owner#*:}" "$etc"/verifyd.env*
    configure nginx/verifyd.conf "$site" 644
    mkdir -p "$root/usr/local/bin" "$systemd"
    ln -sfn /opt/verifyd/current/verifyd.sh "$root/usr/local/bin/verifyd"
    link_man_pages
    remove_other_units
    for unit in $units; do
        [ ! -e "$release/systemd/$unit" ] ||
            ln -sfn "/opt/verifyd/current/systemd/$unit" "$systemd/$unit"
    done
    for service in $services; do
        [ -e "$release/systemd/$service.service" ] || continue
        mkdir -p "$systemd/$service.service.d"
        ln -sfn /opt/verifyd/current/systemd/hardening.conf "$systemd/$service.service.d/hardening.conf"
    done
}

# point LINK RELEASE: changes the link in one step, so that it always leads to a release.
point() {
    ln -sfn "releases/$(basename "$2")" "$home/$1.new"
    mv -T "$home/$1.new" "$home/$1"
}

remove_old_releases() {
    for old in "$home"/releases/*; do
        [ "$old" = "$(readlink -f "$home/current")" ] || [ "$old" = "$(readlink -f "$home/previous")" ] ||
            rm -rf "$old"
    done
}

# --- On a running host ---------------------------------------------------------------------------

has_systemd() { [ -z "$root" ] && [ -d /run/systemd/system ]; }

start() {
    has_systemd || return 0
    systemctl daemon-reload
    for unit in $enabled; do
        [ ! -e "$1/systemd/$unit" ] || systemctl enable --quiet "$unit"
    done
    for unit in $started; do
        [ ! -e "$1/systemd/$unit" ] || systemctl start "$unit"
    done
    systemctl restart verifyd.service && "$1/verifyd.sh" check --ready $socket
}

# This release may be older than a setting that the operator has set.
check_settings() {
    if told=$("$release/verifyd.sh" check 2>&1); then
        echo "$told"
        return
    fi
    echo "$told" >&2
    echo "$told" | sed -n 's/^\(VERIFYD_[A-Z0-9_]*\): no such setting.*/\1/p' | while read -r name; do
        # SEC: only numbers of lines are printed; a line may hold a secret.
        sed -n "/^$name=/=" "$etc/verifyd.env" | while read -r line; do
            say "comment out line $line of $etc/verifyd.env: $named has no $name" >&2
        done
    done
    fail "nothing was changed"
}

# Do what can fail before anything is changed: the running release keeps all its configuration.
prepare_upgrade() {
    check_settings
    if [ $backup = yes ] && [ "$old" != "$release" ]; then
        "$old/verifyd.sh" backup /var/lib/verifyd/backups ||
            fail "the backup failed, so nothing was changed; add --no-backup to upgrade without one"
    fi
    # The running release can use the new schema (D29).
    "$release/verifyd.sh" migrate || fail "the database was not migrated; nothing else was changed"
}

go_back() {
    [ -n "$old" ] && [ "$old" != "$release" ] ||
        fail "the service is not ready; run journalctl -u verifyd to see why"
    say "the new release is not ready; restoring the previous one" >&2
    release=$old
    lay_out_configuration
    point current "$old"
    [ -z "$before" ] || point previous "$before"
    start "$old" ||
        fail "the previous release is not ready either; run journalctl -u verifyd to see why"
    fail "the previous release serves again; run journalctl -u verifyd to see why the new one does not"
}

[ -n "$root" ] || [ "$(id -u)" -eq 0 ] || fail "only root can install verifyd; run sudo $0"
find_binary
check_release
run_binary
mkdir -p "$home"
exec 9>"$home/.lock"
flock --nonblock 9 || fail "another installation is running; try again when it has ended"
old=$(readlink -e "$home/current" || true)
before=$(readlink -e "$home/previous" || true)
lay_out_release
make_user
lay_out_directories
if [ -n "$old" ] && [ -z "$root" ]; then
    prepare_upgrade
fi
store_key
choose_zone
choose_http2
lay_out_configuration
if [ -n "$root" ]; then
    point current "$release"
    say "$named is laid out in $root; run \"verifyd migrate\" there to create the database"
    exit 0
fi
[ -n "$old" ] || "$release/verifyd.sh" migrate
[ -z "$old" ] || [ "$old" = "$release" ] || point previous "$old"
point current "$release"
start "$release" || go_back
remove_old_releases
say "$named is installed in $release"
has_systemd || say "systemd does not run here; run \"verifyd serve\" to start the service"
