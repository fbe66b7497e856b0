"""The input and output files of `verifyd lookup --csv`."""

import io
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO, cast

from app.errors import OperatorError
from app.processes import ended_like_ctrl_c
from app.registers.reading.sources import STANDARD_INPUT
from app.storage.files import sync

_MODE = 0o640
"""SEC: other users must not read answers about vehicles."""

Write = Callable[[bytes], object]


@contextmanager
def opened_input(path: str) -> Iterator[tuple[BinaryIO, str]]:
    """Open a file, or standard input (`-`), so that it can be read twice; yield its name, too.

    The content of a pipe is kept in a temporary file. Raises OperatorError if the file cannot be
    read, and at the end if it was changed meanwhile.
    """
    with ExitStack() as opened:
        if path == STANDARD_INPUT:
            yield _kept(cast(BinaryIO, sys.stdin.buffer), opened), "standard input"
            return
        try:
            file = opened.enter_context(open(path, "rb"))
        except OSError as error:
            raise OperatorError(f"{path} cannot be read: {_reason(error, path)}") from error
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            yield _kept(file, opened), path
            return
        before = _state(file)
        yield file, path
        if _state(file) != before:
            raise OperatorError(f"{path} was changed while it was read")


def _reason(error: OSError, path: str) -> str | None:
    """Return why a file cannot be opened, and what to do if only the caller may read it."""
    if isinstance(error, PermissionError):
        return f"{error.strerror}; send it through standard input: lookup --csv - < {path}"
    return error.strerror


def _kept(pipe: BinaryIO, opened: ExitStack) -> BinaryIO:
    """Copy the content of a pipe into a file without a name."""
    directory = tempfile.gettempdir()
    try:
        file = opened.enter_context(tempfile.TemporaryFile(dir=directory))  # noqa: SIM115
        shutil.copyfileobj(pipe, file)
        file.seek(0)
    except OSError as error:
        raise OperatorError(
            f"the input cannot be kept in {directory}: {error.strerror}; "
            "name a file, or set TMPDIR to another directory"
        ) from error
    return cast(BinaryIO, file)


def _state(file: BinaryIO) -> tuple[int, int]:
    found = os.fstat(file.fileno())
    return found.st_size, found.st_mtime_ns


@contextmanager
def new_output(path: Path | None) -> Iterator[Write]:
    """Yield a function that writes to stdout, or to a file that gets its name at the end.

    If anything fails, also by Ctrl-C or TERM, an existing file of that name stays unchanged.
    Raises OperatorError if the file cannot be written.
    """
    if path is None:
        yield _to_stdout
        return
    path = path.resolve()
    if path.exists() and not path.is_file():
        raise OperatorError(f"{path} is not a file")
    with ended_like_ctrl_c(), ExitStack() as left:
        with _faults_of(path):
            descriptor, part = tempfile.mkstemp(".part", f".{path.name}.", path.parent)
        left.callback(_remove, part)
        # NOTE: unbuffered, so that closing the file cannot fail to write.
        with open(descriptor, "wb", buffering=0) as file:
            yield partial(_write_all, path, file)
            with _faults_of(path):
                os.fchmod(descriptor, stat.S_IMODE(path.stat().st_mode) if path.exists() else _MODE)
                os.fsync(descriptor)
                os.replace(part, path)
                sync(path.parent)


def _write_all(path: Path, file: io.FileIO, data: bytes) -> None:
    with _faults_of(path):
        while data:
            data = data[file.write(data) :]


def _to_stdout(data: bytes) -> None:
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        # The rest of the buffer would fail again at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise OperatorError(f"stdout cannot be written: {error.strerror}") from error


def _remove(part: str) -> None:
    with suppress(FileNotFoundError):  # It has its final name already.
        os.unlink(part)


@contextmanager
def _faults_of(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        hint = "; without --output the answers go to stdout" * isinstance(error, PermissionError)
        raise OperatorError(f"{path} cannot be written: {error.strerror}{hint}") from error
