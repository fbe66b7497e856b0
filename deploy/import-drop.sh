#!/bin/sh
# Loads the register files that lie in a directory, and removes those that were loaded.
#
#   import-drop.sh DROP OPTIONS
#
# Each file in DROP is a load of its own, whose format and register are found by looking. The files
# in DROP/NAME are one load of the register NAME, with the options that stand in OPTIONS/NAME, such
# as `--format nyc-csv --state NY`. A load that fails leaves its files in DROP/failed, or in
# DROP/NAME/failed; the others are loaded all the same. What is still being written is left for the
# next time: files that were changed in the last minute, or whose names end in .part.
set -eu
drop=$1
options=$2
program=$(dirname "$(readlink -f "$0")")/verifyd
failures=0

is_whole() {
    case $1 in
        *.part) return 1 ;;
    esac
    [ -z "$(find "$1" -mmin -1)" ]
}

# load DIRECTORY WORDS FILE...
load() {
    directory=$1
    words=$2
    shift 2
    # shellcheck disable=SC2086 # options are words
    if "$program" import "$@" $words; then
        rm -f -- "$@"
    else
        failures=1
        mkdir -p "$directory/failed"
        mv -f -- "$@" "$directory/failed/"
        echo "verifyd: not loaded, and now in $directory/failed: $*" >&2
    fi
}

# Files are not to blame for wrong settings.
"$program" check >/dev/null

for file in "$drop"/*; do
    if [ -f "$file" ] && is_whole "$file"; then
        load "$drop" '' "$file"
    fi
done

for directory in "$drop"/*/; do
    directory=${directory%/}
    name=${directory##*/}
    [ -d "$directory" ] && [ "$name" != failed ] || continue
    set --
    unfinished=
    for file in "$directory"/*; do
        [ -f "$file" ] || continue
        is_whole "$file" || unfinished=$file
        set -- "$@" "$file"
    done
    [ $# -gt 0 ] && [ -z "$unfinished" ] || continue
    words="--register $name"
    # What cannot be removed would be loaded every night anew.
    if [ -w "$directory" ] && { [ ! -e "$options/$name" ] || [ -r "$options/$name" ]; }; then
        [ ! -f "$options/$name" ] || words="$words $(cat "$options/$name")"
        load "$directory" "$words" "$@"
    else
        failures=1
        echo "verifyd: passed over: the user $(id -un) must be able to write to $directory," \
            "and to read $options/$name" >&2
    fi
done
exit "$failures"
