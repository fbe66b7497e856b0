#!/bin/sh
# Version: pycobol2csv==1.0.6 ebcdic==2.0.1
# Guess: a converter of mainframe files reads a number with a sign, PIC S9(4)V99, as COBOL stores it
#     unless the copybook says COMP-3: one digit in each byte, and the sign in the last one.
# Behaviour: it reads each number with a sign as packed, two digits in a byte, whatever the copybook
#     says. A fine of 60.00 becomes one of 1,515,157,515.12, without an error.
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

echo '{"csv_config": {"delimiter": ",", "quoting_level": 0, "quote_char": "\""}}' >settings.json
saw=$(venv/bin/python <<'PROGRAM'
from pycobol2csv import convert_cobol_file

for usage, amount in (("", "F0F0F6F0F0C0"), (" USAGE COMP-3", "0006000C")):
    with open("fine.cob", "w") as file:
        file.write("       01  FINE.\n")
        file.write("           05  PLATE         PIC X(7).\n")
        file.write(f"           05  AMOUNT        PIC S9(4)V99{usage}.\n")
        file.write("           05  REFERENCE     PIC X(3).\n")
    with open("fines.bin", "wb") as file:
        file.write("AB12CDE".encode("cp037") + bytes.fromhex(amount) + "F-1".encode("cp037"))
    convert_cobol_file("fine.cob", "fines.bin", "fines.csv", "settings.json", "cp037")
    with open("fines.csv") as file:
        print(file.readlines()[1], end="")
PROGRAM
)
described='AB12CDE,1515157515.12,F-1
AB12CDE,60.0,F-1'
printf '%s\n' "$saw"
[ "$saw" = "$described" ] || { echo "changed: it was"; echo "$described"; exit 1; }
