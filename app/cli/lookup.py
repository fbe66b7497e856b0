"""`verifyd lookup`: the answers of the service for plates, and their reasons."""

import argparse
import shutil
import textwrap
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import peewee

from app.arguments import Argument
from app.cli.lookup_csv import ENQUIRY, answer_file, recording_look_ups
from app.cli.output import plates_of, print_item
from app.cli.parser import Group, day_argument
from app.config import Config
from app.errors import OperatorError
from app.registers.load_times import read_load_times
from app.storage.engine import Engine
from app.storage.registers import require_readable
from app.storage.session import opened_database
from app.text import counted, printable
from app.vehicles.audited import rule_of, shown_plates
from app.vehicles.document import Document, document_of
from app.vehicles.explanation import explain
from app.vehicles.facts import POLICIES_MAX
from app.vehicles.periods import DAYS_MAX, Period, period_fault
from app.vehicles.reader import VehicleReader
from app.vehicles.records import Records

commands = Group()

_UNWRAPPED = 100_000
_SENTENCE_MIN = 32
"""With less room than this for the reasons, each begins on a new line."""
_GAP = "  "
_NOT_KNOWN = "not known"
_TOO_MANY = f"more than {POLICIES_MAX} policies"


def _day(text: str) -> str:
    return day_argument(text).isoformat()


def _output(text: str) -> Path | None:
    return None if text == "-" else Path(text)


@commands.command(
    "lookup",
    "show what the service answers for plates, and why; or answer a file of plates",
    Argument("PLATE", "plate, in any spelling; - is stdin", dest="plates", nargs="*"),
    Argument("--as-of DAY", "day that the answer is about, YYYY-MM-DD [today]", type=_day),
    Argument("--from DAY", "first day of a period, instead of --as-of", dest="first", type=_day),
    Argument(
        "--to DAY",
        f"last day of the period, at most {DAYS_MAX} days with the first",
        dest="last",
        type=_day,
    ),
    *ENQUIRY,
    Argument("--csv FILE", "add the answers as columns to each line of this CSV file; - is stdin"),
    Argument("--column NAME", "with --csv: column with the plates [found by its name]"),
    Argument(
        "--output FILE",
        "with --csv: file to write, which appears when it is complete [stdout]",
        type=_output,
    ),
    examples=[
        "lookup AB12CDE",
        'lookup "ab12 cde" LP63SED --as-of 2026-12-31 --json',
        "lookup AB12CDE --from 2026-12-04 --to 2026-12-07",
        "lookup AB12CDE --reason ACCESS --reference CASE-4711",
        "lookup - < plates.txt",
        "lookup --csv fleet.csv --output fleet-checked.csv",
        'lookup --csv - --column "Reg No" < fleet.csv > fleet-checked.csv',
    ],
)
def _lookup(args: argparse.Namespace) -> None:
    _require_one_use(args)
    period = _period(args)
    args.plates = plates_of(args.plates)
    config = Config.from_env()
    with opened_database(config) as engine:
        reader = VehicleReader(Records(engine, config), config, partial(read_load_times, engine))
        day = reader.day(period.first if period else args.as_of)
        try:
            if args.csv is not None:
                with recording_look_ups(args, config, engine, args.as_of, period) as record:
                    answer_file(args, engine, reader, day, period, record)
            else:
                _explain(args, engine, reader, config, day, period)
        except (peewee.DatabaseError, peewee.InterfaceError):
            require_readable(engine)
            raise


def _require_one_use(args: argparse.Namespace) -> None:
    """Refuse plates together with a file, and options of one with the other."""
    if args.csv is not None:
        if args.plates:
            args.command.error("argument PLATE: not allowed with argument --csv")
        if args.json and not args.output:
            args.command.error("argument --json: with --csv only allowed with argument --output")
        return
    if not args.plates:
        args.command.error("the following arguments are required: PLATE or --csv")
    for name in ("column", "output"):
        if getattr(args, name) is not None:
            args.command.error(f"argument --{name}: only allowed with argument --csv")


def _period(args: argparse.Namespace) -> Period | None:
    """Return the period that the options name, if they name one."""
    fault = period_fault(args.as_of, args.first, args.last, ("--as-of", "--from", "--to"))
    if fault:
        args.command.error("argument {}: {}".format(*fault))
    return Period(args.first, args.last) if args.first else None


def _explain(
    args: argparse.Namespace,
    engine: Engine,
    reader: VehicleReader,
    config: Config,
    day: str,
    period: Period | None,
) -> None:
    explained = explain(engine, reader, args.plates, day, period)
    with recording_look_ups(args, config, engine, args.as_of, period) as record:
        rule = rule_of(each.found for each in explained.plates)
        record(shown_plates(explained, day, period), explained.registers, rule)
    document = document_of(explained, day, period)
    plates = document["plates"]
    failed = [f"{each['asked']}: {each['error']}" for each in plates if "error" in each]
    sentence = "" if failed else f"{counted(len(plates), 'plate')} answered"
    print_item(args, document, sentence, _lines(document))
    if failed:
        reasons = printable("; ".join(failed))
        raise OperatorError(f"{len(failed)} of {len(plates)} without an answer: {reasons}")


def _lines(document: Document) -> Iterator[str]:
    """Yield the answer for each plate, its reasons, and the content of each register."""
    # NOTE: a pipe or a file has no width, so its lines are not wrapped.
    width = shutil.get_terminal_size((_UNWRAPPED, 0)).columns
    for place, plate in enumerate(document["plates"]):
        if place:
            yield ""
        yield from (line.rstrip() for line in _plate(plate, document, width))


