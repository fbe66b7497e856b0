"""Creates and replaces the watches of an account from a CSV file (D183, D187)."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from io import BufferedReader, TextIOWrapper
from itertools import chain
from operator import itemgetter
from typing import BinaryIO, NamedTuple, TextIO

import peewee

from app.accounts.administration import require_account, require_plan
from app.accounts.models import subject_of
from app.actions import changing, complete, record
from app.audit.record import AuditError
from app.audit.recording import recording, said_by_command
from app.config import Config
from app.errors import Hindered, OperatorError, closest
from app.jobs.sweeping import watch_shown
from app.registers.formats.changes import Columns, Order
from app.registers.formats.csv_format import declared_separator, likely_separator
from app.registers.formats.suggesting.names import plate_columns
from app.registers.reading.sorted_runs import Runs, read_value, write_value
from app.registers.reading.streams import Content
from app.settings.enquiries import enquiry_text_fault, split_reasons
from app.storage.engine import Engine
from app.storage.errors import message_of
from app.storage.files import free_bytes_of, size_text
from app.storage.registers import with_current_registers
from app.text import counted
from app.vehicles.reader import BATCH_PLATES, readers_for_watches
from app.vehicles.records import Read
from app.vehicles.registration import canonical_registration, registration_fault
from app.watches.repository import Edit, Terms, Watches, WatchesChange
from app.watches.sweep import WANTED
from app.watches.terms import lead_days_fault, until_fault
from app.watches.told import ToldChecks, told_by_plate
from app.watches.words import told_plate

WATCHLIST = "watchlist"
"""The operation of its records in the trail."""
COLUMNS = ("registration", "lead_days", "reference", "until", "reason")
_FAULTS_SHOWN = 20
_LINE_CHARACTERS_MAX = 100_000
_RUN_ROWS = 20_000
"""How many rows are in memory while a file is checked; the others are in temporary files."""
_BY_PLATE = Order(group_columns=1, key_columns=2)
_WATCH_BYTES, _RECORD_BYTES = 500, 500
"""What a new watch takes in SQLite and in the trail, at most. Measured: 100 bytes in SQLite for an
unknown vehicle; the state of a known one is some 200 bytes of JSON."""
_LOG_BYTES = 20 * 10**6
"""What SQLite's log takes while pieces are committed."""


class Imported(NamedTuple):
    """What an import did."""

    account: str
    created: int
    replaced: int
    watches: int
    """How many watches the account has now."""


class _Rules(NamedTuple):
    """What the plan of the account allows."""

    watches_max: int
    reasons: Sequence[str]
    """Those that it accepts; all if there are none."""
    needs_reason: bool
    reason: str | None
    """The reason of rows that have none."""
    today: str


def import_watchlist(
    engine: Engine,
    config: Config,
    account_name: str,
    file: BinaryIO,
    name: str,
    reason: str | None,
) -> Imported:
    """Create and replace the watches that a file lists; others stay.

    The file is checked as a whole first. Watches are committed in pieces, each with the action that
    says how many were done. The same file can be imported again after an import that was killed.

    Args:
        name: of the file, for messages.
        reason: of rows that have none.

    Raises OperatorError with the first faults of the file, or if the plan allows fewer watches, and
    Hindered if the disk has no room; then nothing has changed. Raises Hindered with what was done
    if a later piece fails. Raises OSError if the file cannot be read.
    """
    account = require_account(engine, account_name)
    plan = require_plan(engine, account.plan_id)
    reader = readers_for_watches(engine, config)[plan.is_sandbox]
    reasons = split_reasons(plan.enquiry_reasons) if plan.enquiry != "off" else []
    needs_reason = plan.enquiry == "required"
    rules = _Rules(plan.watches_max, reasons, needs_reason, reason, reader.day(None))
    watches = Watches(engine)
    with (
        closing(Runs(_BY_PLATE, engine.scratch_directory)) as runs,
        runs.new_file() as wanted,
        recording(engine, config, {"operation": WATCHLIST, **said_by_command()}) as recorded,
    ):
        listed = _read(file, name, rules, runs, wanted)
        known = sum(
            len(watches.find_watches(account.id, [each.registration for each in piece]))
            for piece in _pieces(wanted)
        )
        has = watches.count(account.id)
        if has - known + listed > plan.watches_max:
            raise OperatorError(
                f"the plan {plan.name} allows {counted(plan.watches_max, 'watch', 'watches')}; "
                f"account {account.name} has {has:,}, and {name} adds {listed - known:,}"
            )
        is_recorded = recorded.is_on and not plan.is_sandbox
        _require_space(engine, config, listed - known, records=is_recorded)
        registers = Read()

        def look(plates: Sequence[str]) -> Mapping[str, ToldChecks]:
            nonlocal registers
            found, registers = with_current_registers(
                engine, lambda state: reader.look_up(state, plates, rules.today, WANTED)
            )
            return told_by_plate(found, rules.today)

        def tell(unrecorded: Sequence[Terms], told: Mapping[str, ToldChecks]) -> None:
            plates = (told_plate(each.registration, told[each.registration]) for each in unrecorded)
            recorded.record_each(
                watch_shown(account.name, terms, plate, registers)
                for terms, plate in zip(unrecorded, plates, strict=True)
            )

        done = {"listed": listed, "created": 0, "replaced": 0}
        action = None
        if listed:
            with changing(engine):
                subject = subject_of(account)
                action = record(engine, None, "watches.import", subject, None, done)

        def with_piece(changed: WatchesChange) -> dict[str, int]:
            created, stored = len(changed.created), len(changed.watches)
            return {
                "listed": listed,
                "created": done["created"] + created,
                "replaced": done["replaced"] + stored - created,
            }

        for piece in _pieces(wanted):
            try:
                changed = watches.change_watches(
                    account.id,
                    Edit(piece),
                    plan.watches_max,
                    look,
                    rules.today,
                    tell if is_recorded else None,
                    note=lambda changed: complete(engine, action, with_piece(changed)),
                )
            except (AuditError, peewee.DatabaseError, peewee.InterfaceError) as error:
                raise Hindered(
                    f"the import of {name} failed after {done['created'] + done['replaced']:,} of "
                    f"{counted(listed, 'watch', 'watches')}: {message_of(error)}. Import the file "
                    "again to store the rest"
                ) from error
            done = with_piece(changed)
            if len(changed.watches) < len(piece):
                raise OperatorError(
                    f"the account has created other watches meanwhile, so {done['created']:,} new "
                    f"ones of {name} were created, and not all"
                )
    return Imported(account.name, done["created"], done["replaced"], watches.count(account.id))


