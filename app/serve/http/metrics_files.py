"""The files with the counts of workers: one directory per master.

Each worker writes its own files, which it maps into memory. `/metrics` adds them up. The files of
ended workers are added to one total file, so that the number of files does not grow.
"""

import logging
import os
import shutil
import struct
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from app.storage.file_lock import locked, make_directory, tried
from app.storage.files import opened

ENVIRONMENT = "PROMETHEUS_MULTIPROC_DIR"
_KINDS = {"counter": 64 * 1024, "histogram": 256 * 1024}
"""The files of a worker and the bytes reserved for each, several times what they need."""
DAMAGED = (RuntimeError, ValueError, struct.error)
"""What the library raises for a damaged file."""
_ENDED = 0  # No process has this number.
_LOCK = "lock"
_log = logging.getLogger("verifyd.metrics")


def prepare(state_dir: Path) -> None:
    """Create an empty directory for this master and its workers; remove those of ended masters."""
    parent = state_dir / "metrics"
    for old in parent.glob("*"):
        if old.name == str(os.getpid()) or not Path("/proc", old.name).is_dir():
            shutil.rmtree(old, ignore_errors=True)
    own = parent / str(os.getpid())
    _make(own)
    os.environ[ENVIRONMENT] = str(own)


def remove() -> None:
    """Remove the directory of this master when it ends."""
    own = Path(os.environ.get(ENVIRONMENT, ""))
    if own.name == str(os.getpid()):
        shutil.rmtree(own, ignore_errors=True)


def directory() -> Path | None:
    """Return the directory of the workers' files, or None if this process counts in memory."""
    path = os.environ.get(ENVIRONMENT)
    return Path(path) if path else None


def reserve() -> None:
    """Allocate the disk space of this worker's files. Raises OSError if the disk is full.

    The library would map a file without allocated blocks. On a full disk, writing to such memory
    would kill the worker (SIGBUS).
    """
    own = directory()
    if own is None:
        return
    _make(own)
    for kind, size_bytes in _KINDS.items():
        path = own / f"{kind}_{os.getpid()}.db"
        # The file gets its name when it is complete, because the library cannot read an empty one.
        new = path.with_suffix(".new")
        with opened(new, os.O_RDWR | os.O_CREAT) as descriptor:
            try:
                os.posix_fallocate(descriptor, 0, size_bytes)
                new.replace(path)
            finally:
                new.unlink(missing_ok=True)


def is_lost() -> bool:
    """Tell whether the files of this worker were removed."""
    own = directory()
    return own is not None and not (own / f"counter_{os.getpid()}.db").exists()


def fold(living: Collection[int]) -> None:
    """Add the files of ended workers to the total file, and remove them.

    The master calls this and must survive it: a failure is logged, and the next call tries again.
    """
    own = directory()
    if own is None:
        return
    try:
        with tried(own / _LOCK, create=False) as is_locked:
            # Otherwise a worker is reading, and the files stay until the next worker ends.
            if is_locked:
                for kind in _KINDS:
                    _fold_kind(own, kind, living)
    except Exception as error:
        _log.warning(
            "counts of an ended worker cannot be added: %s: %s", type(error).__name__, error
        )


@contextmanager
def reading() -> Iterator[None]:
    """Keep `fold` from running while files are read, so that nothing is counted twice."""
    own = directory()
    if own is None:
        yield
        return
    with locked(own / _LOCK, shared=True, create=False):
        yield


def _make(own: Path) -> None:
    make_directory(own)
    (own / _LOCK).touch(0o600)


def _fold_kind(own: Path, kind: str, living: Collection[int]) -> None:
    from prometheus_client.mmap_dict import MmapedDict  # noqa: PLC0415 - see app.serve.http.metrics

    total = own / f"{kind}_{_ENDED}.db"
    ended = [path for path in own.glob(f"{kind}_*.db") if _pid(path) not in {*living, _ENDED}]
    values: dict[str, float] = {}
    for path in [total, *ended] if total.exists() else ended:
        try:
            for key, value, *_ in MmapedDict.read_all_values_from_file(str(path)):
                values[key] = values.get(key, 0.0) + value
        except DAMAGED as error:
            # If the file stayed, /metrics would fail.
            _log.warning("%s is damaged, and its counts are lost: %s", path, error)
    new = total.with_suffix(".new")
    new.touch(0o600)
    new.write_bytes(_packed(values))
    new.replace(total)
    for path in ended:
        path.unlink(missing_ok=True)


def _packed(values: dict[str, float]) -> bytes:
    """Return the bytes of a file in the library's format.

    The format is private to the library. setup.cfg pins the version, and test_metrics_format
    checks the bytes.
    """
    entries = b""
    for key, value in values.items():
        encoded = key.encode()
        padded = encoded + b" " * (8 - (len(encoded) + 4) % 8)
        entries += struct.pack(f"i{len(padded)}sdd", len(encoded), padded, value, 0.0)
    return struct.pack("ii", 8 + len(entries), 0) + entries


def _pid(path: Path) -> int:
    return int(path.stem.partition("_")[2])
