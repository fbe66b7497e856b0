"""`replace` compared with SQLite's own shell, for the same file, and with other sizes."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from app.jobs.job import NICENESS
from app.storage.engine import close_quietly
from app.storage.sqlite import SqliteEngine
from app.storage.tables import TABLES, Kind
from app.storage.versions import migrate_register
from tests.bench.intake.cost import Cost, cost_of
from tests.bench.intake.files import write_file
from tests.bench.intake.installation import fresh

KINDS = (Kind.VEHICLES, Kind.POLICIES)
SHELL = "/usr/bin/sqlite3"
TARGET = 1.3
LINEAR_MAX = 1.3
MEMORY_MB_MAX = 250


def print_beside_shell(directory: Path, rows: int, runs: int) -> None:
    """Load vehicles and policies alternately with `verifyd import` and the shell's `.import`."""
    for kind in KINDS:
        file = directory / f"{kind}.csv"
        write_file(file, kind, rows)
        print_alternating(
            f"{rows:,} {kind}, SQLite",
            runs,
            {
                "verifyd import": partial(replaced, directory, file),
                ".import, primary key": partial(imported, directory, file, kind),
                ".import, then an index": partial(imported_and_indexed, directory, file, kind),
            },
            TARGET,
        )
        file.unlink()


def print_alternating(
    title: str, runs: int, ways: Mapping[str, Callable[[], Cost]], target: float
) -> None:
    """Run several ways alternately; print their costs, and compare the first with each other one.

    Args:
        ways: ours, the one to which `target` applies, and further ones, by their names.
        target: how many times as fast ours must be.
    """
    print(title, flush=True)
    costs: dict[str, list[Cost]] = {name: [] for name in ways}
    for _ in range(runs):
        for name, run in ways.items():
            costs[name].append(run())
            print(f"  {name:24}{costs[name][-1]}{costs[name][-1].memory_mb:6.0f} MB", flush=True)
    ours, *others = costs.values()
    wall, cpu = _medians(ours)
    for number, (name, each) in enumerate(zip(list(ways)[1:], others, strict=True)):
        other_wall, other_cpu = _medians(each)
        want = "" if number else f" (wanted {target})"
        print(
            f"  medians: {other_wall / wall:.2f} times as fast as {name}{want}, "
            f"by CPU time {other_cpu / cpu:.2f}",
            flush=True,
        )
    print(f"  {max(each.memory_mb for each in ours):.0f} MB at most\n", flush=True)


def _medians(costs: Sequence[Cost]) -> tuple[float, float]:
    """Return the median times of a way: wall and CPU."""
    walls, cpus = zip(*(each[:2] for each in costs), strict=True)
    return median(walls), median(cpus)


def replaced(directory: Path, file: Path) -> Cost:
    """Load a file into an empty installation."""
    with fresh(directory) as installation:
        return installation.load(file)


def imported(directory: Path, file: Path, kind: Kind) -> Cost:
    """Import a file with the shell into an empty table like the register's."""
    table = TABLES[kind]._meta.table_name
    return _ran_in_shell(directory, kind, _import_sql(file, table))


def imported_and_indexed(directory: Path, file: Path, kind: Kind) -> Cost:
    """Import a file with the shell into a table without a key, then make a unique index."""
    meta = TABLES[kind]._meta
    key = ", ".join(field.column_name for field in meta.get_primary_keys())
    return _ran_in_shell(
        directory,
        kind,
        f"CREATE TABLE bare AS SELECT * FROM {meta.table_name} WHERE false",
        _import_sql(file, "bare"),
        f"CREATE UNIQUE INDEX bare_key ON bare ({key})",
    )


def _import_sql(file: Path, table: str) -> str:
    return f".import --csv --skip 1 '{file}' {table}"


def _ran_in_shell(directory: Path, kind: Kind, *commands: str) -> Cost:
    """Run commands of the shell on a database with the empty table of a kind."""
    with TemporaryDirectory(dir=directory) as own:
        made = _table_sql(Path(own) / "register.db", TABLES[kind]._meta.table_name)
        words = ("nice", "-n", str(NICENESS), SHELL, "shell.db", made, *commands)
        return cost_of(words, Path(own))


def _table_sql(file: Path, table: str) -> str:
    engine = SqliteEngine(file, create=True)
    migrate_register(engine, None)
    query = "SELECT sql FROM sqlite_master WHERE name = ?"
    (sql,) = engine.execute_sql(query, (table,)).fetchone()
    close_quietly(engine)
    return str(sql)


def print_linearity(directory: Path, rows: int, runs: int) -> None:
    """Load a quarter of the rows and two and a half times as many; compare the time per row."""
    print("From small to large, vehicles, SQLite", flush=True)
    costs: dict[int, list[Cost]] = {rows // 4: [], rows * 5 // 2: []}
    for count in costs:
        write_file(directory / f"{count}.csv", Kind.VEHICLES, count)
    for _ in range(runs):
        for count, measured in costs.items():
            measured.append(replaced(directory, directory / f"{count}.csv"))
            print(f"  {count:12,}{measured[-1]}{measured[-1].memory_mb:6.0f} MB", flush=True)
    small, large = (
        median(each.wall_seconds for each in measured) / count for count, measured in costs.items()
    )
    most_mb = max(each.memory_mb for measured in costs.values() for each in measured)
    print(f"  a row takes {large / small:.2f} times as long (at most {LINEAR_MAX})")
    print(f"  {most_mb:.0f} MB at most (under {MEMORY_MB_MAX})\n", flush=True)
