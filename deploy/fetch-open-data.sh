#!/bin/sh
# Downloads a register of open data into a directory of its own below the drop directory.
# See docs/data-sources.md.
#
#   fetch-open-data.sh rdw DIRECTORY
#   fetch-open-data.sh nyc DIRECTORY [STATE]
#
# The file gets its name only when it is complete: it has as many rows as the agency counts, and the
# agency published nothing meanwhile. A run that fails, or is killed before that, leaves the files
# there as they were. STATE has two characters, NY by default.
set -eu
umask 022
export LC_ALL=C # bytes are counted, and ranges are those of ASCII

fail() {
    echo "fetch-open-data: $*" >&2
    exit 1
}

case $#:${1-}:${3-NY} in
    2:rdw:*)
        site=https://opendata.rdw.nl
        dataset=m9d7-ebf2
        columns=kenteken,merk,handelsbenaming,datum_eerste_toelating,eerste_kleur,wam_verzekerd
        columns=$columns,vervaldatum_apk
        where="kenteken IS NOT NULL"
        ;;
    [23]:nyc:[A-Z0-9][A-Z0-9])
        site=https://data.cityofnewyork.us
        dataset=nc67-uf89
        columns=plate,state,summons_number,issue_date,amount_due
        where="state = '${3-NY}' AND amount_due > 0"
        ;;
    *)
        echo "usage: fetch-open-data.sh rdw DIRECTORY" >&2
        echo "       fetch-open-data.sh nyc DIRECTORY [STATE]" >&2
        exit 2
        ;;
esac
name=$1.csv
directory=$2
site=${OPEN_DATA_SITE:-$site} # another one for a test, or a mirror
# Loads ignore hidden names. A rename is one step only within a file system.
part=$directory/.$name.part
marker=$directory/.$name.sha256.part

# ask PATH [OPTION]...: prints the answer, which must be a success and complete.
ask() {
    path=$1
    shift
    curl --fail --silent --show-error --connect-timeout 30 --speed-limit 1000 --speed-time 600 \
        --get "$@" "$site$path" || fail "$site$path was not downloaded"
}

# Print when the agency last published, and how many rows there are.
published() {
    view=$(ask "/api/views/$dataset.json")
    at=$(echo "$view" | sed -n 's/.*"rowsUpdatedAt" *: *\([0-9]\{1,\}\).*/\1/p')
    count=$(ask "/resource/$dataset.json" --data-urlencode "\$select=count(*)" \
        --data-urlencode "\$where=$where")
    rows=$(echo "$count" | sed -n 's/^\[{"[a-z_]*":"\{0,1\}\([0-9]\{1,\}\)"\{0,1\}}\]$/\1/p')
    [ -n "$at" ] && [ "${rows:-0}" -gt 0 ] ||
        fail "$site does not say how many rows $dataset has, and when they were published"
    echo "$at $rows"
}

# Print how many records a CSV has. A line end within quotes belongs to a value.
count_records() {
    awk '{ quotes += gsub(/"/, "") } quotes % 2 == 0 { records++ } END { print records + 0 }' "$1"
}

[ -d "$directory" ] || fail "$directory does not exist, or is not a directory"
exec 9>"$directory/.$name.lock"
flock --nonblock 9 || fail "another download into $directory is running; wait until it has ended"
trap 'rm -f "$part" "$marker"' EXIT
trap 'exit 1' HUP INT TERM

before=$(published)
rows=${before#* }
# The limit is one row more than there are, so that a row too many is noticed.
ask "/resource/$dataset.csv" --compressed --output "$part" --data-urlencode "\$select=$columns" \
    --data-urlencode "\$where=$where" --data-urlencode "\$limit=$((rows + 1))"
after=$(published)
[ "$after" = "$before" ] || fail "$site published other rows during the download; run it again"
[ -s "$part" ] || fail "$site sent an empty file"
head -n 1 "$part" | tr -d '"\r' | grep -qx "$columns" || fail "$site sent no CSV with $columns"
[ -z "$(tail -c 1 "$part")" ] || fail "$site sent a file without its last line end"
records=$(($(count_records "$part") - 1))
[ "$records" -eq "$rows" ] || fail "$site sent $records rows instead of $rows"
echo "$(sha256sum <"$part" | cut -c 1-64)  $name" >"$marker"
sync "$part" "$marker"

# A file that still waits for its load is replaced. The marker comes first, so that no load sees the
# new file without it.
rm -f "$directory/$name" "$directory/$name.sha256"
mv "$marker" "$directory/$name.sha256"
mv "$part" "$directory/$name"
echo "$rows rows are in $directory/$name"
