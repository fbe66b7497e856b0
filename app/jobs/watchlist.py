"""Creates and replaces the watches of an account from a CSV file (D183, D187)."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from app.accounts.administration import require_account, require_plan
from app.accounts.models import Plan
from app.accounts.states import subject_of
from app.actions import changing, record, session
from app.audit.state import opened_for_command
from app.config import Config
from app.enquiries import enquiry_text_fault, split_reasons
from app.errors import OperatorError, closest
from app.jobs.sweeping import watch_record
from app.registers.formats.csv_format import declared_separator, likely_separator
from app.storage.engine import Engine
from app.storage.registers import with_current_registers
from app.vehicles.reader import BATCH_PLATES, readers_of
from app.vehicles.records import Read
from app.vehicles.registration import canonical_registration, registration_fault
from app.watches.repository import Edit, Terms, Watches
from app.watches.sweep import WANTED
from app.watches.terms import lead_days_fault, until_fault
from app.watches.told import Told, told_by_plate
from app.watches.words import told_plate

WATCHLIST = "watchlist"
"""The operation of its records in the trail."""
COLUMNS = ("registration", "lead_days", "reference", "until", "reason")
_FAULTS_SHOWN = 20


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

    @classmethod
    def of(cls, plan: Plan, reason: str | None, today: str) -> "_Rules":
        needs_reason = plan.enquiry == "required"
        reasons = split_reasons(plan.enquiry_reasons) if plan.enquiry != "off" else []
        return cls(plan.watches_max, reasons, needs_reason, reason, today)


def import_watchlist(
    engine: Engine, config: Config, account_name: str, path: Path, reason: str | None
) -> Imported:
    """Create and replace the watches that a file lists; others stay.

    The file is checked as a whole first. Watches are committed in pieces; the same file can be
    imported again after an import that was killed.

    Args:
        reason: of rows that have none.

    Raises OperatorError with the first faults of the file, or if the plan allows fewer watches;
    then nothing has changed. Raises OSError if the file cannot be read.
    """
    account = require_account(engine, account_name)
    plan = require_plan(engine, account.plan_id)
    reader = readers_of(engine, config)[plan.is_sandbox]
    rules = _Rules.of(plan, reason, reader.day(None))
    watches = Watches(engine)
    wanted = _read(path.read_bytes(), str(path), rules)
    pieces = [wanted[at : at + BATCH_PLATES] for at in range(0, len(wanted), BATCH_PLATES)]
    known = sum(
        len(watches.find_watches(account.id, [each.registration for each in piece]))
        for piece in pieces
    )
    has = watches.count(account.id)
    if has - known + len(wanted) > plan.watches_max:
        raise OperatorError(
            f"the plan {plan.name} allows {plan.watches_max:,} watches; account {account.name} has "
            f"{has:,}, and {path} adds {len(wanted) - known:,}"
        )
    if wanted:
        # Before they take effect, as there are several transactions; it can be repeated.
        with changing(engine):
            done = {"created": len(wanted) - known, "replaced": known}
            record(engine, None, "watches.import", subject_of(account), None, done)
    created = 0
    with opened_for_command(engine, config) as trail:
        registers, who = Read(), session()

        def look(plates: Sequence[str]) -> Mapping[str, Told]:
            nonlocal registers
            found, registers = with_current_registers(
                engine, lambda state: reader.look_up(state, plates, rules.today, WANTED)
            )
            return told_by_plate(found, rules.today)

        def tell(unrecorded: Sequence[Terms], told: Mapping[str, Told]) -> None:
            if trail is not None:
                plates = (told_plate(e.registration, told[e.registration]) for e in unrecorded)
                trail.append(
                    *(
                        watch_record(WATCHLIST, account.name, terms, plate, registers, who)
                        for terms, plate in zip(unrecorded, plates, strict=True)
                    )
                )

        telling = None if trail is None or plan.is_sandbox else tell
        for piece in pieces:
            changed = watches.change_watches(
                account.id, Edit(piece), plan.watches_max, look, rules.today, telling
            )
            created += len(changed.created)
            if len(changed.watches) < len(piece):
                raise OperatorError(
                    f"the account has created other watches meanwhile, so {created:,} new ones of "
                    f"{path} were created, and not all"
                )
    return Imported(account.name, created, len(wanted) - created, watches.count(account.id))


def _read(data: bytes, name: str, rules: _Rules) -> list[Terms]:
    """Return what a file wants. Raises OperatorError with its first faults."""
    faults, wanted = list[str](), dict[str, tuple[int, Terms]]()
    for line, cells in _rows(data, name):
        terms, found = _terms(cells, rules)
        first = wanted.setdefault(terms.registration or str(line), (line, terms))[0]
        if first != line:
            found.append(f"registration is in line {first} already")
        faults += (f"line {line}: {each}" for each in found)
        if len(faults) > _FAULTS_SHOWN or len(wanted) > rules.watches_max:
            break
    if faults:
        more = "\nand more" if len(faults) > _FAULTS_SHOWN else ""
        lines = "\n".join(faults[:_FAULTS_SHOWN])
        raise OperatorError(f"{name} has faults, so nothing was changed:\n{lines}{more}")
    if len(wanted) > rules.watches_max:
        raise OperatorError(
            f"{name} has more plates than the {rules.watches_max:,} watches that the plan allows; "
            "nothing was changed"
        )
    return [terms for _, terms in wanted.values()]


def _rows(data: bytes, name: str) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Yield each row of a CSV file with its line, as cells by column. Raises OperatorError."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise OperatorError(f"{name} is not UTF-8; save it as CSV (UTF-8)") from error
    stream = io.StringIO(text, newline="")
    first = stream.readline()
    declared = declared_separator(first)
    skipped = 0 if declared is None else 1
    if declared is None:
        stream.seek(0)
    reader = csv.reader(stream, delimiter=declared or likely_separator(first), strict=True)
    columns = list[str]()
    try:
        for cells in reader:
            line = skipped + reader.line_num
            if not columns:
                columns = _columns(cells, name)
            elif len(cells) == len(columns):
                yield line, dict(zip(columns, map(str.strip, cells), strict=True))
            elif cells:
                raise OperatorError(
                    f"{name}, line {line}: it has {len(cells)} cells, and the header {len(columns)}"
                )
    except csv.Error as error:
        raise OperatorError(f"{name}, line {skipped + reader.line_num}: {error}") from error
    if not columns:
        raise OperatorError(f"{name} has no header; it needs the column registration")


def _columns(cells: Sequence[str], name: str) -> list[str]:
    """Return the columns of a header, in any spelling of case, spaces and hyphens."""
    columns = ["_".join(each.strip().lower().replace("-", " ").split()) for each in cells]
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
