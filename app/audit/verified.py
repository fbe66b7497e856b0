"""What was verified before, so that a night need not read a whole trail (D167).

`verified.json` in VERIFYD_DATA_DIR has, for each file of the trail, the day on which it was last
read and found sound, and a mark of how it was then. The file is no evidence. Without it, or if it
is damaged, everything is read. If somebody forges it, a file is still read on its turn.
"""

import hashlib
import logging
import zlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self

import msgspec

from app import clock
from app.storage.files import read_bytes, replace

DAYS = 30
"""After so many days at most, each file is read again."""
_FILE = "verified.json"
_DAY_SECONDS = 86_400
_Seen = tuple[int, str]
"""A day, counted from 1970 in UTC, and a mark."""
_log = logging.getLogger("verifyd.trail")


class Verified:
    """The files that were sound before. By default nothing is known, so that all are read."""

    def __init__(self, former: Mapping[str, _Seen] | None = None) -> None:
        self._former = former or {}
        self._today = clock.now() // _DAY_SECONDS
        self._marks: dict[str, _Seen] = {}
        self._sound: dict[str, _Seen] = {}
        self.read = 0
        """How many files were read now."""

    @classmethod
    def load(cls, data_dir: Path) -> Self:
        """Return what is known."""
        with suppress(OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return cls(msgspec.json.decode(read_bytes(data_dir / _FILE), type=dict[str, _Seen]))
        return cls()

    def save(self, data_dir: Path) -> None:
        """Write what is known now. If that fails, the next run reads more."""
        try:
            replace(data_dir / _FILE, msgspec.json.encode(self._sound))
        except OSError as error:
            _log.warning("%s cannot be written: %s", data_dir / _FILE, error.strerror)

    def is_due(self, path: Path, expected: str) -> bool:
        """Tell whether a file must be read: it was not sound before, it changed, or it is its turn.

        Args:
            expected: digests of what the file should hold.

        Raises OSError.
        """
        name, mark = path.name, _mark(path, expected)
        day, former_mark = self._former.get(name, (0, ""))
        is_due = mark != former_mark or self._has_turn(name, day)
        self._marks[name] = (self._today if is_due else day), mark
        if not is_due:
            self.note_sound(path)
        self.read += is_due
        return is_due

    def note_sound(self, path: Path) -> None:
        """Remember that a file that was due is as expected, in the state that it had then.

        A file with a fault is never noted, so its alert lasts.
        """
        self._sound[path.name] = self._marks[path.name]

    def _has_turn(self, name: str, day: int) -> bool:
        # SEC: also by the name alone, so that a forged day postpones nothing for longer. This
        # spreads what was first read in one night, too.
        is_its_day = (zlib.crc32(name.encode()) - self._today) % DAYS == 0
        return is_its_day or not 0 <= self._today - day < DAYS


def _mark(path: Path, expected: str) -> str:
    """Return a text that changes with the file or with what it should hold. Raises OSError."""
    found = path.lstat()
    state = found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
    return hashlib.sha256(f"{state} {expected}".encode()).hexdigest()[:32]
