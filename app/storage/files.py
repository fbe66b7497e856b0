"""Names the files of SQLite databases, and finds out whether one was written to."""

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

import apsw

from app.errors import OperatorError
from app.text import counted

OPEN_FLAGS = (
    apsw.SQLITE_OPEN_READWRITE
    | apsw.SQLITE_OPEN_CREATE
    | apsw.SQLITE_OPEN_URI
    # PERF: otherwise SQLite locks a mutex for each value that is read. Threads share no connection.
    | apsw.SQLITE_OPEN_NOMUTEX
)
"""Open files by the URIs of `file_uri`, whose mode can only be narrower."""
SUFFIXES = ("", "-wal", "-shm", "-journal")
"""The suffixes of the files that SQLite keeps for a database."""


def register_file(database: Path, name: str, generation: int) -> Path:
    """Return the file of a generation of a register, beside the main SQLite database."""
    return database.with_name(f"{database.stem}.register_{name}.{generation}{database.suffix}")


def file_uri(path: Path, mode: str) -> str:
    """Return the SQLite URI that opens a file in a mode: `ro`, `rw` or `rwc`."""
    return f"file:{quote(str(path.absolute()))}?mode={mode}"


def connect(uri: str) -> apsw.Connection:
    """Open the SQLite file of a URI, for statements that no engine runs. Raises apsw.Error."""
    return apsw.Connection(uri, flags=OPEN_FLAGS)


def is_at_rest(file: Path) -> bool:
    """Tell whether the log of a database is empty: then all its data is in the file itself."""
    try:
        return file.with_name(f"{file.name}-wal").stat().st_size == 0
    except FileNotFoundError:
        return True


def is_older_than_log(file: Path) -> bool:
    """Tell whether the log beside a database continues a later state of it (D153).

    SQLite would write the pages of such a log into an old copy. Each log that a merge began starts
    with the first page of the database, which counts these logs as its `user_version`. Without its
    log, the file has a count that is lower by one at most.
    """
    with suppress(OSError, apsw.Error):
        with opened(file.with_name(f"{file.name}-wal"), os.O_RDONLY | os.O_NONBLOCK) as log:
            header, frame, page = os.read(log, 32), os.read(log, 24), os.read(log, 100)
        is_first_page = len(page) == 100 and frame[:4] == b"\0\0\0\1"
        if is_first_page and frame[8:16] == header[16:24]:  # Otherwise SQLite ignores the frame.
            return _count_of_logs(page) > _count_of_logs(_first_bytes(file)) + 1
    return False


def _first_bytes(file: Path) -> bytes:
    # NOTE: by SQLite, because closing the file otherwise would end the locks of this process.
    flags = [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY, 0]
    database = apsw.VFSFile("", os.fspath(file.absolute()), flags)
    try:
        return database.xRead(100, 0)
    finally:
        database.xClose()


def _count_of_logs(page: bytes) -> int:
    return int.from_bytes(page[60:64])


def stamp_of(file: Path) -> tuple[int, int]:
    """Return size and time of a file, in bytes and nanoseconds: a write changes one of them."""
    found = file.stat()
    return found.st_size, found.st_mtime_ns


@contextmanager
def opened(path: Path, flags: int, mode: int = 0o600) -> Iterator[int]:
    """Open a file for calls that take a descriptor, and close it afterwards. Raises OSError.

    Args:
        flags: those of `os.open`.
        mode: the permissions of a file that this creates, less what the umask removes.
    """
    descriptor = os.open(path, flags, mode)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def read_bytes(path: Path) -> bytes:
    """Return the content of a small file of the service.

    Raises OSError, also if it is no regular file: a pipe in its place would be waited for.
    """
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        return file.read()


def replace(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Write a small file durably in place of a former one, which a killed process leaves as it was.

    Args:
        mode: its permissions, whatever the umask.

    Raises OSError.
    """
    new = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        new.rename(path)
    finally:
        new.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Flush a file, or the names in a directory, to disk, so that they survive a power cut."""
    with opened(path, os.O_RDONLY) as descriptor:
        os.fsync(descriptor)


def require_directory(path: Path, source: str) -> None:
    """Raise OperatorError if a directory does not exist: it may be mistyped, or not mounted.

    Args:
        source: what has its name, for the message: a setting, or `the path`.
    """
    if not path.is_dir():
        raise OperatorError(f"the directory {path} does not exist; create it, or correct {source}")


def free_bytes_of(place: Path | int) -> int:
    """Return how many bytes are free for users without privileges, where a directory or file is.

    Args:
        place: its path or its descriptor.

    Raises OSError.
    """
    found = os.statvfs(place)
    return found.f_bavail * found.f_frsize


def size_text(size_bytes: int) -> str:
    """Return a number of bytes for a person to read, such as `1.2 MB`."""
    for unit, unit_bytes in (("GB", 10**9), ("MB", 10**6)):
        if size_bytes >= unit_bytes:
            return f"{size_bytes / unit_bytes:,.1f} {unit}"
    return counted(size_bytes, "byte") if size_bytes < 1000 else f"{size_bytes / 1000:,.0f} kB"
