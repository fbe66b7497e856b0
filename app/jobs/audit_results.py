"""The files of what the console asks of the trail: questions and results (D138).

SEC: they say who asked about which plate. So only the service's user can read them, backups leave
them out, and they are removed after a day.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, TypeVar

import msgspec

from app import clock
from app.directories import make_directory
from app.jobs.audit_task_rows import Question, Task

KEPT_SECONDS = 86_400
RESULT = "json"
"""The suffix of the file that the console reads."""
_QUESTION = "question"
_DIRECTORY = "audit-results"
_DIRECTORY_MODE = 0o700
_FILE_MODE = 0o600
_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW

T = TypeVar("T")


class Results:
    """The files of all tasks of this host, in VERIFYD_DATA_DIR."""

    def __init__(self, data_dir: Path) -> None:
        self._directory = data_dir / _DIRECTORY

    def path(self, task: Task, suffix: str) -> Path:
        """Return the path of a file of a task."""
        return self._directory / f"{task.id}-{task.seen}.{suffix}"

    def ask(self, task: Task, question: Question) -> None:
        """Write down what a task asks. Raises OSError."""
        make_directory(self._directory.parent)
        with suppress(FileExistsError):
            self._directory.mkdir(mode=_DIRECTORY_MODE)
        with self.opened(task, _QUESTION) as file:
            file.write(msgspec.json.encode(question))

    def find_question(self, task: Task) -> Question | None:
        """Return what a task asks; None if its file was removed or damaged."""
        return self._read(task, _QUESTION, Question)

    def find(self, task: Task, kind: type[T]) -> T | None:
        """Return the result of a task; None if its file was removed or damaged."""
        return self._read(task, RESULT, kind)

    def size(self, task: Task, suffix: str) -> int | None:
        """Return the bytes of a file of a task; None if it was removed."""
        try:
            return self.path(task, suffix).stat().st_size
        except OSError:
            return None

    @contextmanager
    def opened(self, task: Task, suffix: str) -> Iterator[BinaryIO]:
        """Open a new file of a task to write to it. Raises OSError."""
        descriptor = os.open(self.path(task, suffix), _NEW, _FILE_MODE)
        with open(descriptor, "wb") as file:
            yield file

    def discard(self, task: Task) -> None:
        """Remove what a task that failed has written, but not its question."""
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

    def _read(self, task: Task, suffix: str, kind: type[T]) -> T | None:
        try:
            return msgspec.json.decode(self.path(task, suffix).read_bytes(), type=kind)
        except (OSError, msgspec.DecodeError):
            return None
