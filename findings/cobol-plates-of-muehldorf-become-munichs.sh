#!/bin/sh
# Version: pycobol2csv==1.0.6 ebcdic==2.0.1
# Guess: a converter of mainframe files that asks for the code page, such as cp273 of Germany,
#     writes the letters of that code page. If it cannot, it fails.
# Behaviour: it writes a blank for each letter that is not ASCII. MÜ-X 1 of Mühldorf becomes M -X 1,
#     a plate of Munich without its blanks.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 77' HUP INT TERM
cd "$folder"
export HOME="$folder" TMPDIR="$folder" XDG_CACHE_HOME="$folder" XDG_CONFIG_HOME="$folder"
unset PYTHONPATH PYTHONHOME NODE_PATH NODE_OPTIONS
python3 -m venv venv || exit 77
timeout 100 venv/bin/pip -qq --no-cache-dir install \
    pycobol2csv==1.0.6 ebcdic==2.0.1 || exit 77

cat >policy.cob <<'COPYBOOK'
       01  POLICY.
           05  PLATE         PIC X(8).
           05  VALID-TO      PIC 9(8).
           05  POLICY-NUMBER PIC X(3).
COPYBOOK
echo '{"csv_config": {"delimiter": ",", "quoting_level": 0, "quote_char": "\""}}' >settings.json
saw=$(venv/bin/python <<'PROGRAM'
from pycobol2csv import convert_cobol_file

with open("policies.bin", "wb") as file:
    for record in ("MÜ-X 1  20270513P-1", "M-X 1   20271231P-2"):
        file.write(record.encode("cp273"))
convert_cobol_file("policy.cob", "policies.bin", "policies.csv", "settings.json", "cp273")
with open("policies.csv") as file:
    print(file.read(), end="")
PROGRAM
)
described='PLATE,VALID_TO,POLICY_NUMBER
M -X 1,20270513,P-1
M-X 1,20271231,P-2'
printf '%s\n' "$saw"
[ "$saw" = "$described" ] || { echo "changed: it was"; echo "$described"; exit 1; }
