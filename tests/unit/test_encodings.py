"""Encodings of CSV files: which can be named, how they are read, and what is noted otherwise."""

import codecs
import io
from typing import Any
from unittest.mock import Mock

import pytest

from app.registers.formats import FORMATS, FileFault, formats_of
from app.registers.formats.encodings import encoding_fault
from app.registers.formats.mapped import MappedCsv
from app.registers.formats.mapping_file import MappingFault, read_mapping
from app.registers.formats.suggesting.sample import Sample
from app.registers.formats.suggesting.suggestion import suggest
from app.registers.formats.suggesting.toml_text import mapping_text
from app.registers.reading import reader
from app.storage.tables import Kind
from tests.conftest import ON_SQLITE
from tests.rows import each_row
from tests.unit.register_files import Heard, Read, read

HEADER = "registration,make,model"
CZECH = f"{HEADER}\nAB12CDE,Škoda,žlutá\nAB13CDE,Tatra,Ě\n"
MAPPING = (
    'kind = "vehicles"\nregister = "fleet"\nencoding = "iso-8859-2"\n'
    '[columns]\nregistration = "značka"\nmake = "výrobce"\n'
)


def read_as(encoding: str, data: bytes) -> Read:
    """Read native vehicles in a named encoding."""
    heard = Heard()
    format_ = formats_of(encoding=encoding)["native-csv"]
    return Read(list(format_.rows(io.BytesIO(data), Kind.VEHICLES, heard)), heard)


def texts(found: Read) -> list[Any]:
    """Return make and model of all rows."""
    return [tuple(row)[1:3] for row in found.changes]


class TestNames:
    @each_row(
        "name", ["windows-1250", "CP1250", "ISO 8859-2", "latin2", "cp437", "koi8-r", "mac_latin2"]
    )
    def test_one_byte_encodings_that_begin_with_ascii(self, name):
        """Every usual spelling of such an encoding is a name of it."""
        assert encoding_fault(name) is None

    @pytest.mark.parametrize("name", ["utf-8", "UTF8", "utf-8-sig"])
    def test_utf_8(self, name):
        """UTF-8 can be named; then nothing else is read."""
        assert encoding_fault(name) is None

    @each_row(
        "name",
        [
            *("utf-16", "utf-32-le", "utf-7", "shift_jis", "gb18030", "big5", "cp037", "cp864"),
            *("unicode_escape", "raw_unicode_escape", "iso2022_kr", "punycode"),
        ],
    )
    def test_others_are_refused(self, name):
        """Bytes of separators and line ends would be parts of characters, or other characters."""
        assert "save files as UTF-8" in str(encoding_fault(name))

    @each_row(
        "name",
        [
            *("rot13", "zip", "hex", "base64", "idna", "undefined", "windows-1205"),
            *("", "\0", "é", "../latin_1", "x" * 100_000),
        ],
    )
    def test_what_is_no_encoding_of_text(self, name):
        """A name that Python knows for something else is as unknown as any other."""
        assert "no encoding of text" in str(encoding_fault(name))

    def test_a_name_of_other_letters_is_not_looked_up(self, monkeypatch):
        """Python 3.15 warns when it looks such a name up."""
        monkeypatch.setattr(codecs, "lookup", Mock(side_effect=DeprecationWarning))
        assert "no encoding of text" in str(encoding_fault("é"))

    def test_ascii(self):
        """ASCII has no letters to read."""
        assert "no letters" in str(encoding_fault("ascii"))

    def test_a_mapping_with_a_wrong_name(self, tmp_path):
        """The message names the file, the member and its value."""
        path = tmp_path / "map.toml"
        path.write_text(MAPPING.replace("iso-8859-2", "utf-16"))
        with pytest.raises(MappingFault, match=r"map\.toml: encoding: 'utf-16': neither UTF-8"):
            read_mapping(path)

    @ON_SQLITE
    def test_an_option_with_a_wrong_name(self, cli):
        """It is a usage error."""
        told = cli.misuse("import", "x.csv", "--encoding", "rot13")
        assert "--encoding: 'rot13': no encoding of text" in told


