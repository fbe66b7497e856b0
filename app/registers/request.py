"""What a load is asked to do, and how it ended."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from app.registers.formats import FORMATS, Format
from app.registers.history import MERGE
from app.registers.reading.rejects import Reason, RejectLimit
from app.storage.tables import Kind

DEFAULT_MAX_REJECTS = "1%"
SHRINK, UNTERMINATED, EMPTY = "shrink", "unterminated", "empty"
"""What an operator can allow (`RegisterLoad.accepted`)."""
LOSS = "loss:"
"""What a member that can be lost follows there."""


class LoadRequest(NamedTuple):
    """What the operator asked for; format, kind and register are detected if they are None."""

    files: Sequence[str]
    formats: Mapping[str, Format] = FORMATS
    format: str | None = None
    kind: Kind | None = None
    register: str | None = None
    mode: str = MERGE
    max_rejects: RejectLimit = RejectLimit.parse(DEFAULT_MAX_REJECTS)
    rejects: Path | None = None
    allow_shrink: bool = False
    allow_loss: Sequence[str] = ()
    """Members that fewer rows than before may have."""
    loss_max: int = 10
    """By how many percentage points the share of rows with a member may fall (D67)."""
    allow_missing: Sequence[str] = ()
    """Columns that the files may lack although their format expects them (D65)."""
    blank_missing: bool = False
    """Whether a merge blanks the members that a narrow file has no column for (D66)."""
    allow_unterminated: bool = False
    empty_ok: bool = False
    dry_run: bool = False
    are_trusted: bool = True
    """Whether the files may be links and pipes; others can write to the drop directory."""
    require_whole: Callable[[], object] = lambda: None
    """Raises OperatorError if a file is not complete; called before they are read, and after."""
    keep_snapshots: int = 1
    """To how many earlier states the register can be rolled back afterwards (D71)."""

    @property
    def accepted(self) -> list[str]:
        """What the operator allowed, in the words of the history."""
        allowed = {
            SHRINK: self.allow_shrink,
            UNTERMINATED: self.allow_unterminated,
            EMPTY: self.empty_ok,
        }
        return [
            *(word for word, is_allowed in allowed.items() if is_allowed),
            *(f"{LOSS}{member}" for member in self.allow_loss),
            *(f"missing:{column}" for column in self.allow_missing),
        ]


class LoadResult(NamedTuple):
    """How a load ended, or how a dry run would have ended; `rows` are data records."""

    load: int | None
    """Its number in the history; None for a dry run."""
    register: str
    kind: str
    mode: str
    format: str
    dry_run: bool
    rows: int
    loaded: int
    changed: int
    """Rows of the register that were added, changed or removed."""
    rejected: int
    skipped: int
    held_before: int
    """Rows of this kind that the register held before, and holds now."""
    held: int
    checksum: str
    """SHA-256 of everything read, decompressed, in the order of the files."""
    rejects: str | None
    """The file with the rejected records; None if there is none."""
    reasons: Sequence[Reason]
    """Why the first records were rejected."""
    notes: Sequence[str]
    """What the operator should know about the files."""
