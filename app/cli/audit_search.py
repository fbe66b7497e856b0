"""`verifyd audit search`, `export` and `report`, whose use is recorded in the trail."""

import argparse
import heapq
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from pathlib import Path

import msgspec
import peewee

from app import clock
from app.arguments import Argument, OneOf, flag
from app.audit import trail
from app.audit.comparison import Comparison, comparison_of
from app.audit.export import write_export
from app.audit.owner import Owner, find_owner, require_host
from app.audit.record import Criteria, Record, row_of
from app.audit.recording import record_now, said_by_command
from app.audit.report import REPORTED_DAYS, Refusal, first_reported_day, refusals_in, render, report
from app.audit.search import Query, TimeSpan, first_moment, last_moment, search
from app.audit.segments import CHAIN, list_segments
from app.audit.state import claim_for_command
from app.audit.view import View, views_of
from app.cli.output import (
    aligned,
    json_text,
    plates_of,
    print_document,
    print_sentence,
    waiting_for,
)
from app.cli.parser import Group
from app.config import Config
from app.errors import OperatorError
from app.jobs.plate_report import render_plate, report_plate
from app.settings import values as setting_values
from app.storage.session import opened_database
from app.text import counted, printable
from app.vehicles.registration import recorded_registration

commands = Group()
_Located = tuple[str, Record]
"""A directory and one of its records."""
_COLUMNS = ("time", "operation", "account", "key", "user", "reason", "reference", "plate", "answer")
_LIMIT = 100
_LIMIT_MAX = 10_000
_MEASURED_ROWS = 1_000
"""How many rows decide how wide the columns are. A search by account can find millions."""

DIRECTORIES = Argument(
    "--directory DIR",
    "directory of a trail, given once for each host [VERIFYD_AUDIT_DIR]",
    type=Path,
    action="append",
)


def _moment(text: str, *, is_end: bool) -> str:
    try:
        return last_moment(text) if is_end else first_moment(text)
    except ValueError:
        rule = f"must be a day such as 2026-11-01 or a time such as 2026-11-01T15:00Z, not {text!r}"
        raise ValueError(clock.day_fault(text[: len("YYYY-MM-DD")], rule)) from None


def not_empty(text: str) -> str:
    """Return an argument that is not empty, as a variable of a shell that is not set."""
    if not text.strip():
        raise ValueError("must not be empty")
    return text


def _from(default: str) -> Argument:
    """Return `--from`. The default is for the help."""
    return Argument(
        "--from TIME",
        f"first day (UTC) or time, such as 2026-11-01 or 2026-11-01T15:00Z [{default}]",
        dest="since",
        type=partial(_moment, is_end=False),
    )


_TO = Argument(
    "--to TIME",
    "last day (UTC) or time, which is included [all]",
    dest="until",
    type=partial(_moment, is_end=True),
)


def period_of(args: argparse.Namespace) -> TimeSpan:
    """Return the period that the options name.

    Raises OperatorError if the period ends before it begins: "0 records found" would be wrong.
    """
    period = TimeSpan.of(args.since, args.until)
    if period.since > period.until:
        raise OperatorError("--from must not be after --to")
    return period


def _views(args: argparse.Namespace) -> list[View]:
    """Return the trails that the options name, as they are before this use is recorded."""
    return views_of(directories_of(args))


def directories_of(args: argparse.Namespace) -> list[Path]:
    """Return the directories that the options name. Raises OperatorError if one has no trail."""
    directories: list[Path] = args.directory or [Config.from_env().audit_dir]
    for directory in directories:
        try:
            is_trail = directory.is_dir() and bool(
                (directory / CHAIN).exists() or list_segments(directory) or find_owner(directory)
            )
        except OSError as error:
            raise OperatorError(f"{directory} cannot be read: {error.strerror}") from error
        if not is_trail:
            raise OperatorError(f"there is no audit trail in {directory}")
    return list(dict.fromkeys(directories))


def record_use(operation: str, criteria: Criteria) -> None:
    """Record a search, an export or a report in this host's trail, before anything is shown.

    Nothing is recorded where there is no trail and VERIFYD_AUDIT is off. Raises OperatorError.
    """
    config = Config.from_env()
    owner = _owner(config)
    if owner is None:
        return
    use = record_now(operation=operation, criteria=criteria, **said_by_command())
    trail.record_use(config.audit_dir, owner, use)


