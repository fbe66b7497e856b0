"""Tells whether a file in the drop directory is complete (D73).

The uploader can say so with a marker beside the file: `NAME.sha256` with its checksum, or
`NAME.done`. Without markers, a file counts as complete if it has not changed for a minute and no
process has it open for writing.
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
"""What a load waits for: the values of `VERIFYD_DROP_WAIT`."""
_MARKERS = (f".{SHA256}", f".{DONE}")
_QUIET_NS = 60_000_000_000
_MARKER_BYTES_MAX = 64 * 1024
_CHUNK_BYTES = 1 << 20
# As sha256sum writes it, in text and binary mode, or the bare digest; then as openssl does.
_DIGEST = re.compile(r"\\?([0-9a-f]{64})(?:\s+\*?(.*))?", re.IGNORECASE)
_TAGGED = re.compile(r"\\?SHA(?:2-)?256 ?\((.*)\) ?= ?([0-9a-f]{64})", re.IGNORECASE)


class Upload(NamedTuple):
    """The state of the upload of a file."""

    markers: Mapping[Path, os.stat_result]
    waits_for: str = ""
    """What the file still waits for; empty if it can be loaded."""
    fault: str = ""
    """Why the file cannot be loaded as it is, even later; empty if it can."""


def is_marker(name: str) -> bool:
    """Tell whether a name is that of a marker; markers are never loaded."""
    return name.endswith(_MARKERS)


def marked(name: str) -> str:
    """Return the name of the file that a marker belongs to."""
    return name.rpartition(".")[0]


def markers_of(path: Path) -> list[Path]:
    """Return the paths of the markers that a file may have."""
    return [path.with_name(path.name + suffix) for suffix in _MARKERS]


def upload_of(path: Path, found: os.stat_result, wait: str) -> Upload:
    """Return whether a regular file is complete. A checksum beside it is always compared.

    Args:
        found: the state of the file.
        wait: QUIET, SHA256 or DONE.

    Raises OSError if it or a marker cannot be read.
    """
    markers = {each: state for each in markers_of(path) if (state := _lstat(each))}
    for marker, state in markers.items():
        if not stat.S_ISREG(state.st_mode):
            # SEC: a link is not followed, and the file is not loaded without its checksum.
            return Upload(markers, f"{marker.name} is not a regular file")
    required = path.with_name(f"{path.name}.{wait}")
    if wait == QUIET:
        waits_for = _unrest(path, found)
    elif required not in markers:
        waits_for = f"{required.name} is not there"
    else:
        is_early = wait == DONE and _is_older(markers[required], found)
        waits_for = f"it was changed after {required.name} was made" if is_early else ""
    checksum = path.with_name(f"{path.name}.{SHA256}")
    if waits_for or checksum not in markers:
        return Upload(markers, waits_for)
    expected = _expected(checksum, path.name)
    if expected is None:
        return Upload(markers, f"{checksum.name} has no SHA-256 checksum for it")
    if (digest := _digest_of(path)) == expected:
        return Upload(markers)
    text = f"its checksum is {digest}, but {checksum.name} has {expected}"
    if _is_older(markers[checksum], found) or _unrest(path, path.lstat()):
        # The marker belongs to an earlier upload, or came before the rest of the file.
        return Upload(markers, text)
    return Upload(markers, fault=text)


def _unrest(path: Path, found: os.stat_result) -> str:
    """Return why a file may still be growing; empty if it is complete."""
    # NOTE: a time in the future comes from another clock: the file was copied with its time.
    if abs(clock.now_ns() - found.st_mtime_ns) < _QUIET_NS:
        return "it is still being written"
    return "a process has it open for writing" if is_being_written(path) else ""


def is_being_written(path: Path) -> bool:
    """Tell whether a process has a file open for writing.

    The kernel tells the owner of the file and root (CAP_LEASE), by refusing a lease. For others,
    and on file systems without leases, the answer is no.
    """
    # The kernel sends this signal if a process opens the file while we have the lease.
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
    # A file can be copied with its time, which comes from another clock.
    return marker.st_mtime_ns < changed_at_ns(found)


def changed_at_ns(found: os.stat_result) -> int:
    """Return when a file was last changed: its own time, unless that is in the future."""
    return min(found.st_mtime_ns, found.st_ctime_ns)


def _expected(marker: Path, name: str) -> str | None:
    """Return the digest that a marker has for a file; None if it has none, or not yet."""
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
        # Its name does not matter: the file may have been renamed for the upload.
        return next(iter(digests.values()))
    return digests.get(name)


def _digest_of(path: Path) -> str:
    digest = hashlib.sha256()
    with open_file(path, is_trusted=False) as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def _lstat(path: Path) -> os.stat_result | None:
    """Return the state of a marker; None if it does not exist."""
    try:
        return path.lstat()
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        return None  # The name leaves no room for the suffix.
