"""Compares the columns of files with those that their format knows, and says what is missing."""

import shlex
from collections.abc import Collection, Iterable, Sequence

from app.errors import OperatorError, closest, listed
from app.registers.formats import FileFault
from app.registers.formats.changes import Columns, NarrowRow, RowDeletion
from app.registers.formats.columns import DELETED, Column, KnownColumns, Presence, is_like_deleted
from app.registers.formats.values import quoted, shortened
from app.registers.reading.rejects import RejectsFile
from app.text import printable

_DELIMITERS = ";,\t|"
_LABELS_SHOWN = 10
_ALLOWED_MAX = 3
"""If a file lacks more columns of a mapping, it is rather the mapping of another file."""
_NAMED_MAX = 10
# SEC: a file with many or long names must not fill the memory.
_UNKNOWN_MAX = 1_000
_NAME_CHARACTERS_MAX = 100


class ColumnsSeen:
    """Collects the names of the columns or JSON members of all files of a load.

    Args:
        known: the columns that the format knows.
        allowed: the columns that `--allow-missing` names.
        rejects: receives notes on the files.
        keeps_absent: whether the load keeps stored values whose column a file lacks.
    """

    def __init__(
        self,
        known: KnownColumns,
        allowed: Collection[str],
        rejects: RejectsFile,
        *,
        keeps_absent: bool,
    ) -> None:
        self._known_columns = known
        self._allowed = allowed
        self._rejects = rejects
        self._keeps_absent = keeps_absent and known.is_partial
        self._seen: set[str] = set()
        self._unknown: dict[str, None] = {}
        self._noted = 0
        self._may_hint = known.is_partial and DELETED not in (c.member for c in known.columns)
        """Whether a column that looks like `DELETED` is not read, and no note has said so yet."""

    def add(self, names: Iterable[str]) -> None:
        """Add names. Raises FileFault if they are a header that lacks columns it must have."""
        names = [name.strip()[:_NAME_CHARACTERS_MAX] for name in names]
        unknown = self._known_columns.unknown(names)
        self._seen.update(map(self._known_columns.fold, set(names).difference(unknown)))
        if len(self._unknown) < _UNKNOWN_MAX:
            self._unknown.update(dict.fromkeys(filter(None, unknown)))
        if self._known_columns.has_header:
            missing = self._known_columns.missing(names, self._allowed)
            if missing:
                raise FileFault(header_fault(self._known_columns, names, missing))
        if self._may_hint:
            self._note_like_deleted(_unread(self._known_columns, names))

    def end_file(self) -> None:
        """Note the unknown names that no earlier file of the load had."""
        new = list(self._unknown)[self._noted :]
        self._noted = len(self._unknown)
        if new:
            columns = "unknown column is" if len(new) == 1 else "unknown columns are"
            names = shortened(list(map(quoted, new)), _NAMED_MAX)
            self._rejects.note(f"{len(new):,} {columns} not read: {names}")

    def _note_like_deleted(self, unread: Iterable[str]) -> None:
        """Note the first column that looks as if it marked rows to remove.

        Its name alone removes none: 1.0.0 loads these rows, and it can mean something else.
        """
        name = next((each for each in unread if is_like_deleted(each)), None)
        if name is not None:
            self._may_hint = False
            remedy = (
                f"name it as {DELETED} in [columns] of the mapping"
                if self._known_columns.is_mapped
                else f"use --deleted {shlex.quote(printable(name))}"
            )
            self._rejects.note(
                f"rows that {quoted(name)} marks are loaded; to remove them, {remedy}"
            )

    def require_expected(self, rows: int) -> None:
        """Raise OperatorError if no row of a JSON load has an expected member.

        Args:
            rows: how many rows were read.
        """
        if self._known_columns.has_header or not (self._seen or self._unknown) or not rows:
            return
        missing = self._known_columns.missing(self._seen, self._allowed, rows)
        if missing:
            raise OperatorError(f"no row has the member {lacking(missing, self._unknown)}")

    def narrowed(self, rows: list[Columns], header: Collection[str] | None = None) -> list[Columns]:
        """Return the rows, as narrow rows if their file lacks columns.

        Args:
            header: the header of their file. None after the whole load has been read: in JSON, a
                member counts as present in all rows if any row of the load has it.
        """
        if not self._keeps_absent or self._known_columns.has_header == (header is None):
            return rows
        absent = self._known_columns.absent(self._seen if header is None else header)
        if not absent:
            return rows
        return [
            RowDeletion((*row[:-1], absent))
            if type(row) is RowDeletion
            else NarrowRow((*row, absent))
            for row in rows
        ]


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
        return f"The header has no column {shortened(shown, _LABELS_SHOWN)}; {remedy}"
    present = [label for label in read if label not in lost]
    has = f"only {listed(present)}" if present else "none"
    return (
        f"The mapping reads {len(read)} columns; the file has {has} of them. Is it the mapping of "
        f"another file? The file lacks {shortened(list(lost), _LABELS_SHOWN)}."
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
