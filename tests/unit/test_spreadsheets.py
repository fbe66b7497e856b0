"""Values that a spreadsheet has changed, first pages of an API, and the notes of refused loads."""

import json
from pathlib import Path

import pytest

from app.registers.rules import RulesBroken
from tests.conftest import ON_SQLITE, STORAGE, World
from tests.rows import each_row
from tests.unit.register_files import read

VEHICLES = "registration,make\n"
FINES = "registration,reference,amount\n"
DAYS = "".join(f"2011-12-{day:02},FORD\n" for day in range(1, 11))
PLATES = "".join(f"AB-{day:02}-CD,FORD\n" for day in range(1, 11))
EXPONENTS = "".join(f"A{n},{n}.2345678901234E+{n + 10:03},5\n" for n in range(1, 10))
EXPONENTS += "A10,1,00E+06,5\n".replace("1,00", '"1,00').replace("06,", '06",')
MAPPING = """kind = "fines"
register = "own"
[columns]
registration = "registration"
reference = "reference"
amount = "amount"
"""


@pytest.fixture
def load(world: World):
    """Load a text with the given options."""

    def run(text: str, **options):
        file = world.directory / "file.csv"
        file.write_text(text)
        return world.load_files(file, **options)

    return run


@each_row(
    ("text", "counted"),
    [
        (VEHICLES + DAYS, {"registration": 10}),
        (VEHICLES + DAYS.replace("FORD", '"FORD"'), {"registration": 10}),
        (VEHICLES + PLATES + "20111213,X\n2011-13-32X,X\n12E34567890,X\n", {}),
        (FINES + EXPONENTS, {"reference": 10}),
        (FINES + "A1,PRE+E+01,5\nA2,1E+,5\nA3,1.5E19,5\nA4,E+5,5\n", {}),
        (json.dumps({"registration": "2011-12-13", "make": "X"}) + "\n", {"registration": 1}),
    ],
)
def test_what_is_counted(text, counted) -> None:
    """Plates that are days, and numbers with an exponent, in blocks, quoted lines and JSON."""
    assert read(text).heard.altered == counted


@STORAGE
class TestRule:
    @each_row("text", [VEHICLES + DAYS, VEHICLES + DAYS + PLATES])
    def test_a_first_load_is_refused(self, load, text) -> None:
        """From half of at least ten values on; the message says what to do."""
        with pytest.raises(RulesBroken) as caught:
            load(text, dry_run=True)
        assert list(caught.value.broken) == ["spreadsheet"]
        told = str(caught.value)
        assert "10 of" in told
        assert "made of plates such as 11-12-13: make the column text" in told
        assert "--accept spreadsheet" in told
        assert "2011" not in told

    @each_row("text", [VEHICLES + DAYS + PLATES + "A1,X\n", VEHICLES + DAYS[len(DAYS) // 10 :]])
    def test_fewer_are_loaded(self, load, text) -> None:
        """Less than half, or less than ten, may be plates."""
        load(text, dry_run=True)

    def test_numbers(self, load) -> None:
        """Numbers that have lost their digits are no longer different."""
        with pytest.raises(RulesBroken) as caught:
            load(FINES + EXPONENTS)
        assert "10 of 10 values of reference have an exponent" in str(caught.value)

    def test_the_option_accepts_it(self, load) -> None:
        """A country may have such plates; later loads have a note."""
        first = load(VEHICLES + DAYS, accept=["spreadsheet"])
        second = load(VEHICLES + DAYS + "A1,X\n")
        assert first.notes[0].startswith("accepted spreadsheet: 10 of 10 values of registration")
        assert second.notes[0].startswith("10 of 11 values of registration are days")

    def test_another_kind_is_a_first_load(self, load) -> None:
        """Vehicles in the register say nothing about the references of its fines."""
        load(VEHICLES + PLATES)
        with pytest.raises(RulesBroken):
            load(FINES + EXPONENTS)


@ON_SQLITE
def test_mapped_files(cli) -> None:
    """A mapped file is looked at, too."""
    mapping = cli.file("own.toml", MAPPING)
    file = cli.file("own.csv", FINES + EXPONENTS)
    assert "spreadsheet: 10 of 10" in cli.refusal("import", file, "--map", mapping)


@ON_SQLITE
class TestFirstPage:
    HEADER = "Plate,State,Summons Number,Issue Date,Amount Due\n"

    def rows(self, many: int) -> str:
        return self.HEADER + "".join(f"A{n},NY,{n},01/01/2026,5\n" for n in range(many))

    def test_a_note(self, load) -> None:
        """A first load with as many rows as the API sends at once may lack the others."""
        (note, *_) = load(self.rows(1_000)).notes
        assert note.startswith("the files have exactly 1,000 rows, as many as a page")

    def test_no_note(self, load) -> None:
        """Not with another number of rows, and not in a later load."""
        load(self.rows(999))
        assert not any("exactly" in note for note in load(self.rows(1_000)).notes)


@ON_SQLITE
def test_a_refused_load_prints_its_notes(cli) -> None:
    """They explain the refusal: here that the file has another encoding."""
    file: Path = cli.directory / "plates.csv"
    many = range(100)
    file.write_text(VEHICLES + "".join(f"A{n},\u05d0{n}\n" for n in many), encoding="utf-8")
    cli.json("import", file)
    file.write_bytes((VEHICLES + "".join(f"A{n},\u05d0{n}\n" for n in many)).encode("cp1255"))
    for words in ((), ("--dry-run",)):
        told = cli.refusal("import", file, *words)
        assert "--accept identity" in told
        assert "\nnote: 100 values were not UTF-8 and were read as Windows-1252" in told
    ended = cli.run("import", file, "--json")
    assert "not UTF-8" in json.loads(ended.stdout)["notes"][0]


@ON_SQLITE
def test_too_many_rejects_print_them_as_well(cli) -> None:
    """Also of a load that ends before all files are read."""
    file = cli.directory / "plates.csv"
    file.write_bytes(f"{VEHICLES}A1,\u00c4\n?,\n?,\n".encode("cp1252"))
    told = cli.refusal("import", file, "--max-rejects", "1")
    assert "note: 1 value was not UTF-8" in told
