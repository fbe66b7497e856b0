#!/bin/sh
# Version: FixedWidth==1.3
# Guess: where a day is not required and not given, FixedWidth writes blanks, and reads blanks as no
#     day. Lines of insurers have such blanks, for example if a vehicle leaves a fleet.
# Behaviour: it writes the blanks, and refuses to read them.
# shellcheck source=/dev/null
. "${0%/*}/prelude"
need_python FixedWidth==1.3

saw=$(python <<'PROGRAM'
from fixedwidth.fixedwidth import FixedWidth

left = {"alignment": "left", "padding": " "}
day = left | {"type": "date", "format": "%Y%m%d", "required": False}
layout = {
    "plate": left | {"type": "string", "required": True, "start_pos": 1, "length": 7},
    "until": day | {"start_pos": 8, "length": 8},
}
record = FixedWidth(layout)
record.update(plate="0042")
line = record.line
print(repr(line))
try:
    FixedWidth(layout).line = line
except ValueError as error:
    print("ValueError:", error)
PROGRAM
)
compare "$saw" "'0042           \\r\\n'
ValueError: time data '        ' does not match format '%Y%m%d'"
