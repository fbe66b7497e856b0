"""Truncated files, their last records and line ends."""

import gzip
import io
import zipfile
from pathlib import Path
from typing import Any

import pytest

from app.errors import OperatorError
from app.registers.history import list_loads
from app.registers.reading import reader
from app.registers.undo import roll_back
from app.storage.registers import Register
from app.storage.tables import Kind
from tests.conftest import ON_SQLITE
from tests.rows import each_row

HEADER = "registration,make,model\n"
ROWS = "AB12CDE,FORD,FOCUS\nAB13CDE,SEAT,IBIZA\n"
WHOLE = HEADER + ROWS
DVSA = '{"registration": "AB12CDE", "motTests": []}\n'
RDW = '{"kenteken": "AB12CD", "merk": "FORD", "wam_verzekerd": "Ja"}\n'
# Where a register is stored does not affect how files are read.
pytestmark = ON_SQLITE
INCOMPLETE = "(is incomplete|has .* fields?.*,) and has no line end, so the file is cut off"


@pytest.fixture
def load(world):
    """`load(CONTENT...)` loads files with these contents at once, named by position."""

    def run(*contents: str | bytes, **options: Any):
        paths = []
        for number, content in enumerate(contents):
            path: Path = world.directory / f"{number}.csv"
            path.write_bytes(content.encode() if isinstance(content, str) else content)
            paths.append(path)
        return world.load_files(*paths, **options)

    return run


