"""`verifyd audit search` and `verifyd audit export` (D118)."""

import argparse
import heapq
import sys
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path

import msgspec

from app.audit.export import write_export
from app.audit.record import Criteria, Record, row_of
from app.audit.search import Query, search
from app.cli.audit_options import (
    add_directories,
    add_period,
    directories_of,
    period_of,
    record_use,
)
from app.cli.output import counted, print_sentence
from app.cli.parser import Commands, add_command
from app.vehicles.registration import recorded_registration

_Located = tuple[str, Record]
"""A directory and one of its records."""
_COLUMNS = ("time", "operation", "account", "key", "user", "reason", "reference", "plate", "answer")
_MEASURED_ROWS = 1_000
"""How many rows decide how wide the columns are. A search by account can find millions."""


def add_commands(audit: Commands) -> None:
    """Add the two commands."""
    command = add_command(
        audit,
        "search",
        _search,
        "list who asked about a plate, or what an account or a user asked",
        examples=[
            "audit search --plate AB12CDE",
            "audit search --account acme --from 2026-11-01 --to 2026-11-30 --json",
            "audit search --user ann --directory /mnt/host1/audit --directory /mnt/host2/audit",
        ],
    )
    wanted = command.add_mutually_exclusive_group(required=True)
    wanted.add_argument("--plate", type=_text, metavar="PLATE", help="look-ups of this plate")
    wanted.add_argument("--account", type=_text, metavar="ACCOUNT", help="look-ups of this account")
    wanted.add_argument(
        "--user", type=_text, metavar="USER", help="look-ups with this Enquiry-User"
    )
    add_period(command)
    command.add_argument(
        "--scan", action="store_true", help="read all records and do not trust the index"
    )
    add_directories(command)
    command = add_command(
        audit,
        "export",
        _export,
        "write records to standard output",
        examples=[
            "audit export > trail.ndjson",
            "audit export --format csv --from 2026-11-01 --to 2026-11-30 > november.csv",
        ],
        prints_data=False,
    )
    command.add_argument(
        "--format",
        choices=("ndjson", "csv"),
        default="ndjson",
        metavar="FORMAT",
        help="ndjson, as recorded, or csv with a line for each plate [ndjson]",
    )
    add_period(command)
    add_directories(command)


def _search(args: argparse.Namespace) -> None:
    directories = directories_of(args)
    query = _query(args)
    record_use("search", _criteria(args, **{query.kind: query.value}))
    found = heapq.merge(
        *(_located(directory, query, scan=args.scan) for directory in directories),
        key=lambda each: each[1].time,
    )
    if args.json:
        args.has_printed = True
        _print_array(found, with_directory=len(directories) > 1)
        return
    count = _print_rows(found)
    print_sentence(f"{counted(count, 'record')} found")


def _export(args: argparse.Namespace) -> None:
    directories = directories_of(args)
    period = period_of(args)
    record_use("export", _criteria(args))
    output = sys.stdout.buffer
    done = write_export(output.write, directories, period, args.format)
    output.flush()
    sentence = f"{counted(done.records, 'record')} exported"
    if done.left_out:
        sentence += f"; lines that are no records: {done.left_out:,}"
    print(sentence, file=sys.stderr)


def _text(text: str) -> str:
    """Return an argument that is not empty, as a variable of a shell that is not set."""
    if not text.strip():
        raise argparse.ArgumentTypeError("must not be empty")
    return text


def _query(args: argparse.Namespace) -> Query:
    period = period_of(args)
    if args.plate is not None:
        return Query("plate", recorded_registration(args.plate), period)
    if args.account is not None:
        return Query("account", args.account, period)
    return Query("user", args.user, period)


def _criteria(args: argparse.Namespace, **wanted: str) -> Criteria:
    return Criteria(**wanted, since=args.since, until=args.until)


def _located(directory: Path, query: Query, *, scan: bool) -> Iterator[_Located]:
    return ((str(directory), record) for record in search(directory, query, scan=scan))


def _print_array(found: Iterable[_Located], *, with_directory: bool) -> None:
    """Print an array, one record after the other: there can be more than memory holds."""
    separator = "["
    for directory, record in found:
        members = msgspec.to_builtins(record)
        if with_directory:
            members = {"directory": directory} | members
        sys.stdout.write(f"{separator}\n{msgspec.json.encode(members).decode()}")
        separator = ","
    sys.stdout.write("[]\n" if separator == "[" else "\n]\n")


def _print_rows(found: Iterable[_Located]) -> int:
    """Print a table, and return how many records it shows."""
    rows = (_row(record) for _, record in found)
    first = list(islice(rows, _MEASURED_ROWS))
    widths = [max(map(len, cells)) for cells in zip(_COLUMNS, *first, strict=True)]
    count = 0
    for row in chain([_COLUMNS], first, rows):
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print(line.rstrip())
        count += row is not _COLUMNS
    return count


def _row(record: Record) -> tuple[str, ...]:
    # SEC: what a client chose must not control the terminal.
    return tuple(_printable(value or "-") for value in row_of(record))


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
