"""Whether a file in the drop directory is complete (D73).

The uploader can say so by a marker beside the file: `NAME.sha256` holds its checksum, `NAME.done`
is enough by itself. Without markers, a file counts as complete when it has not changed for a
minute and nobody has it open for writing.
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
from app.registers.reading.sources import opened

QUIET, SHA256, DONE = "quiet", "sha256", "done"
"""What is waited for: the values of `VERIFYD_DROP_WAIT`."""
_MARKERS = (f".{SHA256}", f".{DONE}")
_QUIET_NS = 60_000_000_000
_MARKER_BYTES_MAX = 64 * 1024
_CHUNK_BYTES = 1 << 20
# As sha256sum writes it, in text and binary mode, or the bare digest; then as openssl does.
_DIGEST = re.compile(r"\\?([0-9a-f]{64})(?:\s+\*?(.*))?", re.IGNORECASE)
_TAGGED = re.compile(r"\\?SHA(?:2-)?256 ?\((.*)\) ?= ?([0-9a-f]{64})", re.IGNORECASE)


class Upload(NamedTuple):
    """How far the upload of a file is."""

    markers: Mapping[Path, os.stat_result]
    waits_for: str = ""
    """What is missing before it can be loaded; empty if nothing is."""
    fault: str = ""
    """Why it can never be loaded as it is; empty if it can."""


def is_marker(name: str) -> bool:
    """Tell whether a name is that of a marker, which is never loaded."""
    return name.endswith(_MARKERS)


def marked(name: str) -> str:
    """Return the name of the file that a marker is for."""
    return name.rpartition(".")[0]


def markers_of(path: Path) -> list[Path]:
    """Return where the markers of a file would be."""
    return [path.with_name(path.name + suffix) for suffix in _MARKERS]


def upload_of(path: Path, found: os.stat_result, wait: str) -> Upload:
    """Find out whether a regular file is complete; a checksum beside it is always compared.

    Args:
        found: the file as it was when it was looked at.
        wait: QUIET, SHA256 or DONE.

    Raises OSError if it or a marker cannot be read.
    """
    markers = {each: state for each in markers_of(path) if (state := _lstat(each))}
    for marker, state in markers.items():
        if not stat.S_ISREG(state.st_mode):
            # SEC: it is not followed; but the file is not loaded without its checksum either.
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
        return Upload(markers, f"{checksum.name} has no SHA-256 checksum of it")
    if (digest := _digest_of(path)) == expected:
        return Upload(markers)
    text = f"its checksum is {digest}, but {checksum.name} has {expected}"
    if _is_older(markers[checksum], found) or _unrest(path, path.lstat()):
        # The marker is that of an earlier upload, or came before the rest of the file.
        return Upload(markers, text)
    return Upload(markers, fault=text)


def _unrest(path: Path, found: os.stat_result) -> str:
    """Return why a file may still be growing, or nothing."""
    # NOTE: a time to come is that of another clock, which the file was copied with.
    if abs(clock.now_ns() - found.st_mtime_ns) < _QUIET_NS:
        return "it is still being written"
    return "somebody has it open for writing" if is_being_written(path) else ""


def is_being_written(path: Path) -> bool:
    """Tell whether a process has a file open for writing, as far as the kernel tells us.

    It tells the owner of the file and root (CAP_LEASE), by refusing a lease. Others, and file
    systems without leases, count as "no".
    """
    # Whoever opens the file while we have the lease makes the kernel send this.
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
    # A file can be copied with its time, which is that of another clock.
    return marker.st_mtime_ns < changed_at_ns(found)


def changed_at_ns(found: os.stat_result) -> int:
    """Return when a file was changed last: its own time, unless that is still to come."""
    return min(found.st_mtime_ns, found.st_ctime_ns)


def _expected(marker: Path, name: str) -> str | None:
    """Return the digest that a marker has for a file, None if it has none (yet)."""
    with opened(marker, is_trusted=False) as file:
        data = file.read(_MARKER_BYTES_MAX)
    # PowerShell writes UTF-16, with a mark at the beginning.
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    digests: dict[str, str] = {}
    for line in data.decode(encoding, errors="replace").splitlines():
        if found := _DIGEST.fullmatch(line.strip()):
            digests[os.path.basename(found[2] or "")] = found[1].lower()
        elif found := _TAGGED.fullmatch(line.strip()):
            digests[os.path.basename(found[1])] = found[2].lower()
    if len(digests) == 1:
        # Whatever name it was computed under: the file may have been renamed for the upload.
        return next(iter(digests.values()))
    return digests.get(name)


def _digest_of(path: Path) -> str:
    digest = hashlib.sha256()
    with opened(path, is_trusted=False) as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def _lstat(path: Path) -> os.stat_result | None:
    """Return the state of a marker; None if there is none."""
    try:
        return path.lstat()
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        return None  # A name that leaves no room for the suffix has no marker.