def zipped(*contents: str) -> bytes:
    """Return a zip of CSV files with these contents."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for number, content in enumerate(contents):
            archive.writestr(f"{number}.csv", content)
    return target.getvalue()


INCOMPLETE_ENDS = {
    "csv": HEADER + "AB12CDE,FORD,FOCUS\nAB13CDE,SEAT",
    "first field": HEADER + "AB12CDE,FORD,FOCUS\nAB1",
    "only record": HEADER + "AB12CDE,FO",
    "crlf": "registration,make,model\r\nAB12CDE,FORD,FOCUS\r\nAB13CDE,SEAT",
    "cr": "registration,make,model\rAB12CDE,FORD,FOCUS\rAB13CDE,SEAT",
    "tsv": "registration\tmake\tmodel\nAB12CDE\tFORD\tFOCUS\nAB13CDE\tSEAT",
    "quoted": HEADER + 'AB12CDE,FORD,FOCUS\n"AB13CDE","SEAT\nor so"',
    "open quote": HEADER + 'AB12CDE,FORD,FOCUS\nAB13CDE,"SEAT',
    "ndjson": '{"registration": "AB12CDE"}\n{"registration": "AB13C',
    "ndjson of one": '{"registration": "AB12CDE"}\n{',
    "rdw": RDW + RDW[:20],
    "dvsa": DVSA + DVSA[:-3],
    "array": f"[{RDW.strip()},{RDW.strip()}",
    "long line": HEADER + ROWS + "A" * 1_100_000,
    "long line of json": '{"registration": "AB12CDE"}\n{"registration": "' + "A" * 1_100_000,
}


@each_row("content", INCOMPLETE_ENDS.values(), ids=INCOMPLETE_ENDS)
@each_row("dry_run", [False, True])
def test_an_incomplete_last_record_refuses_the_load(world, load, content, dry_run):
    """An incomplete last record refuses the load in any layout, whatever rejects are allowed."""
    with pytest.raises(OperatorError, match=r"cut off|never closed"):
        load(content, dry_run=dry_run, allow_unterminated=True)
    assert Register.select().count(world.engine) == 0


@pytest.mark.parametrize(
    "content",
    [
        WHOLE + "AB14CDE,KIA\n",
        WHOLE + "AB14CDE,KIA,RIO,RED",
        WHOLE + '"AB14CDE","KIA"\n',
        '{"registration": "AB12CDE"}\n{"registration": \n',
        '{"registration": "AB12CDE"}\n12',
        WHOLE + "A" * 1_100_000 + "\n",
    ],
    ids=["short", "long", "quoted", "json", "number", "long line"],
)
def test_another_broken_record_is_a_reject(load, content):
    """A broken record that has a line end or too many fields was not truncated."""
    assert load(content).rejected == 1


@pytest.mark.parametrize(
    "pack", [gzip.compress, lambda text: zipped(WHOLE, text.decode())], ids=["gzip", "zip"]
)
def test_compressed_files_are_checked_too(load, pack):
    """A truncated file can be compressed into a complete container, so its content is checked."""
    with pytest.raises(OperatorError, match=INCOMPLETE):
        load(pack((WHOLE + "AB14").encode()))


def test_every_file_of_a_load_is_looked_at(load):
    """A file that others follow is checked, too."""
    with pytest.raises(OperatorError, match=r"0\.csv: The last record, in line 4, " + INCOMPLETE):
        load(WHOLE + "AB14", WHOLE)


def test_an_empty_file_has_no_last_record(load):
    """One that is allowed to be empty is loaded, also after a file whose last line has an end."""
    load('{"registration": "AB12CDE"}\n')
    told = {"format": "native-ndjson", "kind": Kind.VEHICLES, "empty_ok": True}
    result = load("", **told)
    assert (result.loaded, result.notes) == (0, [])


def test_a_header_that_a_carriage_return_ends_is_read_once(load, monkeypatch):
    """The row behind it is in no other piece of a large file, so that a later row of it counts."""
    monkeypatch.setattr(reader, "PIECE_BYTES", 64)
    rows = "".join(f"AB{n}CDE,FORD\n" for n in range(10, 60))
    result = load(f"registration,make\rAB10CDE,SEAT\n{rows}")
    assert (result.loaded, result.held) == (51, 50)


@pytest.mark.system_long
def test_the_last_piece_of_a_large_file_counts(load, monkeypatch):
    """Child processes read whole lines; the rest of the file is checked as its end."""
    monkeypatch.setattr(reader, "PIECE_BYTES", 64)
    rows = "".join(f"AB{n}CDE,FORD,FOCUS\n" for n in range(10, 60))
    assert load(HEADER + rows).loaded == 50
    with pytest.raises(OperatorError, match="of line 52 is never closed"):
        load(HEADER + rows + 'AB60CDE,"FORD')
    with pytest.raises(OperatorError, match=r"line 52, " + INCOMPLETE):
        load(HEADER + rows + "AB60CDE,FORD")


class TestNoLineEnd:
    """A complete last record without a line end."""

    def test_it_is_noted_at_first(self, world, load):
        """It is a note at first: perhaps this source always ends its files like that."""
        assert load(WHOLE[:-1]).notes == [
            f"{world.directory}/0.csv: the last record looks complete, but has no line end; "
            "some programs leave it out"
        ]
        assert list_loads(world.engine)[0].is_terminated is False
        assert load(WHOLE[:-1]).held == 2

    @pytest.mark.parametrize("dry_run", [False, True])
    @pytest.mark.parametrize("mode", ["merge", "replace"])
    def test_it_is_refused_if_the_previous_file_had_one(self, load, mode, dry_run):
        """If the previous file had one, this file was truncated, perhaps in its last field."""
        assert load(WHOLE, mode=mode).notes == []
        for _ in range(2):  # A refused load does not count as the previous one.
            with pytest.raises(OperatorError, match=r"0\.csv: The last .* --allow-unterminated"):
                load(WHOLE[:-1], mode=mode, dry_run=dry_run)

    def test_the_operator_can_allow_it(self, world, load):
        """If the operator allows it, it is a note until a file has a line end again."""
        load(WHOLE)
        assert load(WHOLE[:-1], allow_unterminated=True).held == 2
        assert list_loads(world.engine)[0].accepted == '["unterminated"]'
        note, _same = load(WHOLE[:-1]).notes
        assert "the last record looks complete, but has no line end" in note
        load(WHOLE)
        with pytest.raises(OperatorError, match="--allow-unterminated"):
            load(WHOLE[:-1])

    @pytest.mark.parametrize(
        "content", [WHOLE[:-1], gzip.compress(WHOLE[:-1].encode())], ids=["plain", "gzip"]
    )
    def test_every_file_counts(self, world, load, content):
        """A load has line ends only if each of its files has."""
        load(WHOLE, content)
        assert list_loads(world.engine)[0].is_terminated is False
        load(zipped(WHOLE, WHOLE))
        assert list_loads(world.engine)[0].is_terminated is True
        for contents in ([WHOLE, content], [content, WHOLE], [zipped(WHOLE[:-1], WHOLE)]):
            with pytest.raises(OperatorError, match="--allow-unterminated"):
                load(*contents)

    @pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
    def test_any_line_end_is_one(self, load, end):
        """LF, CRLF and CR all count as line ends."""
        load(WHOLE.replace("\n", end))
        assert not [note for note in load(WHOLE).notes if "line end" in note]

    def test_other_registers_kinds_and_formats_are_apart(self, load):
        """Each register, kind and format is compared with its own previous file."""
        load(WHOLE)
        load(WHOLE[:-1], register="other")
        load("registration,reference,amount\nAB12CDE,F-1,5")
        load('{"registration": "AB12CDE"}')

    def test_an_array_needs_no_line_end(self, world, load):
        """An array needs no line end, because it ends with its bracket."""
        load(RDW)
        assert load(f"[{RDW.strip()}]").notes == []
        assert list_loads(world.engine)[0].is_terminated is None
        with pytest.raises(OperatorError, match="--allow-unterminated"):
            load(RDW.strip())

    def test_a_load_that_was_rolled_back_does_not_count(self, world, load):
        """The previous file is the one that the register's rows come from."""
        load(WHOLE, mode="replace")
        load(WHOLE[:-1], mode="replace", allow_unterminated=True)
        roll_back(world.engine, "native", None)
        with pytest.raises(OperatorError, match="--allow-unterminated"):
            load(WHOLE[:-1], mode="replace")


