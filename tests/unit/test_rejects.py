"""Records that become no rows are counted and written down (D28)."""

import csv
import errno
import os
import re
from pathlib import Path

import pytest

from app.errors import OperatorError
from app.registers.reading import rejects as rejects_module
from app.registers.reading.rejects import (
    RejectLimit,
    RejectsFile,
    TooManyRejects,
    keep_newest,
    rejects_path,
)
from tests.rows import each_row

ANY_NUMBER = RejectLimit.parse("100%")


def rejects_file(
    path: Path, limit: RejectLimit = ANY_NUMBER, *, is_named: bool = False
) -> RejectsFile:
    """Return a report that writes to this file."""
    rejects = RejectsFile(limit, path if is_named else None)
    rejects.path = path
    return rejects


def rejected(path: Path, *records: str, limit: RejectLimit = ANY_NUMBER) -> RejectsFile:
    """Return a closed file of these records."""
    with rejects_file(path, limit) as rejects:
        for line, record in enumerate(records, 2):
            rejects.reject(line, "no registration", record)
    return rejects


@each_row(
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
    """`N` limits the number of rejects, `N%` their share of all records."""
    assert RejectLimit.parse(limit).is_passed(count, rows) is is_passed


@each_row("text", ["1%", "0.5%", "100%", "0", "250"])
def test_a_limit_is_shown_as_it_was_written(text):
    """Messages show the limit as the operator wrote it."""
    assert str(RejectLimit.parse(text)) == text


@each_row("text", ["", "%", "-1", "-1%", "101%", "nan%", "inf%", "1.5", "one"])
def test_other_limits_are_refused(text):
    """A malformed limit is refused, and never means no limit."""
    with pytest.raises(ValueError, match="must be N or N%, from 0 to 100%"):
        RejectLimit.parse(text)


def test_there_is_no_file_without_a_reject(tmp_path):
    """Skipped records are only counted."""
    with rejects_file(tmp_path / "rejects.csv") as rejects:
        rejects.skip()
    assert (rejects.rejected, rejects.skipped) == (0, 1)
    assert list(tmp_path.iterdir()) == []


def test_the_file_is_a_csv_of_what_was_rejected(tmp_path):
    """A row has file, line, reason and record, whatever characters the record has."""
    path = tmp_path / "new" / "rejects.csv"
    with rejects_file(path) as rejects:
        rejects.file_name = "a.csv"
        rejects.reject(7, "no registration", 'a "quote", a comma\nand a line')
        rejects.reject(9, "not UTF-8", "half a pair \ud800")
    with open(path, encoding="utf-8", newline="") as file:
        assert list(csv.reader(file)) == [
            ["file", "line", "reason", "record"],
            ["a.csv", "7", "no registration", 'a "quote", a comma\\nand a line'],
            ["a.csv", "9", "not UTF-8", "half a pair \\ud800"],
        ]


@each_row(
    "text",
    ["=1+1", "+1", "-1", "@x", "\t=1", "a;=1", '"=1', "\uff1d1", "\x1b[31m", "\x9b1m", "\u202e"],
)
def test_no_text_of_an_uploader_is_live(tmp_path, text):
    """No cell is a formula, and none controls a terminal: others choose names and records."""
    path = tmp_path / "rejects.csv"
    with rejects_file(path) as rejects:
        rejects.file_name = f"{text}.csv"
        rejects.reject(2, f"no number: {text}", text)
    content = path.read_bytes().decode()
    assert content.replace("\r\n", "").isprintable()
    for delimiter in ",;\t|":
        for row in csv.reader(content.splitlines(), delimiter=delimiter):
            assert not any(re.match(r"\s*[=+\-@\uff1d]", cell) for cell in row), row


def test_a_long_record_is_cut(tmp_path):
    """A record that ran on because of a missing line end must not fill the disk."""
    rejected(tmp_path / "rejects.csv", "x" * 100_000)
    assert (tmp_path / "rejects.csv").stat().st_size < 2_100


@pytest.mark.parametrize("was_there", [False, True])
def test_only_the_operator_may_read_it(tmp_path, was_there):
    """The file gets mode 0600, even if a former file was open to others."""
    path = tmp_path / "rejects.csv"
    if was_there:
        path.write_text("file,line,reason,record\n")
        path.chmod(0o644)
    rejected(path, "x")
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_pipe_or_device_keeps_its_mode(tmp_path):
    """A pipe or a device such as /dev/null keeps its mode."""
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
    """The file holds the rejects of one load only."""
    for record in ("old", "new"):
        rejected(tmp_path / "rejects.csv", record)
    text = (tmp_path / "rejects.csv").read_text()
    assert ("new" in text, "old" in text) == (True, False)


def test_another_file_is_not_replaced(tmp_path):
    """A file that does not begin like a rejects file is refused and stays."""
    path = tmp_path / "vehicles.csv"
    path.write_text("registration,make\n")
    with pytest.raises(OperatorError, match="is not a rejects file"):
        rejected(path)
    assert path.read_text() == "registration,make\n"


def test_a_number_is_enforced_at_once(tmp_path):
    """A load above the number stops at once."""
    with pytest.raises(TooManyRejects, match="more than 1 record was rejected; nothing was"):
        rejected(tmp_path / "rejects.csv", "a", "b", "c", limit=RejectLimit.parse("1"))
    assert len((tmp_path / "rejects.csv").read_text().splitlines()) == 3


def test_a_percentage_is_of_all_records(tmp_path):
    """The percentage is of all loaded, rejected and skipped records."""
    rejects = rejected(tmp_path / "rejects.csv", "a", limit=RejectLimit.parse("50%"))
    rejects.require_few(loaded=1)
    with pytest.raises(TooManyRejects, match="1 of 1 record was rejected, more than 50%"):
        rejects.require_few(loaded=0)


@pytest.mark.parametrize(
    ("limit", "bad", "loaded", "told"),
    [
        ("1%", 3, 258, ["Correct them, or load the others with --max-rejects 2%."]),
        ("1%", 6, 94, ["and 1 more", "Correct them, or load the others with --max-rejects 6%."]),
        (
            "1%",
            7,
            1,
            [
                "and 2 more",
                "Most records were rejected: check that the file has the right format or mapping.",
            ],
        ),
        ("2", 3, 0, ["Correct them, or load the others with a higher --max-rejects."]),
        (
            "5",
            6,
            0,
            ["and 1 more so far", "Correct them, or load the others with a higher --max-rejects."],
        ),
    ],
)
def test_a_refusal_says_what_to_do(tmp_path, limit, bad, loaded, told):
    """The limit that would do is named if all records were read; so is how many reasons follow."""
    parsed = RejectLimit.parse(limit)
    with pytest.raises(TooManyRejects) as refusal:
        rejected(tmp_path / "rejects.csv", *"x" * bad, limit=parsed).require_few(loaded)
    lines = str(refusal.value).splitlines()
    assert lines[1 + min(bad, 5) :] == told
    assert refusal.value.sentence == lines[0]
    if told[-1].endswith("%."):
        enough = RejectLimit.parse(told[-1].rpartition(" ")[2].removesuffix("."))
        assert not enough.is_passed(bad, bad + loaded)


class TestBounds:
    @pytest.fixture(autouse=True)
    def _small(self, monkeypatch):
        monkeypatch.setattr(rejects_module, "FILE_BYTES_MAX", 100)

    def test_a_file_is_bounded(self, tmp_path):
        """Rejects beyond the limit are counted, and the message says how many are in the file."""
        path = tmp_path / "rejects.csv"
        rejects = rejected(path, *"abcdefghij")
        assert path.stat().st_size <= 100
        lines = path.read_text().splitlines()
        assert (rejects.rejected, rejects.written) == (10, len(lines) - 1)
        rejects.note_unwritten()
        assert rejects.notes == [f"of 10 rejects, only the first {rejects.written} are in the file"]
        told = f"10 of 10 records were rejected, more than 1%; .*; see {path} for the first 3\n"
        with pytest.raises(TooManyRejects, match=told):
            rejected(path, *"abcdefghij", limit=RejectLimit.parse("1%")).require_few(0)

    def test_a_dry_run_says_the_same(self, tmp_path):
        """A dry run counts what would be in the file."""
        counted = RejectsFile(ANY_NUMBER)
        for line, record in enumerate("abcdefghij", 2):
            counted.reject(line, "no registration", record)
        written = rejected(tmp_path / "rejects.csv", *"abcdefghij")
        for rejects in (counted, written):
            rejects.note_unwritten()
        assert (counted.notes, counted.written) == (written.notes, written.written)


def test_a_full_disk_does_not_stop_a_load(tmp_path, monkeypatch):
    """The file keeps whole lines that fit, and the note says why the rest is missing."""
    path = tmp_path / "rejects.csv"
    write = os.write

    def full_soon(descriptor: int, data: bytes) -> int:
        room = 80 - os.fstat(descriptor).st_size
        if room <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, data[:room])

    monkeypatch.setattr(os, "write", full_soon)
    rejects = rejected(path, *"abcdefghij")
    assert (rejects.rejected, rejects.written) == (10, 2)
    assert len(list(csv.reader(path.read_text().splitlines()))) == 3
    assert rejects.notes == [f"the rejects cannot be written to {path}: No space left on device"]