class TestReading:
    @each_row("encoding", ["iso-8859-2", "cp1250", "cp852", "mac_latin2", "utf-8"])
    @each_row("quote", ["", '"'])
    def test_the_letters_are_right(self, encoding, quote):
        """All records are read in the encoding, in blocks and one by one."""
        data = CZECH.replace("Škoda", f"{quote}Škoda{quote}").encode(encoding)
        assert texts(read_as(encoding, data)) == [("Škoda", "žlutá"), ("Tatra", "Ě")]

    def test_names_of_columns(self, tmp_path):
        """A mapping names the columns as they are in the encoding."""
        path = tmp_path / "map.toml"
        path.write_text(MAPPING, encoding="utf-8")
        text = "značka;výrobce\nAB12CDE;Škoda\n"
        found = read(text.encode("iso-8859-2"), MappedCsv(read_mapping(path)))
        assert tuple(found.changes[0])[1] == "Škoda"

    def test_the_option_goes_before_the_mapping(self, tmp_path):
        """`--encoding` is the latest word."""
        path = tmp_path / "map.toml"
        path.write_text(MAPPING, encoding="utf-8")
        format_ = MappedCsv(read_mapping(path), "cp1250")
        found = read("značka;výrobce\nAB12CDE;Škoda\n".encode("cp1250"), format_)
        assert tuple(found.changes[0])[1] == "Škoda"

    @pytest.mark.parametrize(("encoding", "bad"), [("utf-8", b"\x8a"), ("cp1250", b"\x81")])
    def test_bytes_that_the_encoding_does_not_have(self, encoding, bad):
        """They reject their row if it is stored, and do no harm in columns that are not."""
        data = f"{HEADER},note\nAB1,X,Y,".encode() + bad + b"\nAB2," + bad + b",Y,\nAB3,X,Y,\n"
        found = read_as(encoding, data)
        assert [row[0] for row in found.changes] == ["AB1", "AB3"]
        assert found.heard.rejects == [(3, "make: contains a character that cannot be decoded")]
        assert found.heard.records == ["AB2,?,Y,"]

    def test_a_header_with_such_bytes(self):
        """Its names can be shown, wherever they are."""
        found = read_as("utf-8", b"registration,mod\xe8le\nAB1,X\n")
        assert found.heard.names == ["registration", "mod?le"]


class TestContradictions:
    @each_row("encoding", ["utf-8", "utf-8-sig"])
    @each_row("cut", [1, 2])
    def test_utf_8_that_is_to_be_read_otherwise(self, encoding, cut):
        """Two letters would come of one, so the file is refused, also if its head ends in one."""
        padding = "x" * (64 * 1024 - len(f"{HEADER}\nAB1,ŠŠ,".encode(encoding)) - cut)
        data = f"{HEADER}\nAB1,ŠŠ,{padding}ŠŠ\n".encode(encoding)
        with pytest.raises(FileFault, match="The file is UTF-8, not cp1250; leave"):
            Sample(data, "cp1250")

    def test_letters_behind_much_ascii(self):
        """The head of a file is not all that is compared with its encoding."""
        many = "AB1,X,Y\n" * 40_000
        with pytest.raises(FileFault, match="The file is UTF-8, not cp1250; leave"):
            read_as("cp1250", f"{HEADER}\n{many}AB2,Škoda,Y\n".encode())

    @ON_SQLITE
    def test_a_load(self, cli):
        """A load is refused with the name of the file; ASCII is right in any encoding."""
        file = cli.file("a.csv", HEADER, "AB12CDE,Škoda,X")
        assert "a.csv: The file is UTF-8, not cp1250" in cli.refusal(
            "import", file, "--encoding", "cp1250"
        )
        plain = cli.file("b.csv", HEADER, "AB12CDE,Skoda,X")
        assert cli.json("import", plain, "--encoding", "cp1250")["loaded"] == 1

    @ON_SQLITE
    @pytest.mark.parametrize("options", [(), ("--format", "native-ndjson")])
    def test_json_has_no_other_encoding(self, cli, options):
        """The option is not ignored silently."""
        file = cli.file("a.ndjson", '{"registration": "AB12CDE"}')
        told = cli.refusal("import", file, "--encoding", "cp1250", *options)
        assert "The file is read as native-ndjson; --encoding is only for CSV." in told