def _require_space(engine: Engine, config: Config, new: int, *, records: bool) -> None:
    """Raise Hindered if the disks have no room for so many new watches and their records.

    The database of a server is on its disk.
    """
    needs = [(config.audit_dir, new * _RECORD_BYTES)] if records else []
    if engine.file is not None:
        needs.append((engine.file.parent, new * _WATCH_BYTES + _LOG_BYTES))
    by_disk: dict[int, int] = {}
    for directory, needed_bytes in needs:
        disk = directory.stat().st_dev
        by_disk[disk] = by_disk.get(disk, 0) + needed_bytes
        free_bytes = free_bytes_of(directory)
        if new and free_bytes < by_disk[disk]:
            raise Hindered(
                f"the import needs about {size_text(by_disk[disk])} of disk space in "
                f"{directory.absolute()}, but only {size_text(free_bytes)} are free; make room, "
                "then import again; nothing was changed"
            )


def _read(file: BinaryIO, name: str, rules: _Rules, runs: Runs, wanted: BinaryIO) -> int:
    """Check a file, write what it wants to a file, by plate, and return how many watches.

    Raises OperatorError with its first faults.
    """
    rows, faults = _sort(file, name, rules, runs)
    listed, first, piece = 0, "", list[Columns]()
    for batch in runs.batches():
        for (plate, line, *wants), former in zip(batch, chain([("",)], batch), strict=False):
            if plate != former[0]:
                first = line
                piece.append((plate, *wants))
            elif len(faults) <= 2 * _FAULTS_SHOWN:
                faults.append((int(line), f"registration is in line {int(first)} already"))
        # PERF: batches can be small, and each piece costs a commit.
        while len(piece) >= BATCH_PLATES:
            write_value(piece[:BATCH_PLATES], wanted)
            listed, piece = listed + BATCH_PLATES, piece[BATCH_PLATES:]
    if piece:
        write_value(piece, wanted)
    wanted.flush()
    if faults:
        faults.sort(key=itemgetter(0))
        more = "\nand more" if len(faults) > _FAULTS_SHOWN else ""
        lines = "\n".join(f"line {line}: {each}" for line, each in faults[:_FAULTS_SHOWN])
        raise OperatorError(
            f"{name} has faults, so nothing was changed (the header counts as a line):\n"
            f"{lines}{more}"
        )
    if rows > rules.watches_max:
        allowed = counted(rules.watches_max, "watch", "watches")
        raise OperatorError(
            f"{name} has more plates than the {allowed} that the plan allows; nothing was changed"
        )
    return listed + len(piece)


def _sort(
    file: BinaryIO, name: str, rules: _Rules, runs: Runs
) -> tuple[int, list[tuple[int, str]]]:
    """Sort the rows of a file by plate and line; return how many, and faults with their lines.

    It stops at more faults than are shown, and at more rows than the plan allows watches.
    """
    rows, faults, latest = 0, list[tuple[int, str]](), list[Columns]()
    for line, cells in _rows(file, name):
        terms, found = _terms(cells, rules)
        faults += ((line, each) for each in found)
        if terms.registration:
            rows += 1
            latest.append((terms.registration, f"{line:012}", *terms[1:]))
        if len(faults) > _FAULTS_SHOWN or rows > rules.watches_max:
            break
        if len(latest) == _RUN_ROWS:
            runs.add(latest)
            latest = []
    runs.add(latest)
    return rows, faults


