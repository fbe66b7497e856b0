"""The register that all contestants read, and the database file of the others.

The vehicles are those of the demo, with as many plates as wanted: so every kind of paper is there,
as often as in a real register. `verifyd import` loads them.
"""

import random
import sqlite3
from array import array
from collections import defaultdict
from collections.abc import Iterable
from contextlib import closing
from datetime import UTC
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from app import clock
from app.registers.demo import PLATES, demo_register
from app.storage.files import register_file
from tests.bench.intake.files import plate
from tests.bench.intake.installation import Installation

_ACCOUNT_TABLES = ("plan", "account", "api_key")
_CURRENT = "SELECT generation FROM register WHERE name = 'native'"
_TABLE_SQL = "SELECT sql FROM verifyd.sqlite_master WHERE type = 'table' AND name = ?"
_ROWS_AT_ONCE = 10_000

CASES = PLATES
"""The first so many vehicles differ in their papers: the cars of the demo."""


class Data(NamedTuple):
    """An installation with a register, and a key without a limit."""

    installation: Installation
    key: str
    vehicles: int

    def some_plates(self, count: int, seed: int = 0) -> list[str]:
        """Return the plates of random vehicles."""
        chance = random.Random(seed)
        return [plate(chance.randrange(self.vehicles)) for _ in range(count)]


def build(directory: Path, vehicles: int) -> Data:
    """Make an installation in a new directory, and load a register of so many vehicles."""
    directory.mkdir()
    installation = Installation(directory)
    for file in write_files(directory, vehicles):
        installation.load(file)
        if file.stem != "vehicles":  # Loaded once more, while look-ups are measured.
            file.unlink()
    return Data(installation, installation.key(), vehicles)


def write_files(directory: Path, vehicles: int) -> list[Path]:
    """Write the native files of so many vehicles, in random order; return their paths."""
    cars = demo_register(clock.today(UTC))
    numbers = array("I", range(vehicles))
    random.Random(0).shuffle(numbers)
    templates = sorted({row["registration"] for rows in cars for row in rows}, key=str)
    paths = []
    for name, rows in cars._asdict().items():
        path = directory / f"{name}.csv"
        header, lines = _by_car(rows)
        left = iter(numbers)
        with path.open("w", encoding="utf-8") as file:
            file.write(header)
            while some := list(islice(left, _ROWS_AT_ONCE)):
                file.writelines(
                    plate(n) + line for n in some for line in lines[templates[n % len(templates)]]
                )
        paths.append(path)
    return paths


def _by_car(rows: list[dict[str, Any]]) -> tuple[str, dict[Any, list[str]]]:
    """Return the header of a file, and the lines of each car without its plate."""
    names = [name for name in rows[0] if name != "registration"]
    lines: dict[Any, list[str]] = defaultdict(list)
    for row in rows:
        lines[row["registration"]].append(_line("", (row[name] for name in names)))
    return _line("registration", names), lines


def _line(first: str, values: Iterable[object]) -> str:
    # Values of the demo have neither commas nor quotes.
    return ",".join([first, *("" if value is None else str(value) for value in values)]) + "\n"


def write_plain_database(data: Data, file: Path) -> Path:
    """Write the register and the accounts into one SQLite file, as the others would keep them."""
    main = data.installation.directory / "bench.db"
    with closing(sqlite3.connect(main)) as accounts:
        (generation,) = accounts.execute(_CURRENT).fetchone()
    with closing(sqlite3.connect(register_file(main, "native", generation))) as register:
        register.execute("VACUUM INTO ?", (str(file),))
    with closing(sqlite3.connect(file)) as made:
        # better-sqlite3's documentation recommends it; SQLite keeps it in the file.
        made.execute("PRAGMA journal_mode = wal")
        made.execute("ATTACH ? AS verifyd", (str(main),))
        for table in _ACCOUNT_TABLES:
            (sql,) = made.execute(_TABLE_SQL, (table,)).fetchone()
            made.execute(sql)
            made.execute(f"INSERT INTO main.{table} SELECT * FROM verifyd.{table}")
        made.commit()
    return file