def _owner(config: Config) -> Owner | None:
    if find_owner(config.audit_dir) is not None:
        return require_host(config.audit_dir)
    if not config.audit:
        return None
    with opened_database(config) as engine:
        return claim_for_command(engine, config)


@commands.command(
    "search",
    "list who asked about a plate, or what an account or a user asked",
    OneOf(
        Argument("--plate PLATE", "look-ups of this plate; - is stdin", type=not_empty),
        Argument("--account ACCOUNT", "look-ups of this account", type=not_empty),
        Argument("--user USER", "look-ups with this Enquiry-User", type=not_empty),
        required=True,
    ),
    _from("all"),
    _TO,
    OneOf(
        Argument(
            "--limit N",
            f"list the newest N records, the newest first [{_LIMIT}; all with --json]",
            type=setting_values.whole_number(1, _LIMIT_MAX),
        ),
        flag("--all", "list all records, the oldest first"),
    ),
    flag("--scan", "read all records and do not trust the index"),
    DIRECTORIES,
    examples=[
        "audit search --plate AB12CDE --all",
        "audit search --plate - < plate.txt",
        "audit search --account acme --from 2026-11-01 --to 2026-11-30 --json",
        "audit search --user ann --directory /mnt/host1/audit --directory /mnt/host2/audit",
    ],
)
def _search(args: argparse.Namespace) -> None:
    query = _query(args)
    views = _views(args)
    record_use("search", _criteria(args, **{query.kind: query.value}))
    limit = args.limit or (None if args.all or args.json else _LIMIT)
    found = _found(views, query, limit, scan=args.scan)
    listed = islice(found, limit)
    if args.json:
        args.has_printed = True
        _print_array(listed, with_directory=len(views) > 1)
        return
    count = _print_rows(listed)
    if next(found, None) is None:
        print_sentence(f"{counted(count, 'record')} found")
    else:
        print_sentence(f"the newest {counted(count, 'record')}; use --all to list all")


def _found(
    views: Sequence[View], query: Query, limit: int | None, *, scan: bool
) -> Iterator[_Located]:
    """Yield the records of all trails, merged by time.

    Args:
        limit: how many of the newest are wanted, the newest first; None for all, the oldest first.
    """
    located = [_located(view, query, scan=scan, newest_first=limit is not None) for view in views]
    if limit is None:
        return heapq.merge(*located, key=_time)
    newest = chain.from_iterable(islice(each, limit + 1) for each in located)
    # A record of a clock that was wrong must not hold back those before it in its trail.
    return newest if len(views) == 1 else iter(sorted(newest, key=_time, reverse=True))


def _time(located: _Located) -> str:
    _, record = located
    return record.time


def _query(args: argparse.Namespace) -> Query:
    period = period_of(args)
    if args.plate is not None:
        return Query("plate", _plate(args), period)
    kind = "user" if args.account is None else "account"
    return Query(kind, getattr(args, kind), period)


def _plate(args: argparse.Namespace) -> str:
    plates = plates_of([args.plate])
    if len(plates) > 1:
        raise OperatorError(f"standard input has {len(plates)} plates; write one")
    return recorded_registration(plates[0])


def _criteria(args: argparse.Namespace, **wanted: str) -> Criteria:
    return Criteria(**wanted, since=args.since, until=args.until)


def _located(view: View, query: Query, *, scan: bool, newest_first: bool) -> Iterator[_Located]:
    found = search(view, query, scan=scan, newest_first=newest_first)
    return ((str(view.directory), record) for record in found)


def _print_array(found: Iterable[_Located], *, with_directory: bool) -> None:
    """Print an array, one record after the other: there can be more than memory holds."""
    separator = "["
    for directory, record in found:
        members = msgspec.to_builtins(record)
        if with_directory:
            members = {"directory": directory} | members
        sys.stdout.write(f"{separator}\n{json_text(msgspec.json.encode(members))}")
        separator = ","
    sys.stdout.write("[]\n" if separator == "[" else "\n]\n")