def _pieces(wanted: BinaryIO) -> Iterator[list[Terms]]:
    """Yield what `_read` has written, some at a time."""
    piece, at = read_value(wanted)
    while piece:
        yield [Terms(*each) for each in piece]
        piece, at = read_value(wanted, at)


def _rows(file: BinaryIO, name: str) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Yield each row of a CSV file with its line, as cells by column. Raises OperatorError."""
    columns, skipped = list[str](), 0
    content = BufferedReader(Content(file, name, lambda _: None))
    stream = TextIOWrapper(content, encoding="utf-8-sig", newline="")
    lines = _lines(stream, name)
    try:
        first = next(lines, "")
        declared = declared_separator(first)
        if declared is None:
            lines = chain([first] if first else [], lines)
        else:
            skipped = 1
        delimiter = declared or likely_separator(first)
        reader = csv.reader(lines, delimiter=delimiter, strict=True)
        for cells in reader:
            line = skipped + reader.line_num
            if not columns:
                columns = _columns(cells, name)
            elif len(cells) == len(columns):
                yield line, dict(zip(columns, map(str.strip, cells), strict=True))
            elif cells:
                has = counted(len(cells), "cell")
                raise OperatorError(
                    f"{name}, line {line}: it has {has}, and the header {len(columns)}"
                )
    except csv.Error as error:
        raise OperatorError(f"{name}, line {skipped + reader.line_num}: {error}") from error
    except UnicodeDecodeError as error:
        raise OperatorError(f"{name} is not UTF-8; save it as CSV (UTF-8)") from error
    if not columns:
        raise OperatorError(f"{name} has no header; it needs the column registration")


def _lines(stream: TextIO, name: str) -> Iterator[str]:
    """Yield the lines of a file. SEC: one without line ends would fill the memory."""
    while line := stream.readline(_LINE_CHARACTERS_MAX + 1):
        if len(line) > _LINE_CHARACTERS_MAX:
            raise OperatorError(
                f"{name} has a line of more than {_LINE_CHARACTERS_MAX:,} characters"
            )
        yield line


def _columns(cells: Sequence[str], name: str) -> list[str]:
    """Return the columns of a header, in any spelling of case, spaces and hyphens.

    Any name of a registration that `lookup --csv` knows is the column registration.
    """
    columns = ["_".join(each.strip().lower().replace("-", " ").split()) for each in cells]
    if "registration" not in columns:
        for place in plate_columns(cells):
            columns[place] = "registration"
    for column in columns:
        if column not in COLUMNS:
            meant = closest(column, COLUMNS)
            hint = f"; did you mean {meant}?" if meant else ""
            raise OperatorError(
                f"{name} has the unknown column {column or '(empty)'}{hint}; "
                f"the columns are {', '.join(COLUMNS)}"
            )
        if columns.count(column) > 1:
            raise OperatorError(f"{name} has the column {column} twice")
    if "registration" not in columns:
        raise OperatorError(f"{name} lacks the column registration")
    return columns


def _terms(cells: Mapping[str, str], rules: _Rules) -> tuple[Terms, list[str]]:
    """Return what a row wants, and what is wrong with it; it quotes nothing."""
    plate = canonical_registration(cells["registration"])
    reference, until = cells.get("reference") or None, cells.get("until") or None
    reason = cells.get("reason") or rules.reason
    days = cells.get("lead_days", "").replace(",", " ").replace(";", " ").split()
    numbers = [
        int(each) if each.isascii() and each.isdigit() and len(each) < 5 else 0 for each in days
    ]
    plate_fault = None if plate else f"must have {registration_fault(cells['registration'])}"
    faults = {
        "registration": plate_fault,
        "lead_days": lead_days_fault(numbers),
        "reference": reference and enquiry_text_fault(reference),
        "until": until_fault(until, rules.today, needs_end=rules.needs_reason),
        "reason": _reason_fault(reason, rules),
    }
    lead_days = tuple(sorted(numbers, reverse=True))
    terms = Terms(plate or "", lead_days, reference, reason, until)
    return terms, [f"{column} {fault}" for column, fault in faults.items() if fault]


def _reason_fault(reason: str | None, rules: _Rules) -> str | None:
    if reason is None:
        return "is missing; the plan needs one" if rules.needs_reason else None
    if fault := enquiry_text_fault(reason):
        return fault
    if rules.reasons and reason not in rules.reasons:
        return f"must be one that the plan accepts: {', '.join(rules.reasons)}"
    return None
