"""A load stops because of its rejects as soon as its failure is certain (D70)."""

import gzip
import io
import random
import zipfile
from collections.abc import Iterable
from contextlib import suppress
from itertools import product
from pathlib import Path

import pytest

from app.errors import OperatorError
from app.registers.formats import FORMATS, FileFault
from app.registers.history import list_loads
from app.registers.reading import reader as reading
from app.registers.reading import rejects
from app.registers.reading.rejects import RejectLimit, TooManyRejects
from app.storage.tables import Kind
from tests.rows import each_row

HEADER = "registration,make,model,color\n"
GOOD, BAD = "AB%05d,FORD,FOCUS,BLUE\n", "/%05d,FORD,FOCUS,BLUE\n"


@pytest.fixture
def database_kind() -> str:
    """SQLite: where a register is stored does not affect how files are read."""
    return "sqlite"


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """Use small steps, so that small files have many."""
    monkeypatch.setattr(rejects, "_REJECTS_BETWEEN_CHECKS", 10)
    monkeypatch.setattr(reading, "_ROWS_BETWEEN_PROGRESS", 5)
    monkeypatch.setattr(reading, "_UNCOUNTED_BYTES_MAX", 250_000)


@pytest.fixture(params=["one go", "pieces"])
def _way(request, monkeypatch):
    """Read the file in one go, or in pieces by child processes."""
    if request.param == "one go":
        monkeypatch.setattr(reading, "CORES", 1)
        monkeypatch.setattr(reading, "_UNCOUNTED_BYTES_MAX", 175_000)
    else:
        monkeypatch.setattr(reading, "CORES", 2)
        monkeypatch.setattr(reading, "PIECE_BYTES", 10_000)


def table(*lines: str) -> str:
    """Return a CSV of these lines with numbered plates."""
    return HEADER + "".join(line % number for number, line in enumerate(lines))


def stopped(world, *paths: Path, limit: str = "1%") -> int:
    """Return how many records a load that fails has read."""
    with pytest.raises(TooManyRejects):
        world.load_files(*paths, max_rejects=RejectLimit.parse(limit))
    return int(list_loads(world.engine)[0].rows)


@pytest.mark.usefixtures("_way")
def test_a_hopeless_load_is_not_read_to_its_end(world):
    """If half of the rows are bad, the load stops long before the end."""
    path = world.directory / "a.csv"
    path.write_text(table(*[GOOD, BAD] * 10_000))
    assert stopped(world, path) < 12_500
    reason = str(list_loads(world.engine)[0].reason)
    assert (
        "were rejected so far, more than 1% of all records that the files can have (at most"
        in reason
    )


@pytest.mark.usefixtures("_way")
def test_a_load_that_can_still_succeed_goes_on(world):
    """A load whose rejects all come first, and are within the limit, continues."""
    path = world.directory / "a.csv"
    path.write_text(table(*[BAD] * 100, *[GOOD] * 9_900))
    assert world.load_files(path, max_rejects=RejectLimit.parse("1%")).rejected == 100
    path.write_text(table(*[BAD] * 101, *[GOOD] * 9_899))
    assert stopped(world, path) == 10_000


def test_other_files_count(world):
    """Good rows of later files can make up for the first; a zip has their sizes."""
    first, second = world.directory / "a.csv", world.directory / "b.csv"
    first.write_text(table(*[BAD] * 100))
    rest = table(*[GOOD] * 9_900)
    second.write_text(rest)
    assert world.load_files(first, second, max_rejects=RejectLimit.parse("1%")).rejected == 100
    with zipfile.ZipFile(second, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("b.csv", rest)
    assert world.load_files(first, second, max_rejects=RejectLimit.parse("1%")).rejected == 100


def test_a_file_of_unknown_size_is_read_on(world):
    """The unpacked size of gzip is unknown before its end, so it is read on."""
    path = world.directory / "a.csv"
    path.write_bytes(gzip.compress(table(*[GOOD, BAD] * 5_000).encode()))
    assert stopped(world, path) == 10_000


def test_gzip_inside_a_zip_is_not_known(tmp_path):
    """A zip's directory has only the packed size of a gzip member."""
    path = tmp_path / "a.zip"
    for name in ("a.csv.gz", "a.csv"):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(name, gzip.compress(b"x" * 1_000))
        assert rejects.Remaining([str(path)], lambda: 0).records_max() is None


def test_a_percentage_is_never_given_up_too_early(world):
    """Every load ends as if it were read whole, in any order of good and bad rows."""
    rng = random.Random(7)
    path = world.directory / "a.csv"
    for _ in range(15):
        rows = [BAD] * rng.randrange(0, 60) + [GOOD] * rng.randrange(1_000, 3_000)
        blocks = rng.choice([1, 50, 1_000])
        parts = [rows[n : n + blocks] for n in range(0, len(rows), blocks)]
        rng.shuffle(parts)
        path.write_text(table(*[row for part in parts for row in part]))
        bad = rows.count(BAD)
        limit = RejectLimit.parse(f"{rng.choice([0.5, 1, 2, 5])}%")
        is_too_many = limit.is_passed(bad, len(rows))
        try:
            done = world.load_files(path, max_rejects=limit)
            assert (is_too_many, done.rejected) == (False, bad)
        except OperatorError:
            assert is_too_many


@each_row(
    ("format_name", "head"),
    [
        ("native-csv", "registration,make,model\n"),
        ("native-csv", "registration\n"),
        ("nyc-csv", "Plate,State,Summons Number,Amount Due\n"),
        ("native-ndjson", ""),
        ("rdw-json", ""),
        ("dvla", ""),
        ("dvsa", ""),
        ("nyc-json", ""),
    ],
)
def test_no_record_is_shorter_than_the_shortest(format_name, head):
    """Records that are not rejected have at least the size that the estimate assumes."""
    format_ = FORMATS[format_name]
    least = format_.record_bytes_min(head.encode())
    keys = ("registration", "kenteken", "registrationNumber", "plate", "state")
    records = ["A", "A,,", ",,", ",,,", "{}", "[]", "1"]
    records += [f'{{"{key}":"{plate}"}}' for key in keys for plate in ("", "A")]
    for record, kind in product(records, Kind):
        report = _Report()
        with suppress(FileFault):
            rows = list(format_.rows(io.BytesIO((head + record + "\n").encode()), kind, report))
            if rows or report.skipped:
                assert len(record) + 1 >= least, record


class _Report:
    """A report that counts skips."""

    def __init__(self) -> None:
        self.skipped = 0

    def reject(self, line: int, reason: str, record: str) -> None:
        pass

    def skip(self) -> None:
        self.skipped += 1

    def note(self, text: str) -> None:
        pass

    def unreadable(self, column: str, found: object) -> None:
        pass

    def columns(self, names: Iterable[str]) -> None:
        pass
