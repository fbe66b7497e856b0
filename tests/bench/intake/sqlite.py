"""`replace` compared with SQLite's own shell, for the same file, and with other sizes."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from app.jobs.job import NICENESS
from app.storage.engine import close_quietly
from app.storage.sqlite import SqliteEngine
from app.storage.tables import TABLES, Kind
from app.storage.versions import migrate_register
from tests.bench.intake.files import write_file
from tests.bench.intake.installation import fresh
from tests.bench.intake.processes import Cost, cost_of

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
            ("verifyd import", partial(replaced, directory, file)),
            ("sqlite3 .import", partial(imported, directory, file, kind)),
            TARGET,
        )
        file.unlink()


def print_alternating(
    title: str,
    runs: int,
    ours: tuple[str, Callable[[], Cost]],
    other: tuple[str, Callable[[], Cost]],
    target: float,
) -> None:
    """Run two ways alternately; print their costs, and the ratio of their times."""
    print(title, flush=True)
    costs: dict[str, list[Cost]] = {}
    for _ in range(runs):
        for name, run in (ours, other):
            costs.setdefault(name, []).append(run())
            print(f"  {name:24}{costs[name][-1]}", flush=True)
    walls = [median(each.wall_seconds for each in costs[name]) for name, _ in (ours, other)]
    cpus = [median(each.cpu_seconds for each in costs[name]) for name, _ in (ours, other)]
    most_mb = max(each.memory_mb for each in costs[ours[0]])
    print(
        f"  medians: {walls[1] / walls[0]:.2f} times as fast (wanted {target}), "
        f"by CPU time {cpus[1] / cpus[0]:.2f}; {most_mb:.0f} MB at most\n",
        flush=True,
    )


def replaced(directory: Path, file: Path) -> Cost:
    """Load a file into an empty installation."""
    with fresh(directory) as installation:
        return installation.replace(file)


def imported(directory: Path, file: Path, kind: Kind) -> Cost:
    """Import a file with the shell into an empty table like the register's."""
    table = TABLES[kind]._meta.table_name
    with TemporaryDirectory(dir=directory) as own:
        made = _table_sql(Path(own) / "register.db", table)
        read = f".import --csv --skip 1 '{file}' {table}"
        command = ("nice", "-n", str(NICENESS), SHELL, "shell.db", made, read)
        return cost_of(command, Path(own))


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
