"""`verifyd lookup --csv`: copies the file and adds the answer to each line."""

import csv
import errno
import io
import os
import re
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.cli import lookup_csv, output
from app.cli.plate_file import PlateFile
from app.registers.load import load
from app.registers.request import LoadRequest
from app.storage.engine import close_quietly, open_engine
from app.text import text_cell
from app.vehicles.answer_cells import COLUMNS, PERIOD_COLUMNS
from tests.conftest import ON_SQLITE
from tests.rows import each_row

DAY = "2025-07-01"
ROWS = [
    {"registration": "AB12CDE", "make": "FORD", "model": "FOCUS, 1.6", "year": 2012},
    {"registration": "EV1L", "make": '=HYPERLINK("x")', "model": "+1", "color": "@a", "year": 2001},
    {"registration": "CI1", "make": "Citroën", "model": "Łódź"},
]
POLICY = {"registration": "AB12CDE", "number": "-7", "validFrom": DAY, "validTo": "2026-06-30"}
OURS = [f"verifyd_{column}" for column in COLUMNS]


@pytest.fixture
def cli(cli, store):
    """The command line on a database with a few vehicles and a policy."""
    for rows in (ROWS, [POLICY]):
        added(cli, store, rows)
    return cli


def added(cli, store, rows):
    """Load more rows."""
    engine, path = open_engine(store.url), cli.directory / "more.ndjson"
    path.write_bytes(msgspec.json.Encoder().encode_lines(rows))
    load(engine, cli.directory, LoadRequest(files=[str(path)]), lambda _: None)
    close_quietly(engine)
    path.unlink()


@pytest.fixture
def answered(cli):
    """Answer a file of these bytes; return the output."""

    def answer(data: bytes, *words: str) -> bytes:
        given, written = cli.directory / "given.csv", cli.directory / "written.csv"
        given.write_bytes(data)
        ended = cli.run("lookup", "--csv", given, "--as-of", DAY, "--output", written, *words)
        assert (ended.status, ended.stderr) == (0, "")
        return written.read_bytes()

    return answer


@pytest.fixture
def refused(cli):
    """Look up a file that must be refused; return the reason."""

    def refuse(data: bytes, *words: str) -> str:
        given, written = cli.directory / "given.csv", cli.directory / "written.csv"
        given.write_bytes(data)
        before = sorted(cli.directory.iterdir())
        reason = cli.refusal("lookup", "--csv", given, "--output", written, *words)
        assert sorted(cli.directory.iterdir()) == before
        return reason

    return refuse


def rows_of(data: bytes, delimiter=",", encoding="utf-8"):
    """Return the lines as dictionaries of the added columns."""
    text = io.StringIO(data.decode(encoding), newline="")
    header, *lines = csv.reader(text, delimiter=delimiter, strict=True)
    place = header.index(OURS[0])
    return [dict(zip(COLUMNS, line[place:], strict=True)) for line in lines]


