"""`verifyd lookup --csv`: copies a file and adds the answer to each line (D84)."""

import argparse
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO, TypedDict

from tqdm import tqdm

from app import clock
from app.accounts.models import enquiry_text_fault
from app.actions import session
from app.audit.record import Record, time_of
from app.audit.state import claim_for_command
from app.audit.trail import Trail
from app.cli.lookup_files import new_output, opened_input
from app.cli.output import counted, print_item, say_if_terminal_is_read
from app.cli.parser import Parser
from app.cli.plate_file import Line, PlateFile
from app.config import Config
from app.registers.reading.sources import STANDARD_INPUT
from app.storage.engine import Engine
from app.storage.registers import list_entries, with_current_registers
from app.vehicles.answer_cells import FOUND, Cells, heading
from app.vehicles.audited import judged_plate
from app.vehicles.reader import BATCH_PLATES, Found, VehicleReader
from app.vehicles.records import Read

# Records what `verifyd lookup` answers, before anything is shown (D125).

Recorder = Callable[[Sequence[Found], Read], None]
"""Records plates and the registers that they were looked up in. Raises AuditError."""


def add_enquiry(command: Parser) -> None:
    """Add `--reason` and `--reference`."""
    command.add_argument(
        "--reason",
        type=_text,
        metavar="CODE",
        help="why you look the plates up, for the audit trail",
    )
    command.add_argument(
        "--reference",
        type=_text,
        metavar="TEXT",
        help="case number or the like, for the audit trail",
    )


@contextmanager
def recording(
    args: argparse.Namespace, config: Config, engine: Engine, day: str
) -> Iterator[Recorder]:
    """Yield what records answers in this host's audit trail; it does nothing if the trail is off.

    Everything is on disk at the end. Raises AuditError if that fails.
    """
    if not config.audit:
        yield lambda _found, _registers: None
        return
    owner = claim_for_command(engine, config)
    trail, who = Trail(config.audit_dir, lambda: owner), session()

    def record(found: Sequence[Found], registers: Read) -> None:
        trail.append(
            Record(
                time=time_of(clock.now_ns()),
                operation="lookup",
                as_of=args.as_of,
                reason=args.reason,
                reference=args.reference,
                login=who.login,
                sudo_user=who.sudo_user,
                unverified=True,
                plates=[judged_plate(each, day, config.mot_first_years) for each in found],
                registers=registers,
            )
        )

    try:
        yield record
        trail.sync()
    finally:
        trail.close()


def _text(text: str) -> str:
    fault = enquiry_text_fault(text)
    if fault:
        raise argparse.ArgumentTypeError(fault)
    return text


BATCH_LINES = BATCH_PLATES
"""Lines that are answered from one state of the registers."""
_BATCH_BYTES = 4 * 1024 * 1024

Show = Callable[[int, int], None]


class Summary(TypedDict):
    """What became of the lines of a file."""

    asOf: str
    lines: int
    found: int
    notFound: int
    invalid: int
    notRead: int
    loadedMeanwhile: list[str]
    """Registers that were loaded while the file was answered."""


def answer_file(
    args: argparse.Namespace, engine: Engine, reader: VehicleReader, day: str, record: Recorder
) -> None:
    """Copy the file `args.csv` to `args.output` or stdout, with the answers for `day`.

    The answers of each batch are recorded before they are written.

    Raises OperatorError if the file cannot be read or has no column of plates, or if the output
    cannot be written; and what VehicleReader.look_up and `record` raise.
    """
    say_if_terminal_is_read(args.csv == STANDARD_INPUT)
    before = _loads(engine)
    with new_output(args.output) as write, opened_input(args.csv) as (stream, name):
        plates = PlateFile(stream, name, args.column)
        cells = Cells(plates.delimiter.decode(), day, reader.mot_first_years)
        write(
            plates.start + _line(plates, plates.header, heading(cells.delimiter), plates.header_end)
        )
        results: Counter[str] = Counter()
        with _progress_bar(stream, is_shown=bool(args.output) or not sys.stdout.isatty()) as show:
            for batch in _batches(plates):
                found, registers = _look_up(engine, reader, batch, day)
                if found:
                    record(found, registers)
                write(b"".join(_answered(plates, batch, iter(found), cells, results)))
                show(stream.tell(), len(batch))
    loaded = [name for name, load in _loads(engine).items() if load != before.get(name)]
    _print_summary(args, _summary(results, day, loaded))


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


