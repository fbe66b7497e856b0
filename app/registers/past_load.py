"""An attempt to load as people see it: the line of the history, decoded (D69)."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from app.registers.attempts import progress_of
from app.registers.history import INTERRUPTED, RegisterLoad, json_list
from app.registers.reading.reader import Progress
from app.registers.reading.rejects import rejects_path
from app.registers.reject_limit import Reason


class PastLoad(NamedTuple):
    """An attempt; unknown members are None. Times are Unix seconds.

    A file that was not recognised has no register, kind, mode and format.
    """

    id: int
    register: str | None
    kind: str | None
    mode: str | None
    format: str | None
    status: str
    """`running`, `done`, `failed` or `interrupted`."""
    reason: str | None
    rows: int
    loaded: int
    changed: int
    rejected: int
    skipped: int
    held: int | None
    started_at: int
    finished_at: int | None
    loaded_by: str
    checksum: str | None
    is_terminated: bool | None
    files: list[str]
    sizes: list[int | None]
    """Bytes of each file; None for a pipe."""
    reasons: list[Reason]
    notes: list[str]
    accepted: list[str]
    known: Mapping[str, int] | None
    """How many rows have each member."""
    progress: Progress | None
    """How far it had got when that was last noted."""

    @property
    def seconds(self) -> int | None:
        """How long it took; None if its end is unknown."""
        return None if self.finished_at is None else self.finished_at - self.started_at


def past_load(load: RegisterLoad, interrupted: Collection[int]) -> PastLoad:
    """Return an attempt.

    A load that was killed is `interrupted` until the next load of its register finds out whether
    its rows were committed.

    Args:
        interrupted: the numbers of loads that were killed.
    """
    files = load.files.split("\n") if load.files else []
    return PastLoad(
        id=load.id,
        register=load.register or None,
        kind=load.kind or None,
        mode=load.mode or None,
        format=load.format or None,
        status=INTERRUPTED if load.id in interrupted else load.status,
        reason=load.reason,
        rows=load.rows,
        loaded=load.loaded,
        changed=load.changed,
        rejected=load.rejected,
        skipped=load.skipped,
        held=load.held,
        started_at=load.started_at,
        finished_at=load.finished_at,
        loaded_by=load.loaded_by,
        checksum=load.checksum,
        is_terminated=load.is_terminated,
        files=files,
        sizes=json_list(load.sizes, int | None) or [None] * len(files),
        reasons=json_list(load.reasons, Reason),
        notes=json_list(load.notes, str),
        accepted=json_list(load.accepted, str),
        known=msgspec.json.decode(load.known) if load.known else None,
        progress=progress_of(load.progress),
    )


def find_rejects(data_dir: Path, load: PastLoad) -> Path | None:
    """Return the rejects file of a load, None if it is not on this host or was removed."""
    path = rejects_path(data_dir, load.register or "", load.id)
    return path if path.is_file() else None
