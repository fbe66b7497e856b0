"""Tells whether a file in the drop directory is complete (D73).

An uploader can mark a file as complete with a marker beside it: `NAME.sha256`, which holds its
checksum, or `NAME.done`, in any case. A file without markers is complete if it has not changed for
a minute and no process has it open for writing.
"""

import errno
import fcntl
import hashlib
import os
import re
import signal
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from app import clock
from app.registers.reading.sources import open_file

QUIET, SHA256, DONE = "quiet", "sha256", "done"
"""How to tell that a file is complete: the values of `VERIFYD_DROP_WAIT`."""
MARKER_SUFFIX = r"\.(?:sha256|sha256sum|sha256\.txt|done)"
"""The pattern of what markers add to the name of their file. Case does not matter."""
_MARKER = re.compile(rf"(.+){MARKER_SUFFIX}", re.IGNORECASE | re.DOTALL)
_QUIET_NS = 60_000_000_000
_OVERDUE_NS = 3_600_000_000_000
_MARKER_BYTES_MAX = 64 * 1024
# The digest alone or as `sha256sum` writes it, in text and binary mode; below, as `openssl` does.
_DIGEST = re.compile(r"\\?([0-9a-f]{64})(?:\s+\*?(.*))?", re.IGNORECASE)
_TAGGED = re.compile(r"\\?SHA(?:2-)?256 ?\((.*)\) ?= ?([0-9a-f]{64})", re.IGNORECASE)
# PowerShell writes a table, a list or a CSV, other tools a sentence.
_ANYWHERE = re.compile(r"(?<![0-9a-z])[0-9a-f]{64}(?![0-9a-z])", re.IGNORECASE)


class Upload(NamedTuple):
    """How far the upload of a file has come."""

    markers: Mapping[Path, os.stat_result]
    """The markers that exist, with their states."""
    waits_for: str = ""
    """Why the file must wait; empty if it need not."""
    fault: str = ""
    """Why the file can never be loaded as it is; empty if it can."""
    is_overdue: bool = False
    """Whether it waits for something that should have come an hour ago."""


def is_marker(name: str) -> bool:
    return _MARKER.fullmatch(name) is not None


def marked_name(marker: str, names: Iterable[str]) -> str | None:
    """Return which of the names a marker belongs to, None if to none.

    It belongs to the file that it names, else to one whose name differs from that only in case.
    """
    found = _MARKER.fullmatch(marker)
    stem = found[1] if found else ""
    alike = [name for name in names if name.lower() == stem.lower() and not is_marker(name)]
    return stem if stem in alike else min(alike, default=None)


def upload_of(path: Path, found: os.stat_result, wait: str, beside: Iterable[str]) -> Upload:
    """Return whether a regular file is complete, and matches its checksum if it has one.

    Args:
        found: the state of the file.
        wait: QUIET, SHA256 or DONE. A checksum is compared in any case.
        beside: the names in its directory.

    Raises OSError if the file or a marker cannot be read.
    """
    # PERF: most names are those of other files, and need no pattern.
    stem = path.name.lower()
    alike = [name for name in beside if name.lower().startswith(stem)]
    possible = [path.with_name(name) for name in alike if marked_name(name, alike) == path.name]
    markers = {each: state for each in possible if (state := lstat_if_exists(each))}
    for marker, state in markers.items():
        if not stat.S_ISREG(state.st_mode):
            # SEC: a link is not followed, and without its checksum the file is not loaded.
            return Upload(markers, f"{marker.name} is not a regular file")
    done = [each for each in markers if each.name.lower().endswith(DONE)]
    checksums = [each for each in markers if each not in done]
    required = done if wait == DONE else checksums
    if wait == QUIET:
        waits_for = _why_unfinished(path, found)
    elif not required:
        waits_for = f"{path.name}.{wait} is missing"
    else:
        is_early = wait == DONE and all(_is_older(markers[each], found) for each in required)
        waits_for = f"it was changed after {required[0].name} was made" if is_early else ""
    if waits_for or not checksums:
        return Upload(markers, waits_for)
    expected = {each.name: _digests(each, path.name) for each in checksums}
    for marker in checksums:
        if not expected[marker.name]:
            is_overdue = all(
                clock.now_ns() - changed_at_ns(state) > _OVERDUE_NS
                for state in (found, markers[marker])
            )
            missing = f"{marker.name} has no SHA-256 checksum for it"
            return Upload(markers, missing, is_overdue=is_overdue)
    with open_file(path, is_trusted=False) as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    others = [
        f"{name} has {' and '.join(sorted(digests))}"
        for name, digests in expected.items()
        if digests != {digest}
    ]
    if not others:
        return Upload(markers)
    difference = f"its checksum is {digest}, but {', and '.join(others)}"
    is_early = any(_is_older(markers[each], found) for each in checksums)
    if is_early or _why_unfinished(path, path.lstat()):
        # The marker belongs to an earlier upload, or was written before the end of the file.
        return Upload(markers, difference)
    return Upload(markers, fault=difference)


def _why_unfinished(path: Path, found: os.stat_result) -> str:
    """Return why a file may still be growing; empty if it is complete."""
    # NOTE: a modification time in the future does not count as a recent change: the file was
    # copied with its time, from a host with another clock.
    if abs(clock.now_ns() - found.st_mtime_ns) < _QUIET_NS:
        return "it changed less than a minute ago"
    return "a process has it open for writing" if is_being_written(path) else ""


def is_being_written(path: Path) -> bool:
    """Tell whether a process has a file open for writing.

    The kernel refuses a lease on such a file. It grants leases only to the owner of the file and to
    root (CAP_LEASE). For other users, and on file systems without leases, the result is False.
    """
    # The kernel sends SIGIO if a process opens the file while this one holds the lease.
    former = signal.signal(signal.SIGIO, signal.SIG_IGN)
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(path, flags)
        try:
            fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
            fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        finally:
            os.close(descriptor)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        signal.signal(signal.SIGIO, former)
    return False


def _is_older(marker: os.stat_result, found: os.stat_result) -> bool:
    """Tell whether a file was changed after its marker was written."""
    return marker.st_mtime_ns < changed_at_ns(found)


def changed_at_ns(found: os.stat_result) -> int:
    """Return when a file was last changed, in Unix nanoseconds.

    The modification time can be in the future: a file can be copied with its time, from a host with
    another clock. The status change time, which is always from this host, is its upper limit.
    """
    return min(found.st_mtime_ns, found.st_ctime_ns)


def _digests(marker: Path, name: str) -> set[str]:
    """Return the digests that a marker has beside the name of a file, else all that it has.

    They are in lower case. More than one can be right for no file.
    """
    with open_file(marker, is_trusted=False) as file:
        data = file.read(_MARKER_BYTES_MAX)
    # PowerShell writes UTF-16 with a byte order mark.
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    text = data.decode(encoding, errors="replace")
    named = set()
    for line in map(str.strip, text.splitlines()):
        if (found := _DIGEST.fullmatch(line)) and os.path.basename(found[2] or "") == name:
            named.add(found[1].lower())
        elif (found := _TAGGED.fullmatch(line)) and os.path.basename(found[1]) == name:
            named.add(found[2].lower())
    # The name beside the only digest does not matter: the file may have been renamed since.
    return named or {each.lower() for each in _ANYWHERE.findall(text)}


def lstat_if_exists(path: Path) -> os.stat_result | None:
    """Return the state of a file or link; None if it does not exist."""
    try:
        return path.lstat()
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        return None  # A name can be too long to have markers.
