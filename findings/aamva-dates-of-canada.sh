#!/bin/sh
# Version: aamva-parser@1.7.0 aamva-parser==0.1.2
# Guess: both parsers of AAMVA barcodes, made for documents "from US and Canadian" authorities, read
#     Canadian days, which the standard writes CCYYMMDD, as they read American ones, MMDDCCYY.
# Behaviour: the one of npm reads 2035-01-31 as a day in September of the year 132. Its port on PyPI
#     reads no day. Both do know the country.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 77' HUP INT TERM
cd "$folder"
export HOME="$folder" TMPDIR="$folder" XDG_CACHE_HOME="$folder" XDG_CONFIG_HOME="$folder"
unset PYTHONPATH PYTHONHOME NODE_PATH NODE_OPTIONS
timeout 50 npm install --silent --no-audit --no-fund --ignore-scripts --cache npm \
    aamva-parser@1.7.0 || exit 77
python3 -m venv venv || exit 77
timeout 100 venv/bin/pip -qq --no-cache-dir install \
    aamva-parser==0.1.2 || exit 77

venv/bin/python <<'PROGRAM'
for country, issuer, issued, born, until in (
    ("USA", "636026", "08242015", "01311970", "01312035"),
    ("CAN", "636028", "20150824", "19700131", "20350131"),
):
    elements = f"""DLDAQX12345678
DCSSAMPLE
DDEN
DACX
DDFN
DADX
DDGN
DCAD
DCBNONE
DCDNONE
DBD{issued}
DBB{born}
DBA{until}
DBC1
DAU069 in
DAYGRN
DAG1 SAMPLE STREET
DAISAMPLE
DAJXX
DAK000000000
DCFX0001
DCG{country}
\r"""
    head = f"@\n\x1e\rANSI {issuer}080001DL0031{len(elements):04}"
    with open(f"{country}.txt", "w", newline="") as file:
        file.write(head + elements)
PROGRAM
saw=$(node <<'PROGRAM' && venv/bin/python <<'PROGRAM2'
const { readFileSync } = require('fs')
const { parse } = require('aamva-parser')
for (const name of ['USA', 'CAN']) {
  const { country, expirationDate } = parse(readFileSync(`${name}.txt`, 'utf8'))
  console.log('npm ', country, expirationDate.toISOString().slice(0, 10))
}
PROGRAM
from aamva_parser import parse

for name in ("USA", "CAN"):
    with open(f"{name}.txt", newline="") as file:
        read = parse(file.read())
    print("PyPI", read.country.value, read.expiration_date and read.expiration_date.date())
PROGRAM2
)
described='npm  United States 2035-01-31
npm  Canada 0132-09-04
PyPI United States 2035-01-31
PyPI Canada None'
printf '%s\n' "$saw"
[ "$saw" = "$described" ] || { echo "changed: it was"; echo "$described"; exit 1; }
