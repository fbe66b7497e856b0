"""`verifyd lookup --csv`: copies a file and adds the answer to each line.

The bytes of a line stay as they are: the content of the file is not ours to change.
"""

import argparse
import io
import os
import shutil
import stat
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO, cast

from app import clock
from app.arguments import Argument
from app.audit.record import Plate
from app.audit.recording import recording, said_by_command
from app.cli.output import opened_input, print_item
from app.cli.plate_file import Line, PlateFile
from app.cli.progress import progress
from app.config import Config
from app.errors import OperatorError
from app.processes import ended_like_ctrl_c
from app.registers.reading.sources import STANDARD_INPUT
from app.settings.enquiries import enquiry_text_fault, reason_fault
from app.storage.engine import Engine
from app.storage.files import sync
from app.storage.registers import list_entries
from app.storage.versions import tells_unknown
from app.text import counted
from app.vehicles.answer_cells import FOUND, Cells
from app.vehicles.audited import judged_plate, rule_of
from app.vehicles.contradictions import look_up_contradicted
from app.vehicles.periods import Period
from app.vehicles.reader import BATCH_PLATES, VehicleReader
from app.vehicles.records import Read

BATCH_LINES = BATCH_PLATES
"""Lines that are answered from one state of the registers.

With one state for the whole file, a drop on Postgres would wait for a minute, and every look-up for
the drop; on SQLite the log of a load could not be given back.
"""
_BATCH_BYTES = 4 * 1024 * 1024
_MODE = 0o640
"""SEC: other users must not read answers about vehicles."""

Recorder = Callable[[Iterable[Plate], Read, int | None], None]
"""Records plates, the registers that they were looked up in, and the rule of the answers.

Raises AuditError.
"""
_Show = Callable[[int, int], None]
_Write = Callable[[bytes], object]


def _text(text: str) -> str:
    text = text.strip()
    fault = enquiry_text_fault(text)
    if fault:
        raise ValueError(fault)
    return text


ENQUIRY = (
    Argument("--reason CODE", "why you look the plates up, for the audit trail", type=_text),
    Argument("--reference TEXT", "case number or the like, for the audit trail", type=_text),
)


@contextmanager
def recording_look_ups(
    args: argparse.Namespace,
    config: Config,
    engine: Engine,
    as_of: str | None,
    period: Period | None = None,
    operation: str = "lookup",
) -> Iterator[Recorder]:
    """Yield a function that records answers in this host's audit trail, if the trail is on.

    Everything is on disk at the end. Raises AuditError if that fails, and OperatorError if a
    reason is needed and not given.
    """
    if fault := reason_fault(args.reason, config.lookup_reasons):
        raise OperatorError(f"{fault}; give it with --reason")
    first_day, last_day = period or (None, None)
    said = {
        "operation": operation,
        "as_of": as_of,
        "first_day": first_day,
        "last_day": last_day,
        "reason": args.reason,
        "reference": args.reference,
        **said_by_command(),
    }
    with recording(engine, config, said) as recorded:
        yield lambda plates, registers, rule: recorded.record(
            plates, registers=registers, rule=rule
        )


def answer_file(
    args: argparse.Namespace,
    engine: Engine,
    reader: VehicleReader,
    day: str,
    period: Period | None,
    record: Recorder,
) -> None:
    """Copy the file `args.csv` to `args.output` or stdout, with the answers for `day`.

    The answers of each batch are recorded before they are written.

    Raises OperatorError if the file cannot be read or has no column of plates, or if the output
    cannot be written. VehicleReader.look_up and `record` raise further errors.
    """
    before = _loads(engine)
    with _new_output(args.output) as write, _readable_twice(args.csv) as (stream, name):
        plates = PlateFile(stream, name, args.column)
        tells = tells_unknown(engine)
        cells = Cells(plates.delimiter.decode(), day, period, tells_unknown=tells)
        write(plates.start + _line(plates, plates.header, cells.heading, plates.header_end))
        results: Counter[str] = Counter()
        with _progress_bar(stream, is_shown=bool(args.output) or not sys.stdout.isatty()) as show:
            for batch in _batches(plates):
                asked = [line.plate for line in batch if not line.fault]
                found, registers, against = look_up_contradicted(engine, reader, asked, day)
                if any(each.record and (each.record.basis is not None) != tells for each in found):
                    raise OperatorError(
                        'the answers were changed meanwhile by "verifyd migrate --unknown"; '
                        "start again"
                    )
                if found:
                    shown = (judged_plate(each, day, period) for each in found)
                    record(shown, registers, rule_of(found))
                answers = (cells.of_plate(each, against) for each in found)
                write(b"".join(_answered(plates, batch, answers, cells, results)))
                show(stream.tell(), len(batch))
    loaded = [name for name, load in _loads(engine).items() if load != before.get(name)]
    _print_summary(args, results, day, period, loaded)