def _look_up(
    engine: Engine, reader: VehicleReader, batch: Sequence[Line], day: str
) -> tuple[list[Found], Read]:
    """Look the lines of a batch up that have a plate."""
    asked = [line.plate for line in batch if not line.fault]
    return with_current_registers(engine, lambda state: reader.look_up(state, asked, day))


def _answered(
    plates: PlateFile,
    batch: Sequence[Line],
    answers: Iterator[Found],
    cells: Cells,
    results: Counter[str],
) -> Iterator[bytes]:
    """Yield each line with its cells, and count the results in `results`."""
    for line in batch:
        if line.fault:
            result, appended = line.fault, cells.of_fault(line.fault)
        else:
            result, appended = cells.of_plate(next(answers))
        results[result] += 1
        # A line that is too short is filled up, so that our cells are below their heading.
        yield _line(plates, line.content + plates.delimiter * line.missing, appended, line.end)


def _line(plates: PlateFile, content: bytes, appended: str, end: bytes) -> bytes:
    # NOTE: a letter that Windows-1252 does not have becomes a question mark.
    return content + plates.delimiter + appended.encode(plates.encoding, "replace") + end


def _loads(engine: Engine) -> dict[str, tuple[int, int | None]]:
    """Return what every load changes, by register."""
    return {entry.name: (entry.generation, entry.loaded_at) for entry in list_entries(engine)}


def _summary(results: Counter[str], day: str, loaded: Sequence[str]) -> Summary:
    lines = results.total()
    found, unknown = results[FOUND], results["vehicle_not_found"]
    invalid = results["invalid_registration"]
    return {
        "asOf": day,
        "lines": lines,
        "found": found,
        "notFound": unknown,
        "invalid": invalid,
        "notRead": lines - found - unknown - invalid,
        "loadedMeanwhile": list(loaded),
    }


def _print_summary(args: argparse.Namespace, summary: Summary) -> None:
    """Print the results: to stderr if the lines went to stdout."""
    sentence = _sentence(summary)
    if args.output:
        print_item(args, summary, f"{sentence}, written to {args.output}")
    else:
        print(sentence, file=sys.stderr)


def _sentence(summary: Summary) -> str:
    """Return the results as a sentence."""
    sentence = (
        f"{counted(summary['lines'], 'line')} answered for {summary['asOf']}: "
        f"{summary['found']:,} found, {summary['notFound']:,} not found, "
        f"{summary['invalid']:,} invalid, {summary['notRead']:,} not read"
    )
    if summary["loadedMeanwhile"]:
        sentence += f"; loaded meanwhile: {', '.join(summary['loadedMeanwhile'])}"
    return sentence


@contextmanager
def _progress_bar(stream: BinaryIO, *, is_shown: bool) -> Iterator[Show]:
    """Show at a terminal how much was read, the plates per second and the time left."""
    size = os.fstat(stream.fileno()).st_size
    tqdm.monitor_interval = 0  # No thread is needed.
    with tqdm(
        total=size, unit="B", unit_scale=True, disable=not (is_shown and sys.stderr.isatty())
    ) as bar:
        started_ns, lines = clock.monotonic_ns(), 0

        def show(read_bytes: int, more_lines: int) -> None:
            nonlocal lines
            lines += more_lines
            a_second = lines / max(clock.monotonic_ns() - started_ns, 1) * 1e9
            bar.set_postfix_str(f"{a_second:,.0f} plates/s", refresh=False)
            bar.update(read_bytes - bar.n)

        yield show
