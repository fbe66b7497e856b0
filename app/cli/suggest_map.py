"""`verifyd import --suggest-map`: print a first mapping for a CSV file (D99)."""

import argparse
import re
from contextlib import closing
from pathlib import Path

from app.cli.output import print_item
from app.errors import OperatorError
from app.registers.formats import FORMATS, FileFault
from app.registers.formats.suggesting import (
    SAMPLE_BYTES,
    MappingText,
    Suggestion,
    mapping_text,
    read_sample,
    suggest,
)
from app.registers.reading.sources import STANDARD_INPUT, open_members
from app.storage.tables import Kind

_TAKEN = {"demo", *(each.register for each in FORMATS.values())}
_NAME_CHARACTERS_MAX = 30


def suggest_map(args: argparse.Namespace) -> None:
    """Print a mapping for the file of the arguments.

    Only the beginning of the file is read, and no database. Raises OperatorError if the file is no
    CSV with a header, or if a column that every row needs was not found.
    """
    (file,) = args.files
    found = _suggestion(file, Kind(args.kind) if args.kind else None)
    made = mapping_text(found, _shown(file), _register_of(file))
    if args.json:
        print_item(args, _document(found, made))
    else:
        print(made.text, end="")
    if made.lines_to_complete:
        lines = ", ".join(
            f"line {number} ({member})" for member, number in made.lines_to_complete.items()
        )
        raise OperatorError(
            f"complete {lines} of the mapping: no column was found by its name or its values"
        )


def _suggestion(file: str, kind: Kind | None) -> Suggestion:
    with closing(open_members(file)) as members:
        for member in members:
            try:
                sample = read_sample(member.stream.read(SAMPLE_BYTES))
            except FileFault as fault:
                raise FileFault(fault.reason, member.name) from None
            if not sample.has_header:
                raise FileFault(
                    "The first line does not look like names of columns; add a line that names "
                    "them.",
                    member.name,
                )
            return suggest(sample, kind)
    raise FileFault("It contains no file.", file)


def _document(found: Suggestion, made: MappingText) -> dict[str, object]:
    header = found.sample.header
    return {
        "kind": found.kind.value,
        "columns": {member: header[guess.column] for member, guess in found.guesses.items()},
        "unused": [header[number] for number in found.unused],
        "incomplete": list(made.lines_to_complete),
        "mapping": made.text,
    }


def _shown(file: str) -> str:
    return "standard input" if file == STANDARD_INPUT else Path(file).name


def _register_of(file: str) -> str:
    """Return a name for a register, from the name of the file without digits and endings."""
    stem = Path(file).name.partition(".")[0].lower()
    name = re.sub("[^a-z]+", "_", stem).strip("_")[:_NAME_CHARACTERS_MAX].strip("_")
    return "own" if not name or name in _TAKEN else name
