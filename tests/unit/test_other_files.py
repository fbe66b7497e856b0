"""Files that are no CSV or JSON, and CSV that is not separated or escaped as CSV is."""

import zipfile

import pytest

from app.registers.formats import FileFault, recognise
from app.registers.reading import reader
from tests.conftest import ON_SQLITE, World
from tests.rows import each_row

STARTS = [
    (b'<?xml version="1.0"?>\n<Workbook/>', "The file is XML; save it as CSV."),
    (b"\xef\xbb\xbf\n <?XML?>", "The file is XML;"),
    (
        b"<!DOCTYPE html>\n<table>",
        "The file is HTML, also if its name ends in .xls; save it as CSV.",
    ),
    (b"<table border=1><tr><td>registration</td></tr></table>\n", "The file is HTML"),
    (b"PAR1\x15\x04", "The file is Parquet; write it as CSV."),
    (b"ARROW1\0\0\0", "The file is Arrow or Feather;"),
    (b"SQLite format 3\0", "The file is an SQLite database;"),
    (b"%PDF-1.7\n", "The file is a PDF;"),
]
MAPPING = 'kind = "vehicles"\nregister = "own"\n[columns]\nregistration = "registration"'


@ON_SQLITE
class TestImport:
    @each_row(("content", "told"), STARTS)
    def test_what_the_file_is(self, cli, content, told) -> None:
        """The refusal says what the file is, with a mapping, too; so does the history."""
        file, mapping = cli.directory / "file.csv", cli.file("own.toml", MAPPING)
        file.write_bytes(content)
        for words in ((), ("--map", mapping), ("--format", "native-csv", "--kind", "vehicles")):
            assert f"{file}: {told}" in cli.refusal("import", file, *words)
        assert told in cli.json("imports", "list")[0]["reason"]

    @each_row(
        ("member", "told"),
        [
            ("xl/workbook.xml", "an Excel workbook"),
            ("xl/workbook.bin", "an Excel workbook"),
            ("content.xml", "an OpenDocument spreadsheet, such as LibreOffice's .ods"),
            ("Index/Document.iwa", "a spreadsheet of Apple's Numbers"),
        ],
    )
    def test_workbooks(self, cli, member, told) -> None:
        """A workbook is a zip without data."""
        file = cli.directory / "file.ods"
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("mimetype", "x")
            archive.writestr(member, "<x/>")
        assert f"The file is {told}; save it as CSV." in cli.refusal("import", file)

    def test_a_column_that_looks_like_markup(self, cli) -> None:
        """A mapping can read a column whose name begins with a sign of markup."""
        file, mapping = cli.directory / "file.csv", cli.directory / "own.toml"
        mapping.write_text(MAPPING.replace('"registration"', '"<Reg>"'))
        file.write_text("<Reg>,make\nA1,FORD\n")
        assert cli.json("import", file, "--map", mapping)["loaded"] == 1


def test_bars() -> None:
    """Bars are named, with what the mapping needs."""
    with pytest.raises(FileFault) as caught:
        recognise(b"registration|make\nA1|FORD\n")
    assert "separated by '|', which only a mapping file reads: write delimiter = \"|\"" in str(
        caught.value
    )


@ON_SQLITE
@pytest.mark.parametrize("has_pieces", [False, True])
def test_escapes(world: World, monkeypatch, has_pieces) -> None:
    r"""Values with `\t` or `\n` in TSV are stored as written; one note of a file says so."""
    if has_pieces:
        monkeypatch.setattr(reader, "PIECE_BYTES", 64)
        monkeypatch.setattr(reader, "CORES", 2)
    file = world.directory / "file.tsv"
    rows = "".join(f"A{n}\tFORD\\tKA\t\\N\n" for n in range(30))
    file.write_text(f"registration\tmodel\tcolor\n{rows}")
    notes = world.load_files(file).notes
    assert sum("export CSV with quotes" in note for note in notes) == 1
    file.write_text("registration\tmodel\tcolor\n" + rows.replace("\\t", "\\ "))
    assert not any("quotes" in note for note in world.load_files(file).notes)
    file.write_text("registration,model\nA1,FORD\\tKA\n")
    assert not any("quotes" in note for note in world.load_files(file).notes)
