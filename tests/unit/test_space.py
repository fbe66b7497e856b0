"""The disk space of a load is estimated well, so that no load that fits is refused (D57)."""

import pytest

from app.registers.reading import reader as reading
from app.registers.space import Space
from app.storage.tables import Kind
from tests.bench.intake.files import write_file
from tests.conftest import ON_SQLITE

ROWS = 20_000
BOTH_KINDS = pytest.mark.parametrize("kind", [Kind.VEHICLES, Kind.POLICIES])

pytestmark = ON_SQLITE


@pytest.fixture
def estimates(monkeypatch):
    """The space that loads ask for, in bytes; there is always enough."""
    asked_for = []
    monkeypatch.setattr(Space, "_require", lambda _, needed: asked_for.append(needed))
    return asked_for


def loaded(world, kind, **options):
    """Load a file of rows; return the size of the register's newest file."""
    path = world.directory / f"{kind}.csv"
    write_file(path, kind, ROWS)
    world.load_files(path, **options)
    files = world.directory.glob("verifyd.register_native.*.db")
    return max((int(file.suffixes[-2][1:]), file.stat().st_size) for file in files)[1]


@BOTH_KINDS
def test_a_first_merge_needs_the_table_twice(world, estimates, kind):
    """A first merge needs the table's space twice, because it is first in the log."""
    size_bytes = loaded(world, kind)
    assert estimates[-1] == pytest.approx(2 * size_bytes, rel=0.15)


@BOTH_KINDS
def test_a_replace_of_one_run_needs_the_table_once(world, estimates, kind):
    """A single process that replaces needs the table's space once."""
    size_bytes = loaded(world, kind, mode="replace")
    assert estimates[-1] == pytest.approx(size_bytes, rel=0.15)


@pytest.mark.system_long
@pytest.mark.parametrize(("cores", "share"), [(1, 1), (2, 1.5)])
def test_a_replace_of_several_runs_needs_a_part_besides(
    world, estimates, monkeypatch, cores, share
):
    """On several cores the second process needs half of the table's space besides."""
    monkeypatch.setattr(reading, "RUN_ROWS", 5_000)
    for module in ("reading.reader", "modes", "space"):
        monkeypatch.setattr(f"app.registers.{module}.CORES", cores)
    size_bytes = loaded(world, Kind.VEHICLES, mode="replace")
    assert estimates[-1] == pytest.approx(share * size_bytes, rel=0.15)


@pytest.mark.system_long
def test_rows_that_are_held_already_need_nothing(world, estimates):
    """A merge of rows that are already held needs no space."""
    size_bytes = loaded(world, Kind.VEHICLES)
    loaded(world, Kind.VEHICLES)
    assert estimates[-1] < size_bytes / 10


@pytest.mark.system_long
def test_a_replace_copies_the_other_kinds(world, estimates):
    """The other kinds are copied into the register's next file."""
    loaded(world, Kind.POLICIES)
    size_bytes = loaded(world, Kind.VEHICLES, mode="replace")
    assert estimates[-1] == pytest.approx(size_bytes, rel=0.15)
