"""Tells whether a file in the drop directory is complete (D73).

An uploader can mark a file as complete with a marker beside it: `NAME.sha256`, which holds its
checksum, or `NAME.done`. A file without markers is complete if it has not changed for a minute and
no process has it open for writing.
"""

import errno
import fcntl
import hashlib
import os
import re
import signal
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from app import clock
from app.registers.reading.sources import open_file

QUIET, SHA256, DONE = "quiet", "sha256", "done"
"""How to tell that a file is complete: the values of `VERIFYD_DROP_WAIT`."""
_MARKERS = (f".{SHA256}", f".{DONE}")
_QUIET_NS = 60_000_000_000
_MARKER_BYTES_MAX = 64 * 1024
# The digest alone or as `sha256sum` writes it, in text and binary mode; below, as `openssl` does.
_DIGEST = re.compile(r"\\?([0-9a-f]{64})(?:\s+\*?(.*))?", re.IGNORECASE)
_TAGGED = re.compile(r"\\?SHA(?:2-)?256 ?\((.*)\) ?= ?([0-9a-f]{64})", re.IGNORECASE)


class Upload(NamedTuple):
    """How far the upload of a file has come."""

    markers: Mapping[Path, os.stat_result]
    """The markers that exist, with their states."""
    waits_for: str = ""
    """Why the file must wait; empty if it need not."""
    fault: str = ""
    """Why the file can never be loaded as it is; empty if it can."""


def is_marker(name: str) -> bool:
    """Tell whether a name is the name of a marker."""
    return name.endswith(_MARKERS)


def marked_name(name: str) -> str:
    """Return the name of the file that a marker belongs to."""
    return name.rpartition(".")[0]


def upload_of(path: Path, found: os.stat_result, wait: str) -> Upload:
    """Return whether a regular file is complete, and matches its checksum if it has one.

    Args:
        found: the state of the file.
        wait: QUIET, SHA256 or DONE. A checksum is compared in any case.

    Raises OSError if the file or a marker cannot be read.
    """
    possible = [path.with_name(path.name + suffix) for suffix in _MARKERS]
    markers = {each: state for each in possible if (state := lstat_if_exists(each))}
    for marker, state in markers.items():
        if not stat.S_ISREG(state.st_mode):
            # SEC: a link is not followed, and without its checksum the file is not loaded.
            return Upload(markers, f"{marker.name} is not a regular file")
    required = path.with_name(f"{path.name}.{wait}")
    if wait == QUIET:
        waits_for = _why_unfinished(path, found)
    elif required not in markers:
        waits_for = f"{required.name} is missing"
    else:
        is_early = wait == DONE and _is_older(markers[required], found)
        waits_for = f"it was changed after {required.name} was made" if is_early else ""
    checksum = path.with_name(f"{path.name}.{SHA256}")
    if waits_for or checksum not in markers:
        return Upload(markers, waits_for)
    expected = _expected(checksum, path.name)
    if expected is None:
        return Upload(markers, f"{checksum.name} has no SHA-256 checksum for it")
    with open_file(path, is_trusted=False) as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest == expected:
        return Upload(markers)
    difference = f"its checksum is {digest}, but {checksum.name} has {expected}"
    if _is_older(markers[checksum], found) or _why_unfinished(path, path.lstat()):
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


def _expected(marker: Path, name: str) -> str | None:
    """Return the digest that a `.sha256` marker has for a file; None if it has none (yet)."""
    with open_file(marker, is_trusted=False) as file:
        data = file.read(_MARKER_BYTES_MAX)
    # PowerShell writes UTF-16 with a byte order mark.
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    digests: dict[str, str] = {}
    for line in data.decode(encoding, errors="replace").splitlines():
        if found := _DIGEST.fullmatch(line.strip()):
            digests[os.path.basename(found[2] or "")] = found[1].lower()
        elif found := _TAGGED.fullmatch(line.strip()):
            digests[os.path.basename(found[1])] = found[2].lower()
    if len(digests) == 1:
        # The name beside the digest does not matter: the file may have been renamed since.
        return next(iter(digests.values()))
    return digests.get(name)


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
