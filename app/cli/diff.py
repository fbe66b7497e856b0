"""`verifyd imports diff`: the plates whose answers a replace changed."""

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import msgspec

from app.arguments import Argument, flag
from app.cli.lookup_csv import ENQUIRY, recording_look_ups
from app.cli.output import aligned, print_sentence
from app.cli.parser import Group, number_of
from app.config import Config
from app.registers.applying.answers import ANSWERS
from app.registers.diff import CSV_HEADING, Turn, compare, require_comparable
from app.storage.session import opened_database
from app.text import counted

commands = Group()
_WIDEST = ("AB12CDEFGHIJ", *["yes -> no"] * len(ANSWERS))


@commands.command(
    "diff",
    "list the plates whose answers a replace changed, while what it replaced is kept",
    Argument("ID", "number of the replace in the list", type=number_of("a load")),
    flag("--csv", "print a CSV file, with columns for the answers before and after"),
    *ENQUIRY,
    examples=["imports diff 42", "imports diff 42 --csv --reason REVIEW > changed.csv"],
)
def _diff(args: argparse.Namespace) -> None:
    if args.csv and args.json:
        args.command.error("argument --json: not allowed with argument --csv")
    config, count = Config.from_env(), 0
    with opened_database(config) as engine:
        compared = require_comparable(engine, args.id, config.timezone)
        with recording_look_ups(args, config, engine, compared.day, operation="diff") as record:
            sys.stdout.write(_begin(args, compared.day))
            for turns in compare(engine, compared, config):
                for plates, registers in turns.recorded():
                    record(plates, registers, None)
                sys.stdout.writelines(_lines(args, turns.plates, is_first=not count))
                count += len(turns.plates)
    sentence = f"{counted(count, 'plate')} with other answers; {compared.note}"
    if args.json:
        end = {"count": count, "note": compared.note}
        sys.stdout.write(f"],{msgspec.json.encode(end).decode()[1:]}\n")
    elif args.csv:
        print(sentence, file=sys.stderr)
    else:
        print_sentence(sentence)


def _begin(args: argparse.Namespace, day: str) -> str:
    """Return what comes before the plates."""
    if args.json:
        args.has_printed = True
        return f'{{"load":{args.id},"day":"{day}","plates":['
    if args.csv:
        return CSV_HEADING
    return "".join(_table([("registration", *ANSWERS)]))


def _lines(args: argparse.Namespace, plates: Sequence[Turn], *, is_first: bool) -> Iterator[str]:
    """Yield the lines of some plates: there can be more than memory holds."""
    if args.csv:
        yield from (turn.csv_line for turn in plates)
        return
    if not args.json:
        yield from _table(turn.words for turn in plates)
        return
    for turn in plates:
        item = {
            "registration": turn.registration,
            "before": turn.before._asdict(),
            "after": turn.after._asdict(),
        }
        yield f"{'' if is_first else ','}\n{msgspec.json.encode(item).decode()}"
        is_first = False


def _table(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield lines with columns that are equally wide in all pages."""
    yield from (f"{line}\n" for line in islice(aligned([_WIDEST], rows), 1, None))