class TestAnswers:
    def test_a_line_has_what_the_api_answers(self, answered):
        """A line has insurance, compliance, reasons and vehicle; unknown cells are empty."""
        (row,) = rows_of(answered(b"registration\nab12 cde\n"))
        assert row == dict.fromkeys(COLUMNS, "") | {
            "result": "found",
            "registration": "AB12CDE",
            "asOf": DAY,
            "insured": "true",
            "insuranceReason": "valid",
            "policyNumber": "'-7",
            "policyValidFrom": DAY,
            "policyValidTo": "2026-06-30",
            "compliant": "false",
            "motValid": "false",
            "motReason": "unknown",
            "roadTaxPaid": "false",
            "roadTaxReason": "unknown",
            "noOutstandingFines": "true",
            "make": "FORD",
            "model": "FOCUS, 1.6",
            "year": "2012",
            "lastUpdated": row["lastUpdated"],
            "insuredUntil": "2026-06-30",
            "tooManyPolicies": "false",
            "finesOutstanding": "0",
        }

    def test_a_known_cancellation_is_told(self, cli, store, answered):
        """Beside the last day of the policy, which it ends before."""
        cancelled = POLICY | {"registration": "CI1", "cancelledOn": "2025-12-05"}
        added(cli, store, [cancelled])
        (row,) = rows_of(answered(b"plate\nCI1\n"))
        names = ("policyValidTo", "policyCancelledOn", "insuredUntil")
        assert [row[name] for name in names] == ["2026-06-30", "2025-12-05", "2025-12-04"]

    def test_that_no_end_is_known_is_a_word(self, cli, store, answered):
        """A date that is absent because the vehicle fails is an empty cell."""
        insured = {"insured": True}
        added(
            cli,
            store,
            [
                insured | {"registration": "FLAG1", "motExempt": True, "taxStatus": "exempt"},
                insured | {"registration": "MOT1", "motExpiry": DAY, "taxStatus": "taxed"},
            ],
        )
        flag, mot, neither = rows_of(answered(b"plate\nFLAG1\nMOT1\nCI1\n"))
        names = ("insuredUntil", "compliantUntil", "motExempt", "taxStatus")
        assert [[row[name] for name in names] for row in (flag, mot, neither)] == [
            ["none", "none", "true", "exempt"],
            ["none", DAY, "", "taxed"],
            ["", "", "", ""],
        ]

    @ON_SQLITE
    def test_a_period_adds_columns(self, cli, store):
        """They come last: whether all its days pass, else the first one that fails, and why."""
        many = [POLICY | {"registration": "MANY1", "number": f"{n:03}"} for n in range(101)]
        for rows in (many, [POLICY | {"registration": "MOT1"}]):
            added(cli, store, rows)
        paid = {"registration": "MOT1", "taxStatus": "taxed", "motExpiry": "2026-06-28"}
        added(cli, store, [paid])
        given, written = cli.directory / "given.csv", cli.directory / "written.csv"
        given.write_bytes(b"plate;x\nMOT1;\nMANY1;\nZZ9;\nCI1;\n;\n")
        words = ("--from", "2026-06-28", "--to", "2026-07-02", "--output", written)
        summary = cli.json("lookup", "--csv", given, *words)
        days = [summary[name] for name in ("firstDay", "lastDay")]
        assert days == ["2026-06-28", "2026-07-02"]
        header, *lines = csv.reader(written.read_text().splitlines(), delimiter=";")
        assert header[2:] == OURS + [f"verifyd_{name}" for name in PERIOD_COLUMNS]
        expired = "insuranceValid=expired"
        assert [line[-len(PERIOD_COLUMNS) :] for line in lines] == [
            [*days, "false", "2026-07-01", expired, "false", "2026-06-29", "motValid=expired"],
            [*days, *[""] * 6],
            [""] * 8,
            [
                *(*days, "false", days[0], "insuranceValid=unknown", "false", days[0]),
                "insuranceValid=unknown motValid=unknown roadTaxPaid=unknown",
            ],
            [""] * 8,
        ]
        assert [line[header.index("verifyd_tooManyPolicies")] for line in lines] == [
            *("false", "true", "", "false", "")
        ]

    def test_lines_without_an_answer_say_why(self, answered):
        """Lines with unknown or invalid plates, or that cannot be read, stay with a reason."""
        data = b'id,plate\n1,ZZ9\n2,!!\n3,\n\n4\n5,AB12CDE,x\n6,"AB12CDE"x\n7,AB12CDE'
        written = answered(data)
        results = [line.split(b"verifyd_")[0] for line in written.splitlines()]
        assert [line.startswith(old) for line, old in zip(results, data.splitlines(), strict=True)]
        assert [
            row["result"]
            for row in rows_of(
                written.replace(b'"AB12CDE"x', b"AB12CDEx").replace(b"5,AB12CDE,x", b"5,AB12CDE")
            )
        ] == [
            "vehicle_not_found",
            "invalid_registration",
            "invalid_registration",
            "blank_line",
            "ragged_line",
            "ragged_line",
            "malformed_line",
            "found",
        ]

    def test_many_batches_are_one_file(self, answered, monkeypatch):
        """The output does not show where a batch ends."""
        lines = b"".join(b"%d,AB12CDE\n" % n for n in range(25))
        whole = answered(b"id,plate\n" + lines)
        monkeypatch.setattr(lookup_csv, "BATCH_LINES", 10)
        assert answered(b"id,plate\n" + lines) == whole
        monkeypatch.setattr(lookup_csv, "_BATCH_BYTES", 1)
        assert answered(b"id,plate\n" + lines) == whole

    def test_the_summary_counts_them(self, cli):
        """If the lines go to a file, the summary goes to stdout, also as JSON."""
        file = cli.file("a.csv", "plate", "AB12CDE", "ZZ9", "!!", "", "a,b")
        summary = cli.json("lookup", "--csv", file, "--output", cli.directory / "b.csv")
        assert summary | {"asOf": ""} == {
            "asOf": "",
            "lines": 5,
            "found": 1,
            "notFound": 1,
            "invalid": 1,
            "notRead": 2,
            "loadedMeanwhile": [],
        }

    @pytest.mark.parametrize("words", [(), ("--output", "-")])
    def test_lines_go_to_stdout_by_default(self, cli, words):
        """By default the lines go to stdout and the summary to stderr."""
        ended = cli.run("lookup", "--csv", cli.file("a.csv", "plate", "AB12CDE"), *words)
        assert ended.status == 0
        assert ended.stdout.splitlines()[1].startswith("AB12CDE,found,AB12CDE,")
        assert re.search(r"1 line answered for [-\d]{10}: 1 found, 0 not found", ended.stderr)

    def test_standard_input_is_read_like_a_file(self, cli, monkeypatch):
        """`-` reads standard input like any other file."""
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"plate\nAB12CDE\n")))
        ended = cli.run("lookup", "--csv", "-")
        assert ended.stdout.splitlines()[1].startswith("AB12CDE,found,")


