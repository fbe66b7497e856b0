"""`verifyd import --suggest-map`: print a first mapping for a CSV file."""

import argparse
import os
import re
import shlex
import sys
import tomllib
from contextlib import closing, suppress
from pathlib import Path

from app.cli.output import print_item
from app.config import Config
from app.errors import OperatorError
from app.own_command import run_anywhere
from app.registers.formats import FORMATS, FileFault
from app.registers.formats.mapping_file import questions_of
from app.registers.formats.suggesting.sample import SAMPLE_BYTES, Sample
from app.registers.formats.suggesting.suggestion import suggest
from app.registers.formats.suggesting.toml_text import mapping_text
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
    found = suggest(_sample(file, args.encoding), Kind(args.kind) if args.kind else None)
    register = args.register or _register_of(file)
    target = _output_file()
    # SEC: a line break in a name must not begin a line of the mapping.
    is_shown = file != STANDARD_INPUT and file.isprintable()
    config, _ = Config.read()
    command = (
        f"{run_anywhere(config)} import {shlex.quote(file) if is_shown else 'FILE'} "
        f"--map {shlex.quote(target or f'{register}.toml')}"
    )
    text = mapping_text(found, Path(file).name, register, command)
    asked = questions_of(tomllib.loads(text))
    document = {
        "kind": found.kind.value,
        "columns": {member: column.name for member, column in found.settled.items()},
        "questions": {
            member: [column.name for column in candidates]
            for member, candidates in found.questions.items()
        },
        "unused": [column.name for column in found.unused],
        "incomplete": [each.removeprefix("columns.") for each in asked],
        "mapping": text,
    }
    print_item(args, document, text=text.removesuffix("\n").split("\n"))
    if asked:
        raise OperatorError(f'answer each "?" of the mapping: {", ".join(asked)}')
    if target and not args.json:
        # The mapping itself is not on the screen.
        print(
            f"mapping written to {target}; check its lines, then try it with:\n{command} --dry-run",
            file=sys.stderr,
        )


def _sample(file: str, encoding: str | None) -> Sample:
    with closing(open_members(file)) as members:
        member = next(members)
        try:
            sample = Sample(member.stream.read(SAMPLE_BYTES), encoding)
            if sample.header_fault:
                raise FileFault(sample.header_fault)
        except FileFault as fault:
            raise FileFault(fault.reason, member.name) from None
        return sample


def _output_file() -> str:
    """Return the path of the file that stdout is redirected to, empty if stdout is no file."""
    with suppress(OSError):
        path = os.path.realpath(f"/proc/self/fd/{sys.stdout.fileno()}")
        if os.path.isfile(path) and path.isprintable():
            return min(path, os.path.relpath(path), key=len)
    return ""


def _register_of(file: str) -> str:
    """Return a name for a register, from the name of the file without endings."""
    stem = Path(file).name.partition(".")[0].lower()
    name = re.sub("[^a-z0-9]+", "_", stem).lstrip("_0123456789")[:_NAME_CHARACTERS_MAX].strip("_")
    return "own" if not name or name in _TAKEN else name
