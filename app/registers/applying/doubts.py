"""Notes what suggests that a wrong column is read: repeated keys, two dates of one (D123)."""

from app.registers.formats.columns import Column, KnownColumns
from app.registers.formats.suggesting.names import SHAPES, Shape
from app.storage.tables import Kind

ROWS_MIN = 10
"""A note asks about the column of the registration only if there are at least so many rows."""
_KEYS = {
    Kind.VEHICLES: "registration",
    Kind.POLICIES: "registration, insurer, number and first day",
    Kind.FINES: "registration and reference",
}


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
    if kind == Kind.VEHICLES and rows >= ROWS_MIN and rows > 2 * keys * files:
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