def ends(line: bytes) -> bytes:
    """The end of a line."""
    return line[len(line.rstrip(b"\r\n")) :]


class TestBytes:
    @each_row("end", [b"\n", b"\r\n", b"\r"])
    @each_row("delimiter", [b",", b";", b"\t", b"|"])
    @each_row("last", [True, False])
    @ON_SQLITE
    def test_the_file_stays_as_it_is(self, answered, end, delimiter, last):
        """Each output line begins with the original bytes, and keeps its line end or has none."""
        lines = [
            b"plate%sx" % delimiter,
            b'"AB12CDE"%s"a ""b"""' % delimiter,
            b" ZZ9 %s" % delimiter,
        ]
        data = end.join(lines) + (end if last else b"")
        written = answered(data).splitlines(keepends=True)
        assert [line[: len(old)] for line, old in zip(written, lines, strict=True)] == lines
        assert [ends(line) for line in written] == [end, end, end if last else b""]
        rows = rows_of(b"".join(written), delimiter.decode())
        assert [row["result"] for row in rows] == ["found", "vehicle_not_found"]

    @ON_SQLITE
    def test_a_quoted_line_break_stays(self, answered):
        """The cells follow the last line of a quoted record, before its line end."""
        written = answered(b'note,plate\r\n"two\nlines;",AB12CDE\r\n"a\r\n\r\nb",ZZ9\n')
        assert b'\r\n"two\nlines;",AB12CDE,found,' in written
        assert b'\r\n"a\r\n\r\nb",ZZ9,vehicle_not_found,' in written
        assert [row["result"] for row in rows_of(written)] == ["found", "vehicle_not_found"]

    @ON_SQLITE
    @pytest.mark.parametrize("start", [b"sep=|\r\n", b'\xef\xbb\xbf"sep=|"\n\n'])
    def test_the_line_that_declares_the_delimiter_stays_in_front(self, answered, start):
        """Excel's first line names the delimiter, and is no header."""
        data = answered(start + b"a,b;c|plate\nx|CI1\n")
        assert data.startswith(start + b"a,b;c|plate|verifyd_result|")
        assert b"\nx|CI1|found|CI1|" in data

    def test_a_byte_order_mark_and_blank_lines_stay_in_front(self, answered):
        """What precedes the header is copied unchanged."""
        assert answered(b"\xef\xbb\xbf\n\nplate\nAB12CDE\n").startswith(
            b"\xef\xbb\xbf\n\nplate,verifyd_result,"
        )

    @ON_SQLITE
    def test_an_end_of_file_mark_is_no_line(self, answered):
        """The ^Z that DOS writes after the last line is left out, and is no plate."""
        for end in (b"\r\n\x1a", b"\r\n\x1a\r\n", b"\x1a"):
            rows = rows_of(answered(b"plate\r\nAB12CDE" + end))
            assert [row["result"] for row in rows] == ["found"]

    @pytest.mark.parametrize("name", ["Citroën", "Å"])
    @pytest.mark.parametrize("encoding", ["cp1252", "latin-1", "utf-8"])
    @ON_SQLITE
    def test_cells_are_encoded_as_the_file_is(self, answered, encoding, name):
        """A letter that the encoding lacks becomes a question mark."""
        data = f"plate,note\nCI1,x\nCI1,{name}\n".encode(encoding)
        rows = rows_of(answered(data), encoding=encoding)
        model = "Łódź" if encoding == "utf-8" else "?ód?"
        assert [(row["make"], row["model"]) for row in rows] == [("Citroën", model)] * 2

    @ON_SQLITE
    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        st.lists(
            st.tuples(
                st.lists(
                    st.sampled_from(
                        ["", "AB12CDE", '"', '""', '"a\nb"', "ü", "x,y", ";", "\r", " "]
                    ),
                    max_size=4,
                ),
                st.sampled_from(["\n", "\r\n", "\r"]),
            ),
            max_size=6,
        ),
        st.sampled_from(["utf-8", "cp1252"]),
    )
    def test_no_byte_is_lost(self, cli, lines, encoding):
        """For any file, the output without the added cells equals the input."""
        text = "plate,x\n" + "".join(",".join(fields) + end for fields, end in lines)
        given, written = cli.directory / "given.csv", cli.directory / "written.csv"
        given.write_bytes(text.encode(encoding))
        ended = cli.run("lookup", "--csv", given, "--output", written)
        if ended.status:
            assert "is never closed" in ended.stderr
            return
        with open(given, "rb") as stream:
            plates = PlateFile(stream, "", None)
            read = plates.start + plates.header + plates.header_end
            left, records = written.read_bytes(), list(plates)
        assert read + b"".join(line.content + line.end for line in records) == given.read_bytes()
        left = left[left.index(b"\n") + 1 :]
        for line in records:
            assert left.startswith(line.content + b"," * line.missing + b",")
            left = left[len(line.content) :]
            cells = left[line.missing :].split(line.end or b"\0")[0]
            nothing, *ours = next(csv.reader([cells.decode(encoding)], strict=True))
            assert (nothing, len(ours)) == ("", len(COLUMNS))
            left = left[line.missing + len(cells) + len(line.end) :]
        assert left == b""