def test_the_mid_has_a_trailer(world, load):
    """The MID's trailer counts the records, so the file needs no line end after it."""
    header = "H0001SUPPXXX 00000120260101XXXX#"
    trailer = "T000001000000002#"
    assert load(f"{header}\n{trailer}\n", empty_ok=True).format == "mid"
    assert len(load(f"{header}\n{trailer}", empty_ok=True).notes) == 1
    assert list_loads(world.engine)[0].is_terminated is None
    for cut in (trailer[:-1], trailer[:5], ""):
        with pytest.raises(OperatorError, match=r"malformed|cut off"):
            load(f"{header}\n{cut}", empty_ok=True)


ENDED = {
    "csv": (WHOLE, 2),
    "crlf": (WHOLE.replace("\n", "\r\n"), 2),
    "ndjson": ('{"registration": "AB12CDE"}\n', 1),
    "rdw": (f"[{RDW.strip()}]", 1),
    "mid": ("H0001SUPPXXX 00000120260101XXXX#\r\nT000001000000002#\r\n", 0),
}


@each_row("ended", ENDED.values(), ids=ENDED)
@each_row("end", ["\x1a", "\x1a\r\n", "\x1a\n", "\x1a" * 128, "\x1a" + "\0" * 127])
def test_a_final_end_of_file_mark_is_no_record(world, load, ended, end):
    """The ^Z that DOS and COBOL write after the last line is left out, and hides no line end."""
    content, rows = ended
    for packed in ((content + end).encode(), gzip.compress((content + end).encode())):
        result = load(packed, empty_ok=True, dry_run=True)
        assert (result.loaded, result.rejected) == (rows, 0)
        assert not any("line end" in note for note in result.notes)


def test_the_mark_does_not_complete_a_record(load):
    """A last record that is incomplete stays so, also before a ^Z."""
    with pytest.raises(OperatorError, match=INCOMPLETE):
        load(WHOLE + "AB14\x1a")


@each_row("content", [WHOLE, WHOLE + "AB14", '{"registration": "AB12CDE"}\n'])
def test_padding_is_named(load, content):
    """Without it the file could be right, so "cut off" would not tell what to do."""
    with pytest.raises(OperatorError, match=r"ends in NUL bytes: .* without padding"):
        load(content + "\0" * 100)


def test_a_mark_before_other_rows_is_a_value(load):
    """A ^Z that rows follow is part of its record, which is rejected."""
    assert load(WHOLE + "\x1aAB14CDE,KIA,RIO\n").rejected == 1