def _batches(lines: Iterable[Line]) -> Iterator[list[Line]]:
    """Yield the lines in batches, which are limited in lines and in bytes."""
    batch: list[Line] = []
    size = 0
    for line in lines:
        batch.append(line)
        size += len(line.content)
        if len(batch) == BATCH_LINES or size > _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _answered(
    plates: PlateFile,
    batch: Sequence[Line],
    answers: Iterator[tuple[str, str]],
    cells: Cells,
    results: Counter[str],
) -> Iterator[bytes]:
    """Yield each line with its cells, and count the results in `results`.

    Args:
        answers: the result and the cells of each plate; lines with a fault have none.
    """
    for line in batch:
        if line.fault:
            result, appended = line.fault, cells.of_fault(line.fault)
        else:
            result, appended = next(answers)
        results[result] += 1
        # A line that is too short is filled up, so that our cells are below their heading.
        yield _line(plates, line.content + plates.delimiter * line.missing, appended, line.end)


def _line(plates: PlateFile, content: bytes, appended: str, end: bytes) -> bytes:
    # NOTE: a letter that Windows-1252 does not have becomes a question mark.
    return content + plates.delimiter + appended.encode(plates.encoding, "replace") + end


def _loads(engine: Engine) -> dict[str, tuple[int, int | None]]:
    """Return the generation and the time of the last load of each register."""
    return {entry.name: (entry.generation, entry.loaded_at) for entry in list_entries(engine)}


def _print_summary(
    args: argparse.Namespace,
    results: Counter[str],
    day: str,
    period: Period | None,
    loaded: Sequence[str],
) -> None:
    """Print how many lines were found, and how many not: to stderr if the lines went to stdout.

    Args:
        loaded: registers that were loaded while the file was answered.
    """
    lines, found = results.total(), results[FOUND]
    unknown, invalid = results["vehicle_not_found"], results["invalid_registration"]
    not_read = lines - found - unknown - invalid
    days = day if period is None else " to ".join(period)
    sentence = (
        f"{counted(lines, 'line')} answered for {days}: {found:,} found, {unknown:,} not found, "
        f"{invalid:,} invalid, {not_read:,} not read"
    )
    if loaded:
        sentence += f"; loaded meanwhile: {', '.join(loaded)}"
    if not args.output:
        print(sentence, file=sys.stderr)
        return
    members = {
        "asOf": day,
        **({"firstDay": period.first, "lastDay": period.last} if period else {}),
        "lines": lines,
        "found": found,
        "notFound": unknown,
        "invalid": invalid,
        "notRead": not_read,
        "loadedMeanwhile": loaded,
    }
    print_item(args, members, f"{sentence}, written to {args.output}")


@contextmanager
def _progress_bar(stream: BinaryIO, *, is_shown: bool) -> Iterator[_Show]:
    """Show at a terminal how much was read, the plates per second and the time left."""
    size = os.fstat(stream.fileno()).st_size
    with progress(is_shown=is_shown, total=size, unit="B") as bar:
        started_ns, lines = clock.monotonic_ns(), 0

        def show(read_bytes: int, more_lines: int) -> None:
            nonlocal lines
            lines += more_lines
            a_second = lines / max(clock.monotonic_ns() - started_ns, 1) * 1e9
            bar.set_postfix_str(f"{a_second:,.0f} plates/s", refresh=False)
            bar.update(read_bytes - bar.n)

        yield show


@contextmanager
def _readable_twice(path: str) -> Iterator[tuple[BinaryIO, str]]:
    """Open a file, or standard input (`-`), for reading twice; yield the name, too.

    The content of a pipe is kept in a temporary file. Raises OperatorError if the file cannot be
    read, and at the end if the file was changed meanwhile.
    """
    way_out = f"send it through standard input: lookup --csv - < {path}"
    with opened_input(path, way_out) as (file, name), ExitStack() as kept:
        if path == STANDARD_INPUT or not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            yield _kept(file, kept), name
            return
        before = _state(file)
        yield file, name
        if _state(file) != before:
            raise OperatorError(f"{name} was changed while it was read")


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
def _new_output(path: Path | None) -> Iterator[_Write]:
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
        # After success the file has its final name already.
        left.callback(Path(part).unlink, missing_ok=True)
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


@contextmanager
def _faults_of(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        hint = "; without --output the answers go to stdout" * isinstance(error, PermissionError)
        raise OperatorError(f"{path} cannot be written: {error.strerror}{hint}") from error
