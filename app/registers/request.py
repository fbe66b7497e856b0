"""What a load is asked for, and how it ended."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from app.registers.formats import FORMATS, Format, Kind
from app.registers.history import MERGE
from app.registers.rejects import RejectLimit

DEFAULT_MAX_REJECTS = "1%"


class LoadRequest(NamedTuple):
    """What the operator asked for; what is None is found by looking at the files."""

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
    """Members of which fewer rows may know something."""
    loss_max: int = 10
    """By so many percentage points the share of the rows that know a member may fall (D67)."""
    allow_missing: Sequence[str] = ()
    """Columns that the files may lack, though their format expects them (D65)."""
    blank_missing: bool = False
    """A merge blanks the members that a narrow file has no column for (D66)."""
    dry_run: bool = False

    @property
    def accepted(self) -> list[str]:
        """What the operator allowed, as the history keeps it."""
        return [
            *(["shrink"] if self.allow_shrink else []),
            *(f"loss:{member}" for member in self.allow_loss),
            *(f"missing:{column}" for column in self.allow_missing),
        ]


class LoadResult(NamedTuple):
    """How a load ended; `rows` are data records, `changed` those that made a difference.

    Of a dry run: how it would have ended.
    """

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
    """SHA-256 of all that was read, decompressed, in the order of the files."""
    rejects: str | None
    """Where the rejected records are; None if there are none, or nobody wrote them."""
    notes: Sequence[str]
    """What the operator should know of the files."""
