"""What becomes of records that are no rows: counted, and written down (D28, D37)."""

import csv
import os
from pathlib import Path

import pytest

from app.errors import OperatorError
from app.registers.rejects import RejectLimit, RejectsFile, TooManyRejects

ANY_NUMBER = RejectLimit.parse("100%")


def rejected(path: Path, *records: str, limit: RejectLimit = ANY_NUMBER) -> RejectsFile:
    """A file of these records, closed."""
    with RejectsFile(path, limit) as rejects:
        for line, record in enumerate(records, 2):
            rejects.reject(line, "no registration", record)
    return rejects


@pytest.mark.parametrize(
    ("limit", "count", "rows", "is_passed"),
    [
        ("0", 0, 10, False),
        ("0", 1, 10, True),
        ("5", 5, 5, False),
        ("5", 6, 1_000_000, True),
        ("1%", 1, 100, False),
        ("1%", 1, 99, True),
        ("0.5%", 1, 200, False),
        ("0%", 1, 1_000_000, True),
        ("100%", 10, 10, False),
        ("1%", 0, 0, False),
    ],
)
def test_a_limit_is_a_number_or_a_part_of_all_records(limit, count, rows, is_passed):
    """`N` counts rejects, `N%` holds them against all records; as many as it says may be."""
    assert RejectLimit.parse(limit).is_passed(count, rows) is is_passed


@pytest.mark.parametrize("text", ["1%", "0.5%", "100%", "0", "250"])
def test_a_limit_is_shown_as_it_was_written(text):
    """Messages repeat what the operator said."""
    assert str(RejectLimit.parse(text)) == text


@pytest.mark.parametrize("text", ["", "%", "-1", "-1%", "101%", "nan%", "inf%", "1.5", "one"])
def test_other_limits_are_refused(text):
    """A limit that means nothing must not mean no limit."""
    with pytest.raises(ValueError, match=r"must be N|could not convert|invalid literal"):
        RejectLimit.parse(text)


def test_there_is_no_file_without_a_reject(tmp_path):
    """Skipped records are counted only."""
    with RejectsFile(tmp_path / "rejects.csv", ANY_NUMBER) as rejects:
        rejects.skip(2, "another state")
    assert (rejects.rejected, rejects.skipped) == (0, 1)
    assert list(tmp_path.iterdir()) == []


def test_the_file_is_a_csv_of_what_was_rejected(tmp_path):
    """File, line, reason and record, whatever characters the record is made of."""
    path = tmp_path / "new" / "rejects.csv"
    with RejectsFile(path, ANY_NUMBER) as rejects:
        rejects.file_name = "a.csv"
        rejects.reject(7, "no registration", 'a "quote", a comma\nand a line')
        rejects.reject(9, "not UTF-8", "half a pair \ud800")
    with open(path, encoding="utf-8", newline="") as file:
        assert list(csv.reader(file)) == [
            ["file", "line", "reason", "record"],
            ["a.csv", "7", "no registration", 'a "quote", a comma\nand a line'],
            ["a.csv", "9", "not UTF-8", "half a pair ?"],
        ]


def test_a_long_record_is_cut(tmp_path):
    """A record that ran over a missing line end must not fill the disk."""
    rejected(tmp_path / "rejects.csv", "x" * 100_000)
    assert (tmp_path / "rejects.csv").stat().st_size < 2_100


@pytest.mark.parametrize("was_there", [False, True])
def test_only_the_operator_may_read_it(tmp_path, was_there):
    """Mode 0600, also where the file of a former load was open to others."""
    path = tmp_path / "rejects.csv"
    if was_there:
        path.write_text("file,line,reason,record\n")
        path.chmod(0o644)
    rejected(path, "x")
    assert path.stat().st_mode & 0o777 == 0o600


def test_what_is_no_file_keeps_its_rights(tmp_path):
    """Rejects can go into a pipe or a device, such as /dev/null, which others need, too."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    pipe.chmod(0o644)
    before = pipe.stat().st_mode
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    assert rejected(pipe, "x").rejected == 1
    assert b"no registration,x" in os.read(reader, 1_000)
    os.close(reader)
    assert pipe.stat().st_mode == before


def test_rejects_of_a_former_load_are_replaced(tmp_path):
    """The file holds the rejects of one load."""
    for record in ("old", "new"):
        rejected(tmp_path / "rejects.csv", record)
    text = (tmp_path / "rejects.csv").read_text()
    assert ("new" in text, "old" in text) == (True, False)


def test_another_file_is_not_replaced(tmp_path):
    """What does not begin as rejects do was something else, and is still there."""
    path = tmp_path / "vehicles.csv"
    path.write_text("registration,make\n")
    with pytest.raises(OperatorError, match="holds no rejects"):
        rejected(path)
    assert path.read_text() == "registration,make\n"


def test_a_number_is_enforced_at_once(tmp_path):
    """A load with too many rejects need not be read to its end."""
    with pytest.raises(TooManyRejects, match="more than 1 records were rejected; nothing was"):
        rejected(tmp_path / "rejects.csv", "a", "b", "c", limit=RejectLimit.parse("1"))
    assert len((tmp_path / "rejects.csv").read_text().splitlines()) == 3


def test_a_percentage_is_of_all_records(tmp_path):
    """It is enforced at the end, and counts loaded, rejected and skipped ones."""
    rejects = rejected(tmp_path / "rejects.csv", "a", limit=RejectLimit.parse("50%"))
    rejects.require_few(loaded=1)
    with pytest.raises(TooManyRejects, match="1 of 1 records were rejected, more than 50%"):
        rejects.require_few(loaded=0)
