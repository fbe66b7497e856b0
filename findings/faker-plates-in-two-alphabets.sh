#!/bin/sh
# Version: Faker==40.63.0
# Guess: made-up Russian plates (ru_RU) are in one alphabet. Real ones have the twelve Cyrillic
#     letters that look like Latin ones (GOST R 50577).
# Behaviour: seven of the twelve letters are Cyrillic and five are Latin, so that most plates with
#     several letters mix both. A plate that is typed in either alphabet is another text.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 77' HUP INT TERM
cd "$folder"
export HOME="$folder" TMPDIR="$folder" XDG_CACHE_HOME="$folder" XDG_CONFIG_HOME="$folder"
unset PYTHONPATH PYTHONHOME NODE_PATH NODE_OPTIONS
python3 -m venv venv || exit 77
timeout 100 venv/bin/pip -qq --no-cache-dir install \
    Faker==40.63.0 || exit 77

saw=$(venv/bin/python <<'PROGRAM'
import unicodedata
from collections import Counter

from faker import Faker

fake = Faker("ru_RU")
fake.seed_instance(1)
plates = [fake.license_plate() for _ in range(2000)]
private = [plate for plate in plates if plate[0].isalpha() and plate[4:6].isalpha()]
alphabets = Counter()
letters = {}
for plate in private:
    names = {unicodedata.name(letter).split()[0] for letter in plate if letter.isalpha()}
    alphabets[" and ".join(sorted(names))] += 1
    for letter in filter(str.isalpha, plate):
        letters.setdefault(unicodedata.name(letter).split()[0], set()).add(letter)
for name, own in sorted(letters.items()):
    print(name, *sorted(own))
print("in both:", alphabets["CYRILLIC and LATIN"] > len(private) / 2)
PROGRAM
)
described='CYRILLIC Н О Р С Т У Х
LATIN A B E K M
in both: True'
printf '%s\n' "$saw"
[ "$saw" = "$described" ] || { echo "changed: it was"; echo "$described"; exit 1; }