def _plate(plate: Document, document: Document, width: int) -> Iterator[str]:
    asked, registration = plate["asked"], plate["registration"]
    also = f' (asked for as "{asked}")' if asked != registration else ""
    if "error" in plate:
        yield f"{registration or asked}{also if registration else ''}: {plate['error']}"
        if registration:
            names = ", ".join(document["registers"])
            yield (
                f"{_GAP}No register mentions it: {names}"
                if names
                else f"{_GAP}No register is loaded"
            )
            yield from (f"{_GAP}Did you mean {_named(each)}?" for each in plate["suggestions"])
        return
    yield f"{registration}{also} on {document['asOf']}"
    yield from _table(_summary(plate), width)
    if "period" in document:
        yield from ("", "Every day from {firstDay} to {lastDay}".format_map(document["period"]))
        verdicts = [
            ("insured", _verdict(plate["insurance"]["period"])),
            ("compliant", _verdict(plate["compliance"]["period"])),
        ]
        yield from _table(verdicts, width)
    yield from ("", "Decided by")
    rows = [
        (
            each["column"],
            _NOT_KNOWN if "unknown" in each else _shown(each["value"]),
            ", ".join(each["registers"]) or "-",
            each["why"],
        )
        for each in plate["decidedBy"]
    ]
    yield from _table(rows, width)
    yield from ("", "What each register says")
    for holding in plate["registers"]:
        yield f"{_GAP}{holding['register']}"
        yield from _table(_holding(holding), width, indent=2 * _GAP)


def _named(suggestion: Document) -> str:
    """Return a suggested plate with what is known of its vehicle."""
    model = " ".join(filter(None, [suggestion["make"], suggestion["model"]]))
    known = ", ".join(filter(None, [model, suggestion["color"]]))
    return f"{suggestion['registration']} ({known})" if known else suggestion["registration"]


def _summary(plate: Document) -> list[tuple[str, str]]:
    insurance, compliance = plate["insurance"], plate["compliance"]
    reason = compliance["reasons"]["insuranceValid"]
    insured = _told(insurance, "insured")
    if (insured, reason) != (_NOT_KNOWN, "unknown"):
        insured += f" ({reason})"
    compliant = _told(compliance, "compliant") + _why(compliance)
    rows = [
        ("insured", insured + _until(insurance, "insuredUntil")),
        ("compliant", compliant + _until(compliance, "compliantUntil")),
    ]
    if len(insurance["policies"]) > 1:
        numbers = ", ".join(each["number"] for each in insurance["policies"])
        more = " and more" if "policiesTruncated" in insurance else ""
        if more and "tooManyPolicies" in insurance:
            more += f", which may end later, as there are {_TOO_MANY},"
        rows.append(("policies", f"{numbers}{more} are in force"))
    return rows


def _told(answer: Document, member: str) -> str:
    return _NOT_KNOWN if member in answer.get("unknown", ()) else _shown(answer[member])


def _why(answer: Document) -> str:
    """Return the checks that fail or are not known, in brackets."""
    unknown = answer.get("unknown", ())
    failed = [
        f"{name}: {_NOT_KNOWN if name in unknown else reason}"
        for name, reason in answer["reasons"].items()
        if name in unknown or not answer["checks"][name]
    ]
    return f" ({', '.join(failed)})" if failed else ""


def _until(answer: Document, member: str) -> str:
    if "tooManyPolicies" in answer:
        return f", later days are not judged: {_TOO_MANY}"
    if member not in answer:  # It is not so on the day.
        return ""
    return ", no end is known" if answer[member] is None else f", until {answer[member]}"


def _verdict(period: Document) -> str:
    if "tooManyPolicies" in period:
        return f"not judged: {_TOO_MANY}"
    if period["validThroughout"]:
        return "yes"
    if "validThroughout" in period.get("unknown", ()):
        return f"{_NOT_KNOWN}, first on {period['firstFailingDay']}{_why(period)}"
    return f"no, not on {period['firstFailingDay']}{_why(period)}"


def _holding(holding: Document) -> list[tuple[str, str]]:
    rows = [("vehicle", _members(holding["vehicle"]))] if holding["vehicle"] else []
    rows += [("policy", _members(each)) for each in holding["policies"]]
    rows += [("fine", _members(each)) for each in holding["fines"]]
    # NOTE: the same width in all registers, so that their columns are aligned.
    return [(f"{what:7}", text) for what, text in rows] or [("-", "nothing")]


def _members(members: Document) -> str:
    known = [f"{name} {_shown(value)}" for name, value in members.items() if value is not None]
    return ", ".join(known)


def _table(rows: Sequence[tuple[str, ...]], width: int, indent: str = _GAP) -> Iterator[str]:
    """Yield aligned rows; the last cell of each is wrapped to the rest of the width."""
    widths = [max(map(len, cells)) for cells in list(zip(*rows, strict=True))[:-1]]
    taken = len(indent) + sum(widths) + len(_GAP) * len(widths)
    for *cells, last in rows:
        if width - taken >= _SENTENCE_MIN:
            aligned = [f"{cell:{size}}{_GAP}" for cell, size in zip(cells, widths, strict=True)]
            yield from textwrap.wrap(
                last, width, initial_indent=indent + "".join(aligned), subsequent_indent=" " * taken
            )
        else:
            further = indent + 2 * _GAP
            yield from textwrap.wrap(_GAP.join(cells), width, initial_indent=indent)
            yield from textwrap.wrap(
                last,
                max(width, len(further) + 1),
                initial_indent=further,
                subsequent_indent=further,
            )


def _shown(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
