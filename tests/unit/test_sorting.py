"""Changes sorted by key, in memory or in runs on disk."""

from contextlib import closing
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.registers.formats.changes import (
    NarrowRow,
    Order,
    PolicyCancellation,
    PolicyDeletion,
    RowDeletion,
    VehicleDeletion,
)
from app.registers.reading import sorted_runs as sorting
from app.registers.reading.sorted_runs import Runs, write_run
from app.storage.tables import VehicleRow

ROWS = st.lists(st.tuples(st.text("ABÜ", max_size=2), st.text("xy", max_size=1), st.integers(0, 9)))
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.text("AB", max_size=2), st.text("xy", max_size=1), st.integers(0, 9)),
        st.builds(VehicleDeletion, st.text("AB", max_size=2)),
        st.builds(lambda *key: RowDeletion((*key, ())), st.text("AB", max_size=2), st.just("x")),
    )
)


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    """Make chunks and batches so small that a few rows fill many."""
    monkeypatch.setattr(sorting, "_CHUNK_ROWS", 2)
    monkeypatch.setattr(sorting, "_BATCH_ROWS", 3)


def batches(rows, order, directory, run_rows) -> list[list[tuple]]:
    """Return the sorted batches of rows that are added this many at a time."""
    with closing(Runs(order, directory)) as runs:
        for start in range(0, len(rows), run_rows):
            runs.add(rows[start : start + run_rows])
        return list(runs.batches())


@pytest.mark.sample
@given(rows=ROWS, run_rows=st.integers(1, 5), key_columns=st.integers(1, 2))
def test_the_last_row_of_each_key_is_left(tmp_path_factory, rows, run_rows, key_columns):
    """The result equals a sorted dictionary, in any order and with any run boundaries."""
    latest = {row[:key_columns]: row for row in rows}
    directory = tmp_path_factory.getbasetemp()
    found = batches(rows, Order(1, key_columns), directory, run_rows)
    assert list(chain.from_iterable(found)) == [latest[key] for key in sorted(latest)]


@given(changes=CHANGES, run_rows=st.integers(1, 5))
def test_changes_of_a_group_keep_their_order(tmp_path_factory, changes, run_rows):
    """Rows and changes keep the order of the file, except rows that are repeated."""
    found = batches(changes, Order(1, 2), tmp_path_factory.getbasetemp(), run_rows)
    for group in {change[0] for change in changes}:
        sent = [change for change in changes if change[0] == group]
        came = [change for batch in found for change in batch if change[0] == group]
        if any(len(change) == 1 for change in sent):
            assert _state_after(came) == _state_after(sent)
            assert [c for c in came if len(c) == 1] == [c for c in sent if len(c) == 1]
        else:
            assert _state_after(came) == _state_after(sent)


def _state_after(changes):
    state: dict = {}
    for change in changes:
        if len(change) == 1:
            state.clear()
        else:
            state[change[:2]] = change
    return state


@given(changes=CHANGES, run_rows=st.integers(1, 5))
def test_no_group_is_parted(tmp_path_factory, changes, run_rows):
    """A batch has all changes of a group."""
    found = batches(changes, Order(1, 2), tmp_path_factory.getbasetemp(), run_rows)
    groups = [{change[0] for change in batch} for batch in found]
    assert sum(map(len, groups)) == len({change[0] for change in changes})


def test_no_rows_are_no_rows(tmp_path):
    """An empty file has no batches."""
    assert batches([], Order(1, 1), tmp_path, 1) == []


def test_runs_wait_in_files_without_a_name(tmp_path):
    """Run files have no name, so a killed process leaves none."""
    with closing(Runs(Order(1, 1), tmp_path)) as runs:
        for n in range(5):
            runs.add([(str(n),)])
        next(runs.batches())
        assert list(tmp_path.iterdir()) == []


def test_rows_come_back_from_disk_as_they_were(tmp_path):
    """Texts of any script, numbers, flags and None are unchanged after a run."""
    row = VehicleRow("MÜAB123", make="Škoda", year=2012, insured=False, mot_exempt=True)
    found = batches([row, VehicleRow("A")], Order(1, 1), tmp_path, 1)
    assert list(chain.from_iterable(found)) == [tuple(VehicleRow("A")), tuple(row)]


def test_changes_come_back_from_disk_with_their_types(tmp_path):
    """A run keeps the types of deletions, rows and narrow rows."""
    changes = [
        VehicleRow("A", year=2012),
        NarrowRow(("B", "FORD", (2, 3))),
        RowDeletion(("C", ())),
        VehicleDeletion("C"),
        PolicyDeletion("D", "Acme", "P-1"),
        PolicyCancellation("E", "Acme", "P-1", "2026-06-01"),
    ]
    found = list(chain.from_iterable(batches(changes, Order(1, 1), tmp_path, 2)))
    assert found == changes
    assert list(map(type, found)) == [tuple, *map(type, changes[1:])]


def test_a_run_of_another_process_is_added_from_where_it_begins(tmp_path):
    """A run of another process is read from its offset; earlier bytes are skipped."""
    order = Order(1, 1)
    with closing(Runs(order, tmp_path)) as runs:
        runs.add([("B", 1), ("C", 1)])
        file = runs.new_file()
        file.write(b"said before")
        start = file.tell()
        write_run([("A", 2), ("B", 2)], order, file)
        file.flush()
        runs.add_file(file, start)
        found = list(chain.from_iterable(runs.batches()))
    assert found == [("A", 2), ("B", 2), ("C", 1)]


@given(rows=ROWS, run_rows=st.integers(1, 5))
def test_two_readers_can_share_the_keys(tmp_path_factory, rows, run_rows):
    """Two readers, of the keys up to the middle and after it, return everything together."""
    order = Order(1, 2)
    directory = tmp_path_factory.getbasetemp()
    with closing(Runs(order, directory)) as first, closing(Runs(order, directory)) as second:
        for start in range(0, len(rows), run_rows):
            first.add(rows[start : start + run_rows])
            second.add(rows[start : start + run_rows])
        middle = first.middle()
        assert (middle is None) == (len(rows) <= run_rows)
        if middle is None:
            return
        lower = list(chain.from_iterable(first.batches(until=middle)))
        upper = list(chain.from_iterable(second.batches(after=middle)))
        assert all(row[0] <= middle for row in lower)
        assert all(row[0] > middle for row in upper)
        assert list(chain.from_iterable(first.batches())) == upper, "it continues after the middle"
    assert [lower + upper] == [list(chain.from_iterable(batches(rows, order, directory, run_rows)))]


def test_a_place_that_cannot_be_written_to_is_an_error(tmp_path):
    """If runs cannot be written, the load fails; rows are never dropped."""
    with pytest.raises(OSError, match="none"):
        batches([("A",), ("B",)], Order(1, 1), tmp_path / "none", 1)
