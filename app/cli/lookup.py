"""`verifyd lookup`: what the service answers for plates, and why (D83)."""

import argparse
from pathlib import Path
from typing import NoReturn

import peewee

from app.cli.lookup_csv import answer_file
from app.cli.lookup_record import add_enquiry, recording
from app.cli.lookup_text import print_for_people, printable
from app.cli.output import counted, print_item, print_sentence
from app.cli.parser import Commands, add_command, day_argument
from app.cli.session import opened_database
from app.config import Config
from app.errors import OperatorError
from app.storage.engine import Engine
from app.storage.registers import find_unreadable
from app.vehicles.explanation import explain
from app.vehicles.explanation_document import Document, document_of
from app.vehicles.reader import VehicleReader
from app.vehicles.records import Records


def add_commands(commands: Commands) -> None:
    """Add the command."""
    command = add_command(
        commands,
        "lookup",
        lambda args: _lookup(command, args),
        "show what the service answers for plates, and why; or answer a file of plates",
        examples=[
            "lookup AB12CDE",
            'lookup "ab12 cde" LP63SED --as-of 2026-12-31 --json',
            "lookup AB12CDE --reason ACCESS --reference CASE-4711",
            "lookup --csv fleet.csv --output fleet-checked.csv",
            'lookup --csv - --column "Reg No" < fleet.csv > fleet-checked.csv',
        ],
    )
    command.add_argument("plates", metavar="PLATE", nargs="*", help="plate, in any spelling")
    command.add_argument(
        "--as-of", type=_day, metavar="DAY", help="day that the answer is about, YYYY-MM-DD [today]"
    )
    add_enquiry(command)
    command.add_argument(
        "--csv",
        metavar="FILE",
        help="add the answers as columns to each line of this CSV file; - is stdin",
    )
    command.add_argument(
        "--column",
        metavar="NAME",
        help="with --csv: column with the plates [found by its name]",
    )
    command.add_argument(
        "--output",
        type=_output,
        metavar="FILE",
        help="with --csv: file to write, which appears when it is complete [stdout]",
    )


def _lookup(command: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    _require_one_use(command, args)
    config = Config.from_env()
    with opened_database(config) as engine:
        reader = VehicleReader(Records(engine, config.register_order), config)
        day = reader.day(args.as_of)
        try:
            if args.csv is not None:
                with recording(args, config, engine, day) as record:
                    answer_file(args, engine, reader, day, record)
            else:
                _explain(args, engine, reader, config, day)
        except (peewee.DatabaseError, peewee.InterfaceError) as error:
            _raise_unreadable(engine, error)


def _require_one_use(command: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """Refuse plates together with a file, and options of one with the other."""
    if args.csv is not None:
        if args.plates:
            command.error("argument PLATE: not allowed with argument --csv")
        if args.json and not args.output:
            command.error("argument --json: with --csv only allowed with argument --output")
        return
    if not args.plates:
        command.error("the following arguments are required: PLATE or --csv")
    for name in ("column", "output"):
        if getattr(args, name) is not None:
            command.error(f"argument --{name}: only allowed with argument --csv")


def _explain(
    args: argparse.Namespace, engine: Engine, reader: VehicleReader, config: Config, day: str
) -> None:
    explained = explain(engine, reader, config.register_order, args.plates, day)
    with recording(args, config, engine, day) as record:
        record([each.found for each in explained.plates], explained.registers)
    document = document_of(explained, day, reader.mot_first_years)
    if args.json:
        print_item(args, document)
    else:
        print_for_people(document)
    _require_all_answered(args, document)


def _require_all_answered(args: argparse.Namespace, document: Document) -> None:
    """Print how many plates were answered. Raises OperatorError if any plate was not."""
    plates = document["plates"]
    failed = [f"{each['asked']}: {each['error']}" for each in plates if "error" in each]
    if failed:
        reasons = printable("; ".join(failed))
        raise OperatorError(f"{len(failed)} of {len(plates)} without an answer: {reasons}")
    if not args.json:
        print_sentence(f"{counted(len(plates), 'plate')} answered")


def _raise_unreadable(engine: Engine, error: peewee.PeeweeException) -> NoReturn:
    """Raise the error, or OperatorError with the name of the register that cannot be read."""
    register = find_unreadable(engine)
    if register is None:
        raise error
    raise OperatorError(
        f"the register {register.name} cannot be read: restore it, or drop it and load it again"
    ) from error


def _day(text: str) -> str:
    return day_argument(text).isoformat()


def _output(text: str) -> Path | None:
    return None if text == "-" else Path(text)