@ON_SQLITE
def test_a_file_that_only_its_owner_can_read_is_sent_through_stdin(cli, monkeypatch):
    """The service's user cannot read below /root: the message suggests standard input."""
    given = cli.directory / "given.csv"
    given.write_bytes(b"plate\nAB12CDE\n")

    def closed(*_args, **_kwargs):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(output, "open", closed, raising=False)
    assert cli.refusal("lookup", "--csv", given).strip() == (
        f"{given} cannot be read: Permission denied; "
        f"send it through standard input: lookup --csv - < {given}"
    )


class TestFormulas:
    @each_row("text", ["=1", "+1", "-1", "@a", "\t=1", " =1", "\r=1", "\uff1d1"])
    def test_a_text_that_would_run_is_made_a_text(self, text):
        """A cell that a spreadsheet would run gets an apostrophe, and quotes if needed."""
        assert text_cell(",")(text).strip('"').startswith("'")

    @each_row(
        ("text", "cell"),
        [("A,B", '"A,B"'), ('5" tyre', '"5"" tyre"'), ('="x,y"', '"\'=""x,y"""'), ("A-1", "A-1")],
    )
    def test_cells_are_quoted_where_needed(self, text, cell):
        """Cells are quoted only where needed."""
        assert text_cell(",")(text) == cell

    @each_row("file_delimiter", [",", ";", "\t", "|"])
    @each_row("reader_delimiter", [",", ";", "\t", "|"])
    def test_another_separator_starts_no_formula(self, file_delimiter, reader_delimiter):
        """A spreadsheet with another list separator splits cells, and must find no formula."""
        inner = ("=1", " =1", '"=1', '"" @a', "+1", "-1", "\uff1d1", ";=1", ",=1", "\t=1", "|=1")
        for start in (f"x{reader_delimiter}", "x\r", "x\n", f'"{reader_delimiter}'):
            for text in (start + each for each in inner):
                line = file_delimiter.join(["AB12CDE", text_cell(file_delimiter)(text), "FORD"])
                read = csv.reader(io.StringIO(line, newline=""), delimiter=reader_delimiter)
                first = [cell.lstrip(' "')[:1] for row in read for cell in row]
                assert not {"=", "+", "-", "@", "\uff1d"} & set(first)

    def test_a_separator_alone_changes_nothing(self):
        """An apostrophe is added only to what a spreadsheet would run."""
        for text in ("A;B", "A; B-C", "x|y=1", "a;'=1"):
            assert text_cell(",")(text) == text

    @ON_SQLITE
    def test_the_files_own_cells_stay(self, answered):
        """The file's own cells stay unchanged; values from the registers are made harmless."""
        written = answered(b"plate,note\nEV1L,=1+1\n")
        assert b"\nEV1L,=1+1,found," in written
        (row,) = rows_of(written)
        assert (row["make"], row["model"], row["color"]) == ('\'=HYPERLINK("x")', "'+1", "'@a")


