#!/bin/sh
# Version: coboljsonifier==1.0.8
# Guess: a blank number in a COBOL record, such as the end of a policy without an end, is null or an
#     error, and the fields behind it are read as ever. A parser that reads record after record
#     forgets the last one.
# Behaviour: it and all fields behind it have the values of the record before, without an error: the
#     second vehicle gets the end, the insurer and the number of the first. With a parser of its own
#     they are null.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 77' HUP INT TERM
cd "$folder"
export HOME="$folder" TMPDIR="$folder" XDG_CACHE_HOME="$folder" XDG_CONFIG_HOME="$folder"
unset PYTHONPATH PYTHONHOME NODE_PATH NODE_OPTIONS
python3 -m venv venv || exit 77
timeout 100 venv/bin/pip -qq --no-cache-dir install \
    coboljsonifier==1.0.8 || exit 77

cat >policy.cob <<'COPYBOOK'
       01  POLICY.
           05  PLATE         PIC X(7).
           05  VALID-TO      PIC 9(8).
           05  INSURER       PIC X(6).
           05  POLICY-NUMBER PIC X(3).
COPYBOOK
saw=$(venv/bin/python <<'PROGRAM'
from coboljsonifier.config.parser_type_enum import ParseType
from coboljsonifier.copybookextractor import CopybookExtractor
from coboljsonifier.parser import Parser


def new_parser():
    return Parser(CopybookExtractor("policy.cob").dict_book_structure, ParseType.FLAT_ASCII).build()


def read(parser, record):
    parser.parse(record)
    print(" ", *parser.value.values())


records = ("AB12CDE20270513FIRST P-1", "AB13CDE        SECONDP-2", "AB14CDE20271231THIRD P-3")
print("one parser")
parser = new_parser()
for record in records:
    read(parser, record)
print("a parser for each record")
for record in records:
    read(new_parser(), record)
PROGRAM
)
described='one parser
  AB12CDE 20270513 FIRST P-1
  AB13CDE 20270513 FIRST P-1
  AB14CDE 20271231 THIRD P-3
a parser for each record
  AB12CDE 20270513 FIRST P-1
  AB13CDE None None None
  AB14CDE 20271231 THIRD P-3'
printf '%s\n' "$saw"
[ "$saw" = "$described" ] || { echo "changed: it was"; echo "$described"; exit 1; }
