"""An attempt to load as people see it: the line of the history, decoded."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from app.registers.attempts import progress_of
from app.registers.history import INTERRUPTED, RegisterLoad, json_list
from app.registers.reading.reader import Progress
from app.registers.reading.rejects import Reason, rejects_path


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
    stored: dict[str, Any] = {name: getattr(load, name) for name in PastLoad._fields}
    files = load.files.split("\n") if load.files else []
    empty_if_unknown = ("register", "kind", "mode", "format")
    decoded = {
        **{name: stored[name] or None for name in empty_if_unknown},
        "status": INTERRUPTED if load.id in interrupted else load.status,
        "files": files,
        "sizes": json_list(load.sizes, int | None) or [None] * len(files),
        "reasons": json_list(load.reasons, Reason),
        "notes": json_list(load.notes, str),
        "accepted": json_list(load.accepted, str),
        "known": msgspec.json.decode(load.known) if load.known else None,
        "progress": progress_of(load.progress),
    }
    return PastLoad(**stored | decoded)


def find_rejects(data_dir: Path, load: PastLoad) -> Path | None:
    """Return the rejects file of a load, None if it is not on this host or was removed."""
    path = rejects_path(data_dir, load.register or "", load.id)
    return path if path.is_file() else None