@ON_SQLITE
class TestNotes:
    def test_values_that_are_not_utf_8(self, cli):
        """They are counted, with the form of the first one and its first letter beyond ASCII."""
        file = cli.directory / "a.csv"
        file.write_bytes(b"\n" + CZECH.encode("iso-8859-2"))
        (note,) = cli.json("import", file)["notes"]
        assert note.startswith(
            f"3 values were not UTF-8 and were read as Windows-1252 (such as in {file}, line 3, "
            "make: ©aaaa (9 stands for a digit, a for a letter)); if these letters are "
            "wrong, name the encoding of a CSV file with --encoding"
        )

    def test_values_of_other_records_and_columns(self, cli):
        """UTF-8, columns that are not read, and a file whose encoding is named have no note."""
        for name, data, options in (
            ("a.csv", CZECH.encode(), ()),
            ("b.csv", f"{HEADER},note\nAB12CDE,X,\xa0Y,".encode("cp1252") + b"\xe9\n", ()),
            ("c.csv", CZECH.encode("cp1250"), ("--encoding", "cp1250")),
        ):
            file = cli.directory / name
            file.write_bytes(data)
            assert cli.json("import", file, "--dry-run", *options)["notes"] in (
                [],
                [f"{file}: 1 unknown column is not read: 'note'"],
            )

    def test_pieces_are_counted_together(self, cli, monkeypatch):
        """The line is that of the file, and so are the letters of a named encoding."""
        monkeypatch.setattr(reader, "PIECE_BYTES", 1000)
        rows = [f"AB{n}CDE,Ford,X" for n in range(1000)]
        rows[600] = "AB600CDE,Škoda,X"
        rows[900] = "AB900CDE,Škoda,X"
        file = cli.directory / "a.csv"
        file.write_bytes("\n".join([HEADER, *rows, ""]).encode("iso-8859-2"))
        (note,) = cli.json("import", file, "--dry-run")["notes"]
        assert note.startswith("2 values were not UTF-8")
        assert "a.csv, line 602, make: ©aaaa (" in note
        cli.json("import", file, "--encoding", "iso-8859-2")
        (answer,) = cli.json("lookup", "AB900CDE")["plates"]
        assert answer["registers"][0]["vehicle"]["make"] == "Škoda"

    def test_json(self, cli):
        """Objects that are not UTF-8 are counted, too; a registration is only a form."""
        file = cli.directory / "a.ndjson"
        file.write_bytes(b'{"registration": "\xc4B12CDE"}\n{"registration": "AB13CDE"}\n')
        (note,) = cli.json("import", file)["notes"]
        assert note.startswith("1 value was not UTF-8 and was read as Windows-1252")
        assert f"(such as in {file}, line 1, registration: Äa99aaa (9" in note

    def test_the_example_shows_what_is_wrong(self, cli):
        """A character that is no letter tells more than one that may be right."""
        file = cli.directory / "a.csv"
        text = f"{HEADER}\nAB12CDE,Citroën,X\nAB13CDE,Štětí,X\nAB14CDE,\x85,X\n"
        file.write_bytes(text.encode("iso-8859-2"))
        (note,) = cli.json("import", file)["notes"]
        assert f"(such as in {file}, line 3, make: ©aaaa (9" in note


class TestSuggestions:
    def test_a_named_encoding_is_in_the_mapping(self, tmp_path):
        """The mapping reads what was suggested from."""
        data = "Kennzeichen;Marke\nAB12CDE;Škoda\n".encode("cp1250")
        found = suggest(Sample(data, "cp1250"))
        path = tmp_path / "map.toml"
        path.write_text(mapping_text(found, "f.csv", "fleet", "command"), encoding="utf-8")
        assert 'encoding = "cp1250"' in path.read_text(encoding="utf-8")
        assert tuple(read(data, MappedCsv(read_mapping(path))).changes[0])[1] == "Škoda"

    @pytest.mark.parametrize("encoding", ["cp1252", "utf-8"])
    def test_a_file_that_is_not_utf_8(self, encoding):
        """A comment asks for its encoding; UTF-8 needs none."""
        found = suggest(Sample("Kennzeichen;Marke\nAB12CDE;Citroën\n".encode(encoding)))
        text = mapping_text(found, "f.csv", "fleet", "command")
        assert ("--encoding windows-1250" in text) == (encoding != "utf-8")


def test_formats_without_an_encoding_stay_as_they_are():
    """The formats of one load do not change those of another."""
    formats_of(encoding="cp1250")
    assert {getattr(each, "encoding", None) for each in FORMATS.values()} == {None}


@ON_SQLITE
def test_a_drop_directory(cli, tmp_path, monkeypatch):
    """The option file of a register names the encoding of its files."""
    options, drop = tmp_path / "imports", tmp_path / "drop" / "fleet"
    monkeypatch.setenv("VERIFYD_DROP_WAIT", "done")
    options.mkdir()
    drop.mkdir(parents=True)
    (options / "fleet").write_text("--encoding iso-8859-2\n")
    (drop / "a.csv").write_bytes(CZECH.encode("iso-8859-2"))
    (drop / "a.csv.done").touch()
    cli.run("import", "--drop", drop.parent, "--options", options)
    assert cli.json("imports", "show", 1)["notes"] == []


@ON_SQLITE
@pytest.mark.parametrize("start", ["sep=;\n", '\ufeff"sep=;"\r\n', "sep=;\n\n"])
def test_a_declared_separator_holds_for_all_pieces(cli, monkeypatch, start):
    """Each piece of a large file is read with it, and lines are those of the file."""
    monkeypatch.setattr(reader, "PIECE_BYTES", 1000)
    lines = [f"AB{n:03}CDE;Ford, blue, old" for n in range(300)]
    lines[250] = "?;Ford"
    file = cli.directory / "a.csv"
    file.write_bytes((start + "registration;make\n" + "\n".join(lines) + "\n").encode())
    result = cli.json("import", file, "--max-rejects", 1)
    assert (result["rows"], result["loaded"]) == (300, 299)
    assert [each["line"] for each in result["reasons"]] == [252 + start.count("\n")]
