"""`verifyd lookup --csv`: a file is written again, each line with its answer (D84)."""

import argparse
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO

from tqdm import tqdm

from app import clock
from app.cli.lookup_cells import FOUND, Cells, heading
from app.cli.lookup_files import new_output, opened_input
from app.cli.output import print_item, shown
from app.cli.plate_file import Line, PlateFile
from app.storage.engine import Engine
from app.storage.registers import list_entries
from app.vehicles.reader import Found, VehicleReader, with_current_registers

BATCH_LINES = 5_000
"""So many plates are looked up by one statement, and answered from one state of the registers."""
_BATCH_BYTES = 4 * 1024 * 1024

Show = Callable[[int, int], None]


def answer_file(args: argparse.Namespace, engine: Engine, reader: VehicleReader, day: str) -> None:
    """Write the file `args.csv` again, to `args.output` or stdout, with the answers for `day`.

    Raises OperatorError if the file cannot be read or has no column of plates, or if the output
    cannot be written; and what VehicleReader.look_up raises.
    """
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
                found = _look_up(engine, reader, batch, day)
                write(b"".join(_answered(plates, batch, found, cells, results)))
                show(stream.tell(), len(batch))
    loaded = [name for name, load in _loads(engine).items() if load != before.get(name)]
    _print_summary(args, _summary(results, day, loaded))


def _batches(lines: Iterable[Line]) -> Iterator[list[Line]]:
    """Yield the lines in batches, bounded in lines and in bytes."""
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
) -> Iterator[Found]:
    """Return the answers for those lines of a batch that have a plate."""
    asked = [line.plate for line in batch if not line.fault]
    return iter(with_current_registers(engine, lambda state: reader.look_up(state, asked, day)))


def _answered(
    plates: PlateFile,
    batch: Sequence[Line],
    answers: Iterator[Found],
    cells: Cells,
    results: Counter[str],
) -> Iterator[bytes]:
    """Yield each line with its cells; `results` counts what became of them."""
    for line in batch:
        if line.fault:
            result, appended = line.fault, cells.of_fault(line.fault)
        else:
            result, appended = cells.of_plate(next(answers))
        results[result] += 1
        # A line that is too short is filled up, so that our cells stand below their heading.
        yield _line(plates, line.content + plates.delimiter * line.missing, appended, line.end)


def _line(plates: PlateFile, content: bytes, appended: str, end: bytes) -> bytes:
    # NOTE: a letter that Windows-1252 does not have becomes a question mark.
    return content + plates.delimiter + appended.encode(plates.encoding, "replace") + end


def _loads(engine: Engine) -> dict[str, tuple[int, int | None]]:
    """Return what changes of each register with every load."""
    return {entry.name: (entry.generation, entry.loaded_at) for entry in list_entries(engine)}


def _summary(results: Counter[str], day: str, loaded: Sequence[str]) -> dict[str, object]:
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


def _print_summary(args: argparse.Namespace, summary: dict[str, object]) -> None:
    """Print what became of the lines: on stderr, if the lines themselves went to stdout."""
    if args.output:
        print_item(args, summary)
        return
    told = (f"{name} {shown(value)}" for name, value in summary.items())
    print(", ".join(told), file=sys.stderr)


@contextmanager
def _progress_bar(stream: BinaryIO, *, is_shown: bool) -> Iterator[Show]:
    """Show how much was read, how many plates a second, and the time left, if somebody looks."""
    size = os.fstat(stream.fileno()).st_size
    tqdm.monitor_interval = 0  # No thread of its own is needed.
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
