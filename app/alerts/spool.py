"""The queue of messages, a directory below `VERIFYD_DATA_DIR` that needs no database.

An alert about the database must not need it.

`queue/NUMBER.json` holds a message, and all conditions that were reported by then. So one rename
queues a message and remembers what it reported. After its delivery the newest message stays in
`last.json`. What came of the latest test is in `tested.json`. Every change needs `lock`.
"""

import errno
import logging
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from app.alerts.message import Alerted, Message
from app.errors import BAD_JSON
from app.storage import reserve
from app.storage.file_lock import locked, make_directory, tried
from app.storage.files import read_bytes, replace, sync

MESSAGES_MAX = 100
_LAST = "last.json"
_PART = "part"
_TESTED = "tested.json"
_log = logging.getLogger("verifyd.alerts")


class SendResult(NamedTuple):
    """The result of sending to one destination."""

    destination: str
    outcome: Literal["sent", "accepted", "failed"]
    """`accepted` means that somebody has taken the message who may still drop it."""
    reason: str | None = None
    """Why the message was not delivered, or may not be; None if it was."""

    def __str__(self) -> str:
        verb = {"sent": "delivered to", "accepted": "accepted by", "failed": "not delivered to"}
        reason = f": {self.reason}" if self.reason else ""
        return f"{verb[self.outcome]} {self.destination}{reason}"


class Entry(msgspec.Struct, frozen=True):
    """A message in the queue."""

    number: int
    message: Message
    alerted: dict[str, Alerted]
    """The conditions that were reported with this message or before, and are not over."""
    attempts: int = 0
    tried_at: int = 0
    delivered: list[str] = []
    """Digests of the destinations that accepted it."""


class Spool:
    """The directory of the queue, which is created when it is needed."""

    def __init__(self, data_dir: Path) -> None:
        self._directory = data_dir / "notices"
        self._queue = self._directory / "queue"
        self._reserve = self._directory / "reserve"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of the queue. Raises OSError."""
        make_directory(self._directory)
        with locked(self._directory / "lock"):
            yield

    @contextmanager
    def delivering(self) -> Iterator[bool]:
        """Yield whether this process is the only one that delivers. Raises OSError."""
        make_directory(self._directory)
        with tried(self._directory / "delivering") as is_alone:
            yield is_alone

    def alerted(self) -> Mapping[str, Alerted]:
        """Return the conditions that were reported and are not over. Raises OSError."""
        newest = max(self._all(), key=lambda entry: entry.number, default=None)
        return newest.alerted if newest else {}

    def put(self, message: Message, alerted: dict[str, Alerted]) -> None:
        """Queue a message, and remember what it reports. Needs the lock. Raises OSError."""
        queued = list(self.entries())
        number = max((entry.number for entry in self._all()), default=0) + 1
        self.write(Entry(number, message, alerted))
        for oldest in queued[: max(0, len(queued) + 1 - MESSAGES_MAX)]:
            _log.error("alert %s: dropped, the queue is full", oldest.message.id)
            self.finish(oldest)

    def note_tested(self, message_id: str, outcomes: Sequence[SendResult]) -> None:
        """Note what came of a test message. Needs the lock. Raises OSError."""
        replace(self._directory / _TESTED, msgspec.json.encode((message_id, outcomes)))

    def tested(self, message_id: str) -> list[SendResult] | None:
        """Return what came of a test message, None if that is not noted. Raises OSError."""
        with suppress(FileNotFoundError, *BAD_JSON):
            data = read_bytes(self._directory / _TESTED)
            tested, outcomes = msgspec.json.decode(data, type=tuple[str, list[SendResult]])
            return outcomes if tested == message_id else None
        return None

    def entries(self) -> Iterator[Entry]:
        """Yield the queued messages, oldest first. Raises OSError."""
        with suppress(FileNotFoundError):
            for name in sorted(os.listdir(self._queue)):
                yield from self._read(self._queue / name)

    def prepare(self) -> None:
        """Create the directory and its reserve of disk space, if the disk has room."""
        with suppress(OSError):
            make_directory(self._queue)
            reserve.take(self._reserve)

    def try_out(self) -> None:
        """Test whether messages can be queued and delivered. Raises OSError if not."""
        with self.locked(), self.delivering():
            make_directory(self._queue)
            for directory in (self._directory, self._queue):
                with tempfile.TemporaryFile(dir=directory):
                    pass

    def write(self, entry: Entry) -> None:
        """Write a message with the state of its delivery, also on a full disk."""
        make_directory(self._queue)
        data = msgspec.json.encode(entry)
        try:
            self._replace_file(data, entry)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            reserve.release(self._reserve)
            self._replace_file(data, entry)
        finally:
            reserve.take(self._reserve)

    def finish(self, entry: Entry) -> None:
        """Remove a message from the queue. The newest is kept in `last.json`."""
        path = self._path(entry)
        if any(other.number > entry.number for other in self._all()):
            path.unlink(missing_ok=True)
        else:
            with suppress(FileNotFoundError):
                path.rename(self._directory / _LAST)

    def _replace_file(self, data: bytes, entry: Entry) -> None:
        """Write the file of a message. A process that is killed leaves the former one."""
        part = self._directory / _PART
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.rename(self._path(entry))
        sync(self._queue)

    def _all(self) -> Iterator[Entry]:
        yield from self.entries()
        yield from self._read(self._directory / _LAST)

    def _read(self, path: Path) -> Iterator[Entry]:
        """Yield the message in a file, unless it no longer exists. A damaged file is removed."""
        try:
            yield msgspec.json.decode(read_bytes(path), type=Entry)
        except FileNotFoundError:
            return
        except (*BAD_JSON, IsADirectoryError) as error:
            _log.error("%s: removed, it is not a message: %s", path, type(error).__name__)
            with suppress(OSError):
                path.unlink()

    def _path(self, entry: Entry) -> Path:
        return self._queue / f"{entry.number:010}.json"