def _print_rows(found: Iterable[_Located]) -> int:
    """Print a table, and return the number of its records."""
    rows = (_row(record) for _, record in found)
    measured = [_COLUMNS, *islice(rows, _MEASURED_ROWS)]
    count = -1
    for line in aligned(measured, rows):
        print(line)
        count += 1
    return count


def _row(record: Record) -> tuple[str, ...]:
    # SEC: a text that a client chose must not control the terminal.
    return tuple(printable(value or "-") for value in row_of(record))


@commands.command(
    "export",
    "write records to standard output",
    Argument(
        "--format FORMAT",
        "ndjson, as recorded, or csv with a line for each plate [ndjson]",
        choices=("ndjson", "csv"),
        default="ndjson",
    ),
    _from("all"),
    _TO,
    DIRECTORIES,
    examples=[
        "audit export > trail.ndjson",
        "audit export --format csv --from 2026-11-01 --to 2026-11-30 > november.csv",
    ],
    prints_data=False,
)
def _export(args: argparse.Namespace) -> None:
    period = period_of(args)
    views = _views(args)
    record_use("export", _criteria(args))
    output = sys.stdout.buffer
    done = write_export(output.write, views, period, args.format)
    output.flush()
    sentence = f"{counted(done.records, 'record')} exported"
    if done.left_out:
        sentence += f"; lines that are no records: {done.left_out:,}"
    print(sentence, file=sys.stderr)


@commands.command(
    "report",
    "summarise and verify the trail, or report about a plate, as HTML on standard output",
    Argument(
        "--plate PLATE",
        "report who asked about this plate, its watches and events; - is stdin",
        type=not_empty,
    ),
    _from(f"the last {REPORTED_DAYS} days; all with --plate"),
    _TO,
    DIRECTORIES,
    examples=[
        "audit report > report.html",
        "audit report --plate AB12CDE > AB12CDE.html",
        "audit report --from 2026-11-01 --to 2026-11-30 --json",
    ],
)
def _report(args: argparse.Namespace) -> None:
    if args.plate is not None:
        _report_plate(args)
        return
    if args.since is None:
        args.since = first_moment(first_reported_day())
    period = period_of(args)
    views = _views(args)
    record_use("report", _criteria(args))
    with waiting_for(args, "the trail to be read and verified"):
        refusals, comparison = _of_database(views, period)
        done = report(views, period, refusals, comparison, Config.from_env().audit_keep)
    if args.json:
        print_document(args, done)
        return
    _print_page(render(done))
    faults = sum(len(trail.faults) for trail in done.trails)
    verified = f"{counted(faults, 'fault')} found" if faults else "the trail verifies"
    missing = done.comparison.missing_total
    usage = f"; usage without records: {missing:,}" if missing else ""
    print(f"{counted(done.look_ups, 'look-up')} reported; {verified}{usage}", file=sys.stderr)


def _report_plate(args: argparse.Namespace) -> None:
    period, views = period_of(args), _views(args)
    plate = _plate(args)
    record_use("report", _criteria(args, plate=plate))
    with waiting_for(args, "the trail to be searched"):
        try:
            with opened_database() as engine:
                done = report_plate(views, plate, period, engine)
        except (OperatorError, peewee.PeeweeException):
            done = report_plate(views, plate, period, None)
    if args.json:
        print_document(args, done)
        return
    _print_page(render_plate(done))
    known = [counted(len(done.records), "record")]
    if done.watches is not None and done.events is not None:
        known.append(counted(len(done.watches), "watch", "watches"))
        known.append(counted(len(done.events), "event"))
    print(f"{', '.join(known)} reported", file=sys.stderr)


def _print_page(page: bytes) -> None:
    sys.stdout.buffer.write(page)
    sys.stdout.buffer.flush()


def _of_database(
    views: Sequence[View], period: TimeSpan
) -> tuple[list[Refusal] | None, Comparison | None]:
    """Return what the database says of a period; nothing if it cannot be read.

    A copy of a trail can be reported where the database is not.
    """
    try:
        with opened_database() as engine:
            zone = Config.from_env().timezone
            refusals = refusals_in(engine, period, zone)
            return refusals, comparison_of(engine, views, period, zone)
    except (OperatorError, peewee.PeeweeException):
        return None, None
