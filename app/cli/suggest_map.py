"""`verifyd import --suggest-map`: print a first mapping for a CSV file."""

import argparse
import os
import re
import shlex
import stat
import sys
from contextlib import closing, suppress
from pathlib import Path

from app.cli.output import print_item
from app.config import Config
from app.errors import OperatorError
from app.own_command import run_anywhere
from app.registers.formats import FORMATS, FileFault
from app.registers.formats.suggesting.suggestion import (
    SAMPLE_BYTES,
    Suggestion,
    read_sample,
    suggest,
)
from app.registers.formats.suggesting.toml_text import MappingText, mapping_text
from app.registers.reading.sources import STANDARD_INPUT, open_members
from app.storage.tables import Kind

_TAKEN = {"demo", *(each.register for each in FORMATS.values())}
_NAME_CHARACTERS_MAX = 30


def suggest_map(args: argparse.Namespace) -> None:
    """Print a mapping for the file of the arguments.

    Only the beginning of the file is read, and no database. Raises OperatorError if the file is no
    CSV with a header, or if the mapping has questions.
    """
    (file,) = args.files
    found = _suggestion(file, Kind(args.kind) if args.kind else None, args.encoding)
    register = args.register or _register_of(file)
    target = _output_file()
    command = _command(file, target or f"{register}.toml")
    made = mapping_text(found, _shown(file), register, command)
    print_item(args, _document(found, made), text=made.text.removesuffix("\n").split("\n"))
    if made.questions:
        lines = [f"line {line} ({member})" for member, line in made.questions.items()]
        raise OperatorError(f'answer each "?" of the mapping: {", ".join(lines)}')
    if target and not args.json:
        # The mapping itself is not on the screen.
        print(
            f"mapping written to {target}; check its lines, then try it with:\n{command} --dry-run",
            file=sys.stderr,
        )


def _command(file: str, mapping: str) -> str:
    """Return the line that loads a file with a mapping.

    SEC: a line break in a name must not begin a line of the mapping.
    """
    source = "- <" if file == STANDARD_INPUT else ""
    name = "FILE" if file == STANDARD_INPUT or not file.isprintable() else shlex.quote(file)
    config, _ = Config.read()
    return f"{run_anywhere(config)} import {source}{name} --map {shlex.quote(mapping)}"


def _output_file() -> str | None:
    """Return the path of the file that stdout is redirected to, None if stdout is no file."""
    with suppress(OSError):
        descriptor = sys.stdout.fileno()
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        found = os.fstat(descriptor)
        is_it = stat.S_ISREG(found.st_mode) and os.path.samestat(os.stat(path), found)
        if is_it and path.isprintable():
            return os.path.relpath(path) if Path(path).is_relative_to(Path.cwd()) else path
    return None


def _suggestion(file: str, kind: Kind | None, encoding: str | None) -> Suggestion:
    with closing(open_members(file)) as members:
        for member in members:
            try:
                sample = read_sample(member.stream.read(SAMPLE_BYTES), encoding)
            except FileFault as fault:
                raise FileFault(fault.reason, member.name) from None
            if not sample.has_header:
                raise FileFault(
                    "The first line does not look like names of columns. Make the names of the "
                    "columns the first line.",
                    member.name,
                )
            return suggest(sample, kind)
    raise FileFault("It contains no file.", file)


def _document(found: Suggestion, made: MappingText) -> dict[str, object]:
    header = found.sample.header
    return {
        "kind": found.kind.value,
        "columns": {member: column.name for member, column in found.settled.items()},
        "questions": {
            member: [each.name for each in candidates]
            for member, candidates in found.questions.items()
        },
        "unused": [header[number] for number in found.unused],
        "incomplete": list(made.questions),
        "mapping": made.text,
    }


def _shown(file: str) -> str:
    return "standard input" if file == STANDARD_INPUT else Path(file).name


def _register_of(file: str) -> str:
    """Return a name for a register, from the name of the file without endings."""
    stem = Path(file).name.partition(".")[0].lower()
    name = re.sub("[^a-z0-9]+", "_", stem).lstrip("_0123456789")[:_NAME_CHARACTERS_MAX].strip("_")
    return "own" if not name or name in _TAKEN else name