@ON_SQLITE
class TestColumn:
    @each_row(
        "name",
        [
            "Registration",
            "Reg. No",
            "VRM",
            "vrn",
            "Kenteken",
            "KFZ-Kennzeichen",
            "licence_plate",
            "Matrícula",
        ],
    )
    def test_it_is_found_by_its_name(self, answered, name):
        """Case, and other characters between the words, do not matter."""
        (row,) = rows_of(answered(f"id,{name},plates\n1,AB12CDE,2\n".encode()))
        assert row["result"] == "found"

    def test_it_can_be_named(self, answered):
        """`--column` takes the name in any case, quoted or not."""
        (row,) = rows_of(answered(b'id,"My Car",plate\n1,AB12CDE,\n', "--column", "my car"))
        assert row["result"] == "found"

    def test_the_header_may_begin_as_it_likes(self, answered):
        """A column's name may begin with PK, like a zip."""
        (row,) = rows_of(answered(b"PK;plate\n1;AB12CDE\n"), ";")
        assert row["result"] == "found"

    @pytest.mark.parametrize("header", ["Rego,Note", "Note,Rendszám", "Rego,Reg No", "Plate,RZ"])
    def test_words_of_the_vocabulary(self, answered, header):
        """Words that suggestions know are known here; those of 1.0.0 win over them."""
        plate_first = header in ("Rego,Note", "Plate,RZ")
        line = "AB12CDE,x" if plate_first else "x,AB12CDE"
        (row,) = rows_of(answered(f"{header}\n{line}\n".encode()))
        assert row["result"] == "found"

    def test_two_candidates_are_named(self, refused):
        """Several possible columns are refused: answers for the wrong column would mislead."""
        reason = refused(b"Plate,vrm,x\n1,2,3\n")
        assert "more than one column that is named like a registration: Plate, vrm" in reason
        assert "--column" in reason

    @pytest.mark.parametrize(
        ("data", "words", "reason"),
        [
            (b"a,b\n1,2\n", [], "has no column that is named like a registration; it has a, b"),
            (b"a,b\n1,2\n", ["--column", "c"], "has no column c; it has a, b"),
            (b"a,A\n1,2\n", ["--column", "a"], "has more than one column a: a, A"),
            (
                b"plate,verifyd_result\n",
                [],
                "was answered before: it has the column verifyd_result",
            ),
        ],
    )
    def test_a_missing_column_is_reported(self, refused, data, words, reason):
        """The refusal lists the columns of the file."""
        assert reason in refused(data, *words)


