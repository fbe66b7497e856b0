"""The files of the tasks that the console starts: what is asked, and what is found (D138).

SEC: questions and results say who asked about which plate. So only the service's user can read
their files, backups leave these files out, and they are removed after a day.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, TypeVar

import msgspec

from app import clock
from app.audit.record import AuditError, Criteria
from app.errors import BAD_JSON
from app.jobs.tasks import AnyTask
from app.storage.file_lock import make_directory
from app.storage.files import free_bytes_of, read_bytes

KEPT_SECONDS = 86_400
RESULT = "json"
"""The suffix of the file that the console reads."""
_QUESTION = "question"
_DIRECTORY = "audit-results"
_DIRECTORY_MODE = 0o700
_FILE_MODE = 0o600
_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""Without it Excel misreads letters outside of ASCII."""
_EXPORT_BYTES_MAX = 10**9
_FREE_BYTES_MIN = 512 * 10**6
_LOOK_EVERY_BYTES = 1 << 20

T = TypeVar("T")


class TrailQuestion(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a task asks of the trail."""

    criteria: Criteria = msgspec.field(default_factory=Criteria)
    """Of a search, an export or a report. Times are those of records."""
    form: str = ""
    """Of an export: `csv` or `ndjson`."""
    finds_all: bool = False
    """Of a search: find all records, not only the newest."""
    digest: str | None = None
    """Of a verification: one that was kept elsewhere."""
    load: int = 0
    """Of a diff: the number of the load."""
    reason: str | None = None
    reference: str | None = None
    request_id: str | None = None


class Results:
    """The files of all tasks of this host, in VERIFYD_DATA_DIR."""

    def __init__(self, data_dir: Path) -> None:
        self._directory = data_dir / _DIRECTORY

    def path(self, task: AnyTask, suffix: str) -> Path:
        return self._directory / f"{task.id}-{task.seen}.{suffix}"

    def ask(self, task: AnyTask, question: TrailQuestion) -> None:
        """Write the question of a task to its file. Raises OSError."""
        make_directory(self._directory.parent)
        with suppress(FileExistsError):
            self._directory.mkdir(mode=_DIRECTORY_MODE)
        with self.opened(task, _QUESTION) as file:
            file.write(msgspec.json.encode(question))

    def find_question(self, task: AnyTask) -> TrailQuestion | None:
        """Return the question of a task; None if its file was removed or damaged."""
        return self._read(task, _QUESTION, TrailQuestion)

    def find(self, task: AnyTask, kind: type[T]) -> T | None:
        """Return the result of a task; None if its file was removed or damaged."""
        return self._read(task, RESULT, kind)

    def size(self, task: AnyTask, suffix: str) -> int | None:
        """Return the bytes of a file of a task; None if it was removed."""
        try:
            return self.path(task, suffix).stat().st_size
        except OSError:
            return None

    @contextmanager
    def opened(self, task: AnyTask, suffix: str) -> Iterator[BinaryIO]:
        """Open a new file of a task to write to it. Raises OSError."""
        descriptor = os.open(self.path(task, suffix), _NEW, _FILE_MODE)
        with open(descriptor, "wb") as file:
            yield file

    def discard(self, task: AnyTask) -> None:
        """Remove the files of a failed task, except its question."""
        for path in self._directory.glob(f"{task.id}-{task.seen}.*"):
            if path != self.path(task, _QUESTION):
                path.unlink(missing_ok=True)

    def remove_old(self) -> None:
        """Remove the files of tasks that are older than a day, as far as that is possible."""
        oldest = clock.now() - KEPT_SECONDS
        with suppress(OSError):
            for path in list(self._directory.iterdir()):
                with suppress(FileNotFoundError):
                    if path.stat().st_mtime < oldest:
                        path.unlink()

    def _read(self, task: AnyTask, suffix: str, kind: type[T]) -> T | None:
        try:
            return msgspec.json.decode(read_bytes(self.path(task, suffix)), type=kind)
        except (OSError, *BAD_JSON):
            return None


class LimitedFile:
    """Writes an export as long as it leaves room on the disk for the service.

    Args:
        way_out: what the person can do if there is no room.
    """

    def __init__(self, file: BinaryIO, way_out: str) -> None:
        self._file, self._way_out = file, way_out
        self._bytes = self._looked_at = 0

    def write(self, piece: bytes) -> None:
        """Write some bytes. Raises AuditError if there is no room for them, and OSError."""
        self._file.write(piece)
        self._bytes += len(piece)
        if self._bytes < self._looked_at:
            return
        self._looked_at = self._bytes + _LOOK_EVERY_BYTES
        if self._bytes > _EXPORT_BYTES_MAX:
            raise AuditError(f"the file is larger than 1 GB; {self._way_out}")
        if free_bytes_of(self._file.fileno()) < _FREE_BYTES_MIN:
            raise AuditError(f"the disk has less than 512 MB left; {self._way_out}")