def test_a_default_file_that_cannot_be_made_is_noted(tmp_path):
    """A default file that cannot be made is a note; for `--rejects` it is an error."""
    (tmp_path / "file").write_text("")
    rejects = rejected(tmp_path / "file" / "rejects.csv", "a")
    assert "cannot be written" in rejects.notes[0]
    rejects = rejects_file(tmp_path / "file" / "rejects.csv", is_named=True)
    with pytest.raises(OSError, match="File exists"):
        rejects.reject(2, "no registration", "a")


def test_the_rejects_of_ten_loads_are_kept(tmp_path):
    """The files of the last ten loads by number stay, and so do other files."""
    (tmp_path / "rejects" / "sub-1.csv").mkdir(parents=True)
    for load in range(1, 16):
        rejected(rejects_path(tmp_path, "rdw" if load % 2 else "nyc", load), "a")
    (tmp_path / "rejects" / "mine.csv").write_text("x")
    keep_newest(tmp_path)
    names = {path.name for path in (tmp_path / "rejects").iterdir()}
    kept = {f"{'rdw' if load % 2 else 'nyc'}-{load}.csv" for load in range(6, 16)}
    assert names == kept | {"mine.csv", "sub-1.csv"}


def test_a_failed_load_forgets_old_rejects_too(world):
    """A failed load removes old rejects, too, so that they do not fill the disk."""
    path = world.directory / "bad.csv"
    path.write_text("registration\nA1\n-\n")
    for _ in range(12):
        with pytest.raises(TooManyRejects):
            world.load_files(path, max_rejects=RejectLimit.parse("1%"))
    names = sorted(each.name for each in (world.directory / "rejects").iterdir())
    assert names == sorted(f"native-{load}.csv" for load in range(3, 13))


def test_rejects_of_numbers_that_are_used_again_are_those_of_the_last_load(world):
    """After a restore, the numbers of loads begin again below those of the files that are there."""
    for load in (1, *range(90, 100)):
        path = rejects_path(world.directory, "native", load)
        rejected(path, "of an earlier load")
        os.utime(path, (load, load))
    good, bad = world.directory / "good.csv", world.directory / "bad.csv"
    good.write_text("registration\nA1\n")
    bad.write_text("registration\nA1\n-\n")
    assert world.load_files(good).rejects is None
    result = world.load_files(bad, max_rejects=ANY_NUMBER)
    assert result.rejects == str(rejects_path(world.directory, "native", 2))
    names = {each.name for each in (world.directory / "rejects").iterdir()}
    assert names == {f"native-{load}.csv" for load in (2, *range(91, 100))}