@ON_SQLITE
class TestRefused:
    @each_row(
        ("data", "reason"),
        [
            (b"", "the file is empty"),
            (b"\n\r\n", "the file has no header"),
            (b"PK\x03\x04x", "is an Excel workbook or a zip: save it as CSV"),
            ("plate\n".encode("utf-16"), "is UTF-16: save it as CSV"),
            (b"plate\n\0\n", "has NUL bytes"),
            (b"\x1f\x8b\x08", "is compressed with gzip"),
            (b'plate\nAB12CDE\n"AB\n', "a quote in line 3 is never closed"),
            (b"plate\n" + b"x" * (1 << 20) + b"x\n", "a line is longer than 1,048,576 bytes"),
        ],
    )
    def test_an_unreadable_list_of_plates(self, refused, data, reason):
        """A refused file leaves no output."""
        assert reason in refused(data)

    def test_a_file_that_is_not_there(self, cli):
        """The error has the file and the reason."""
        assert "x.csv cannot be read: No such file" in cli.refusal("lookup", "--csv", "x.csv")

    @pytest.mark.parametrize("output", [".", "/dev/null", "missing/b.csv"])
    def test_an_output_that_cannot_be(self, cli, output, monkeypatch):
        """A directory or a device is not replaced; a missing directory is not made."""
        monkeypatch.chdir(cli.directory)
        file = cli.file("a.csv", "plate", "AB12CDE")
        reason = cli.refusal("lookup", "--csv", file, "--output", output)
        assert "is not a file" in reason or "cannot be written: No such file" in reason
        assert Path("/dev/null").is_char_device()

    def test_a_file_that_changes_meanwhile(self, cli, monkeypatch):
        """If the input changes during the run, the output stays as it was."""
        file, output = cli.file("a.csv", "plate", "AB12CDE"), cli.file("b.csv", "old")

        def changing(*args):
            with open(file, "a") as more:
                more.write("ZZ9\n")
            return [], {}, {}

        monkeypatch.setattr(lookup_csv, "look_up_contradicted", changing)
        monkeypatch.setattr(lookup_csv, "_answered", lambda *args: iter([]))
        reason = cli.refusal("lookup", "--csv", file, "--output", output)
        assert "was changed while it was read" in reason
        assert output.read_text() == "old\n"
        assert sorted(p.name for p in cli.directory.glob("*.part")) == []


@ON_SQLITE
class TestOutput:
    def test_an_existing_file_keeps_its_mode(self, cli):
        """A new output file is readable by the group, as all our files are."""
        file = cli.file("a.csv", "plate", "AB12CDE")
        private = cli.file("private.csv", "")
        private.chmod(0o600)
        for name, mode in (("private.csv", 0o600), ("new.csv", 0o640)):
            cli.json("lookup", "--csv", file, "--output", cli.directory / name)
            assert (cli.directory / name).stat().st_mode & 0o777 == mode

    def test_the_file_itself_can_be_written_again(self, cli):
        """The output can replace the input, which is read to its end first."""
        file = cli.file("a.csv", "plate", "AB12CDE")
        cli.json("lookup", "--csv", file, "--output", file)
        assert file.read_text().splitlines()[1].startswith("AB12CDE,found,")

    def test_a_link_leads_to_the_file_that_is_replaced(self, cli):
        """If the output is a link, its target is replaced and the link stays."""
        link = cli.directory / "link.csv"
        os.symlink(cli.file("b.csv", ""), link)
        cli.json("lookup", "--csv", cli.file("a.csv", "plate"), "--output", link)
        assert link.is_symlink()
        assert link.read_text().startswith("plate,verifyd_result")
