"""Notes what suggests that values are wrong.

That is one value everywhere, dates of another calendar, repeated keys, exchanged columns, two dates
of one column, ends a day late, or many dates that moved back by one day.

A load is not refused for this: rules refuse what would change answers (D157).
"""

from collections.abc import Iterable, Sequence
from datetime import date

from app.config import SETTINGS
from app.registers.applying.counts import FAR_YEARS, VALUES_MAX, Counts
from app.registers.change import LoadChange
from app.registers.change_words import count_of
from app.registers.formats.changes import Columns, RowDeletion
from app.registers.formats.columns import Column, KnownColumns
from app.registers.formats.dates import ends_late
from app.registers.formats.native import SHAPES
from app.registers.history import REPLACE
from app.registers.intake import Intake
from app.registers.request import LoadRequest
from app.storage.tables import Kind, PolicyRow, Shape
from app.text import counted

UNIFORM_ROWS_MIN = 100
"""A note needs at least this many rows that suddenly all have the same value."""
UNIFORM_FIRST_ROWS_MIN = 1_000
"""The same if there is nothing to compare with. The vehicles of a small fleet are often alike."""
LONG_AGO_YEARS = 100
"""No register keeps what ended longer ago than this."""
ASK_ROWS_MIN = 10
"""A note asks about a column only if there are at least so many rows."""
DAY_SOONER_ROWS_MIN = 10
_KEYS = {
    Kind.VEHICLES: "registration",
    Kind.POLICIES: "registration, insurer, number and first day",
    Kind.FINES: "registration and reference",
}


def unread_notes(registers: Iterable[str]) -> list[str]:
    """Return a sentence for each register that cannot be read."""
    return [
        f"the register {name} cannot be read, so answers were counted without it"
        for name in sorted(registers)
    ]


def uniform_notes(request: LoadRequest, counts: Counts) -> list[str]:
    """Return a sentence for each member that has the same value in all rows and did not before."""
    notes = []
    before = counts.known_before
    after = counts.known_after if counts.held_before and request.mode != REPLACE else counts.known
    rows_min = UNIFORM_ROWS_MIN if before.rows else UNIFORM_FIRST_ROWS_MIN
    since = ", and was not before" if before.rows else ""
    for at, member in enumerate(after.members):
        was_uniform = len(before.values[at]) == 1
        is_uniform = len(after.values[at]) == 1 and after.known[at] >= rows_min
        if member.is_noted and is_uniform and not was_uniform:
            (value,) = after.values[at]
            shown = "the same" if member.is_text else value
            shown = str(bool(value)).lower() if member.is_flag else shown
            rows = f"all {after.known[at]:,} rows with a value"
            notes.append(f"{member.name} is {shown} in {rows}{since}")
    return notes


def calendar_notes(counts: Counts) -> list[str]:
    """Return a sentence for each last day that has years of no register in our calendar.

    Nepal and Thailand write 2083 and 2569 for 2026, Saudi Arabia and Iran 1448 and 1405. The rule
    `dates` finds this where there are rows to compare with; a first load has none.
    """
    notes = []
    loaded, year = counts.known, int(counts.day[:4])
    for at, member in enumerate(loaded.members):
        # Policies without an end often have the last day that there is, or one day far away.
        days = loaded.values[at] - {date.max.isoformat()} if member.is_expiry else ()
        if loaded.known[at] >= ASK_ROWS_MIN and len(days) > 1:
            first, last = min(days)[:4], max(days)[:4]
            if int(first) > year + FAR_YEARS or int(last) < year - LONG_AGO_YEARS:
                span = f"from {first} to {last}"
                notes.append(f"the years of {member.name} are {span}: are they of our calendar?")
    return notes


