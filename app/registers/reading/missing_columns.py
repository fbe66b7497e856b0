"""What is said about a file whose header or members lack columns (D65)."""

import shlex
from collections.abc import Collection, Iterable, Sequence

from app.registers.formats.columns import Column, KnownColumns, Presence
from app.registers.reading.streams import printable
from app.suggestions import closest, listed

_DELIMITERS = ";,\t|"
_LABELS_SHOWN = 10
_ALLOWED_MAX = 3
"""If a file lacks more columns of a mapping, it is rather the mapping of another file."""


def header_fault(known: KnownColumns, names: Sequence[str], missing: Sequence[Column]) -> str:
    """Return what to say about a header.

    Args:
        names: the columns of the file.
        missing: the columns that it lacks.
    """
    if not known.is_mapped:
        return f"The header has no column {lacking(missing, known.unknown(names))}"
    delimiter = _likely_delimiter(names)
    if delimiter:
        written = delimiter.replace("\t", "\\t")
        return (
            "With this delimiter the header has only one column. The delimiter seems to be "
            f'"{written}": write delimiter = "{written}" into the mapping.'
        )
    read = dict.fromkeys(column.label for column in known.columns if column.names)
    lost = dict.fromkeys(column.label for column in missing)
    # SEC: a text that is so close to a column's name is hardly a value.
    meant = {label: closest(label, _unread(known, names)) for label in lost}
    if _are_few([label for label in lost if not meant[label]], read):
        shown = [_with_hint(label, "did you mean", meant[label]) for label in lost]
        remedy = "correct the mapping" if all(meant.values()) else _remedy(missing)
        return f"The header has no column {_shown(shown)}; {remedy}"
    present = [label for label in read if label not in lost]
    has = f"only {listed(present)}" if present else "none"
    return (
        f"The mapping reads {len(read)} columns; the file has {has} of them. Is it the mapping of "
        f"another file? The file lacks {_shown(list(lost))}."
    )


def lacking(missing: Sequence[Column], unknown: Iterable[str]) -> str:
    """Return the missing columns or members, their possible new names, and what to do.

    Args:
        unknown: the names in the file that the format does not know.
    """
    names = list(unknown)
    now = {column.label: closest(column.label, names) for column in missing}
    shown = [_with_hint(label, "is it now", now[label]) for label in now]
    return f"{', '.join(shown)}; {_remedy(missing)}"


def _remedy(missing: Sequence[Column]) -> str:
    required = dict.fromkeys(each.label for each in missing if each.presence == Presence.REQUIRED)
    if required:
        return f"every row needs {' and '.join(required)}"
    labels = dict.fromkeys(column.label for column in missing)
    options = " ".join(f"--allow-missing {shlex.quote(label)}" for label in labels)
    return f"if that is right, repeat the load with {options}"


def _are_few(lost: Collection[str], read: Collection[str]) -> bool:
    return len(lost) <= _ALLOWED_MAX and 2 * len(lost) <= max(len(read), 2)


def _likely_delimiter(names: Sequence[str]) -> str | None:
    """Return the delimiter that an only column has most of in its name, None if it has none."""
    if len(names) != 1:
        return None
    likely = max(_DELIMITERS, key=names[0].count)
    return likely if likely in names[0] else None


def _unread(known: KnownColumns, names: Iterable[str]) -> list[str]:
    """Return the columns of a file that its mapping does not read."""
    read = frozenset[str]().union(*(column.names for column in known.columns))
    return [name for name in names if known.fold(name) not in read]


def _with_hint(label: str, question: str, name: str | None) -> str:
    return f"{label} ({question} {printable(name)}?)" if name else label


def _shown(labels: Sequence[str]) -> str:
    more = len(labels) - _LABELS_SHOWN
    return ", ".join(labels[:_LABELS_SHOWN]) + (f" and {more} more" if more > 0 else "")
