"""Rows in the order of their keys, each key once, in memory or in runs on disk (formats 0.10)."""

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.registers.rows import VehicleRow
from app.registers.sorting import sorted_unique

ROWS = st.lists(st.tuples(st.text("ABÜ", max_size=2), st.text("xy", max_size=1), st.integers(0, 9)))


@given(rows=ROWS, run_rows=st.integers(1, 5), key_columns=st.integers(1, 2))
def test_the_last_row_of_each_key_is_left(tmp_path_factory, rows, run_rows, key_columns):
    """Whatever the order and wherever the runs end: as a dictionary would have it, sorted."""
    latest = {row[:key_columns]: row for row in rows}
    directory = tmp_path_factory.getbasetemp()
    found = list(sorted_unique(iter(rows), key_columns, directory, run_rows))
    assert found == [latest[key] for key in sorted(latest)]


@pytest.mark.parametrize("run_rows", [1, 2, 3, 4])
def test_a_key_that_comes_again_counts_across_runs(tmp_path, run_rows):
    """The later row wins even where the earlier one already waits on disk."""
    rows = [("A", 1), ("B", 1), ("A", 2), ("A", 3)]
    assert list(sorted_unique(rows, 1, tmp_path, run_rows)) == [("A", 3), ("B", 1)]


def test_no_rows_are_no_rows(tmp_path):
    """An empty file has nothing to sort."""
    assert list(sorted_unique([], 1, tmp_path)) == []


def test_runs_wait_in_files_without_a_name(tmp_path):
    """What a killed process leaves behind is nothing: its files are never to be seen."""
    rows = sorted_unique(((str(n),) for n in range(100)), 1, tmp_path, run_rows=10)
    next(rows)
    assert list(tmp_path.iterdir()) == []


def test_rows_come_back_from_disk_as_they_were(tmp_path):
    """Texts of any script, numbers, flags and nothing survive the way through a run."""
    row = VehicleRow("MÜAB123", make="Škoda", year=2012, insured=False, mot_exempt=True)
    found = list(sorted_unique([row, VehicleRow("A")], 1, tmp_path, run_rows=1))
    assert found == [tuple(VehicleRow("A")), tuple(row)]
    assert found[1][5] is False


def test_no_more_than_a_run_is_read_ahead(tmp_path):
    """The file may be of any size: rows are taken from it a run at a time."""
    taken = []

    def rows():
        for n in range(1_000):
            taken.append(n)
            yield (f"{n:04}",)
            if n == 25:
                raise RuntimeError("the file ends here")

    with pytest.raises(RuntimeError):
        list(islice(sorted_unique(rows(), 1, tmp_path, run_rows=10), 1))
    assert len(taken) == 26


def test_a_place_that_cannot_be_written_to_is_an_error(tmp_path):
    """Runs that cannot wait fail the load; rows are never dropped."""
    with pytest.raises(OSError, match="none"):
        list(sorted_unique([("A",), ("B",)], 1, tmp_path / "none", run_rows=1))