def exchanged_notes(change: LoadChange) -> list[str]:
    """Return a sentence if insurers are nearly unique, numbers are not, and it was not so before.

    The rule `variety` finds this where there are policies to compare with; a first load has none.
    """
    insurer, number = change.member("insurer"), change.member("number")

    def look_exchanged(side: int) -> bool:
        rows, insurers, numbers = insurer.known[side], insurer.values[side], number.values[side]
        # A number covers several vehicles or years, so that exchanged ones are not quite unique.
        nearly_all = min(rows // 2, VALUES_MAX)
        return rows >= ASK_ROWS_MIN and insurers >= nearly_all and insurers >= 2 * numbers

    if look_exchanged(0) or not look_exchanged(1):
        return []
    values = f"insurer has {count_of(insurer.values[1])} different values, number only "
    return [f"{values}{count_of(number.values[1])}: are they exchanged?"]


def day_sooner_notes(counts: Counts) -> list[str]:
    """Return a sentence for each member whose last day is a day sooner in many rows.

    No rule is broken by that (D157), so nothing else says it.
    """
    members = zip(counts.added.members, counts.differences.day_sooner, strict=True)
    return [
        f"{member.name} moved back by one day in {counted(rows, 'row')}"
        for member, rows in members
        if rows >= DAY_SOONER_ROWS_MIN
    ]


def late_end_notes(sample: Sequence[Columns], known: KnownColumns) -> list[str]:
    """Return a sentence if most policies end on the day of the month on which they begin.

    Args:
        sample: the first changes of a load.
        known: the columns of the format; agencies mean the same days in each of their files.
    """
    rows = [each for each in sample if known.is_partial and not isinstance(each, RowDeletion)]
    begin, end = map(PolicyRow._fields.index, ("valid_from", "valid_to"))
    late = sum(ends_late(row[begin], row[end]) for row in rows)
    if len(rows) < ASK_ROWS_MIN or 2 * late <= len(rows):
        return []
    return [
        "most policies end on the day of the month on which they begin: if validTo is the "
        "first day without, name it in first_day_without of a mapping"
    ]


def page_notes(intake: Intake, held_before: int) -> list[str]:
    """Return a sentence if a first load may be only the first page of an API."""
    rows = intake.records
    if held_before or rows not in intake.format.page_rows:
        return []
    return [
        f"the files have exactly {rows:,} rows, as many as a page of the agency's API: if this is "
        "only the first page, get the others with $limit and $offset, or download the whole file"
    ]


def completeness_notes(register: str) -> list[str]:
    """Return the sentence on first policies where no register holds every policy (D198).

    Args:
        register: that the policies are loaded into.
    """
    variable = SETTINGS["complete_registers"].variable
    return [
        f"if {register} holds every policy of the vehicles that are asked for, name it in "
        f"{variable}: until then it is not known of a vehicle without policy whether it is insured"
    ]


def unnamed_insurer_notes(stored: int) -> list[str]:
    r"""Return a sentence if a merge has policies without insurer beside those of an insurer `\N`.

    1.0.0 stored the word, which is a part of the key.

    Args:
        stored: how many of these are in force.
    """
    if not stored:
        return []
    are = "policy in force is" if stored == 1 else "policies in force are"
    return [
        rf"{stored:,} {are} stored with the insurer \N, which now means none; a merge leaves them "
        "beside those of the file, and a load with --mode replace removes them"
    ]


def other_letters_notes(plates: int) -> list[str]:
    """Return a sentence if plates of the files are known in letters of two scripts.

    Args:
        plates: how many are also in Latin letters in the files or in a register.
    """
    if not plates:
        return []
    are = "plate of these files is" if plates == 1 else "plates of these files are"
    return [
        f"{plates:,} {are} in Cyrillic or Greek letters, and in the files or a register in the "
        "Latin letters that look the same: these count as two vehicles"
    ]


def repeat_notes(kind: Kind, known: KnownColumns, rows: int, keys: int, files: int) -> list[str]:
    """Return a sentence if rows of native or mapped files repeat keys.

    If most rows repeat a registration, the wrong column is probably read as registration. Files of
    one load are applied in their order, so each of them may have all keys once.

    Args:
        known: the columns of the format.
        rows: the number of rows read.
        keys: the number of different keys among them.
        files: the number of files.
    """
    if not known.is_partial:
        return []
    if kind == Kind.VEHICLES and rows >= ASK_ROWS_MIN and rows > 2 * keys * files:
        column, *_ = known.columns
        is_named = known.is_mapped and not column.is_constant
        question = f": is {column.label} the right column?" if is_named else ""
        have = "the same registration" if keys == 1 else f"only {keys:,} different registrations"
        return [f"{rows:,} rows have {have}{question}"]
    repeated = rows - keys
    if repeated < 1 or files > 1:
        return []
    is_one = repeated == 1
    return [
        f"{repeated:,} {'row has' if is_one else 'rows have'} the {_KEYS[kind]} of another row; "
        "the last of them counts"
    ]


def shared_date_notes(known: KnownColumns) -> list[str]:
    """Return a sentence for each column that a mapping reads as two dates.

    The time of the last change does not count: it can be a day that the file also has another use
    for.

    Args:
        known: the columns of the format.
    """
    notes = []
    first: dict[frozenset[str], Column] = {}
    for column in known.columns:
        if column.names and known.is_mapped and SHAPES.get(column.member) == Shape.DAY:
            other = first.setdefault(column.names, column)
            if other is not column:
                members = f"{other.member} and {column.member}"
                notes.append(f"{members} are both read from {column.label}: is that right?")
    return notes
