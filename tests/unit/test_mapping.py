"""`--map` reads any other CSV by a mapping file; mistakes; the documented example."""

import re
import textwrap
from pathlib import Path

import pytest

from app.registers.formats import FileFault
from app.registers.formats.changes import Change
from app.registers.formats.mapped import MappedCsv
from app.registers.formats.mapping_file import MappingFault, read_mapping
from app.storage.tables import FineRow, Kind, PolicyRow, VehicleRow
from tests.conftest import ON_SQLITE
from tests.contract.pages import section
from tests.rows import each_row
from tests.unit.register_files import Read, outcome, read

CHAPTER = section("deploy/docs/other-programs.md", "Load any other CSV")
VEHICLES = 'kind = "vehicles"\n[columns]\nregistration = "Plate"\n'


@pytest.fixture
def mapped(tmp_path: Path):
    """Make the format of a mapping."""

    def make(toml: str) -> MappedCsv:
        path = tmp_path / "mapping.toml"
        path.write_text(toml, encoding="utf-8")
        return MappedCsv(read_mapping(path))

    return make


def example(language: str) -> str:
    """Return an example of the chapter on mappings, by its language."""
    match = re.search(rf"(?ms)^```{language}\n(.*?)^```", CHAPTER)
    assert match
    return match[1]


def test_page_example(cli) -> None:
    """The documented example works as it is."""
    (command,) = re.findall("`verifyd (import [^`]*--map [^`]*)`", CHAPTER)
    words = command.split()
    files = [cli.directory / word if "." in word else word for word in words]
    (cli.directory / "leases.toml").write_text(example("toml"), encoding="utf-8")
    (cli.directory / "leases.csv").write_text(example("csv"), encoding="utf-8")
    result = cli.json(*files)
    told = {name: result[name] for name in ("register", "kind", "format", "loaded", "rejected")}
    assert told == {
        "register": "leasing",
        "kind": "policies",
        "format": "mapped",
        "loaded": 2,
        "rejected": 0,
    }


def other_examples() -> list[str]:
    """Return the parts of mappings that the page shows: months, first days, times and words."""
    return [textwrap.dedent(each) for each in re.findall(r"(?ms)^  ```toml\n(.*?)^  ```", CHAPTER)]


def test_what_days_mean(mapped) -> None:
    """What the page shows for the first day without and for times can be added to its mapping."""
    _, without, times, _ = other_examples()
    text = example("csv").replace("28.02.2027", "01.03.2027 00:00")
    for toml in (f"{without}{example('toml')}", f"{example('toml')}{times}"):
        first, *_ = read(text, mapped(toml)).changes
        assert PolicyRow._make(first).valid_to == "2027-02-28"


def test_the_other_examples_of_the_page_are_read(mapped) -> None:
    """What the page shows for months and for words can be added to a mapping as it stands."""
    months, _, _, words = other_examples()
    form, table = months.split("\n", 1)
    format_ = mapped(
        f"{form}\n{VEHICLES}motExpiry = 'HU'\ninsured = 'V'\nfirstRegistered = 'EZ'\n{table}{words}"
    )
    assert outcome("Plate;HU;V;EZ\nA1;05/2027;j;13.05.2015\n", format_) == VehicleRow(
        "A1", insured=True, mot_expiry="2027-05-31", first_registered="2015-05-13"
    )


def test_a_rejected_date_is_quoted_as_it_is_in_the_file(mapped) -> None:
    """The operator looks for the text of the file, not for what it became."""
    text = example("csv").replace("28.02.2027", " 31.06.2027 ")
    rejects = read(text, mapped(example("toml"))).heard.rejects
    told = "validTo: has the form DD.MM.YYYY, but is no day that exists: '31.06.2027'"
    assert rejects == [(2, told)]


def test_page_example_rows(mapped) -> None:
    """Each column, the constant and the words of the example give the documented values."""
    insurer = "Beispiel Leasing"
    assert read(example("csv"), mapped(example("toml"))).changes == [
        PolicyRow("BXY123", insurer, "L-1001", "2026-03-01", "2027-02-28", "comprehensive"),
        PolicyRow(
            "MAB9", insurer, "L-1002", "2025-11-15", "2026-11-14", "third party, fire and theft"
        ),
    ]


def test_vehicles(mapped) -> None:
    """Names and words match in any case and script; other words are read as they are."""
    format_ = mapped(
        'kind = "vehicles"\n[columns]\nregistration = "车牌"\nmake = "Étoile, modèle"\n'
        'insured = "保险"\ntaxStatus = "税"\nmotExpiry = "检验.日"\n'
        "[words.insured]\n'是' = true\n'Non' = false\n'' = false\n"
        "[words.taxStatus]\n1 = 'taxed'\n[constants]\ncolor = 'red'\nyear = 2020\n"
    )
    header = '"车牌","étoile, MODÈLE", 保险 ,税,检验.日,所有者'
    rows = [
        ("A1,KIA,是,1,2026-01-02,x", VehicleRow("A1", "KIA", None, 2020, "red", True)),
        ("A1,,NON,taxed,2026-01-02,", VehicleRow("A1", None, None, 2020, "red", False)),
        ("A1,,,2,2026-01-02,", VehicleRow("A1", None, None, 2020, "red", False)),
        ("A1,,true,1,2026-01-02,", VehicleRow("A1", None, None, 2020, "red", True)),
    ]
    for (line, row), status in zip(rows, ("taxed", "taxed", None, "taxed"), strict=True):
        wanted = row._replace(mot_expiry="2026-01-02", tax_status=status)
        assert outcome(f"{header}\n{line}\n", format_) == wanted
    assert "neither true nor false" in str(outcome(f"{header}\nA1,,x,1,,\n", format_))


def test_fines(mapped) -> None:
    """Amounts are decimals, and a constant fills a member without a column."""
    format_ = mapped(
        'kind = "fines"\ndelimiter = "|"\ndate_format = "MM/DD/YYYY"\n[columns]\n'
        'registration = "plate"\nreference = "id"\namount = "owed"\nissuedOn = "day"\n'
        '[constants]\ncurrency = "eur"\n'
    )
    header = "id|plate|owed|day,x"
    assert outcome(header.replace(",x", "") + "\n7|A1|12.50|12/31/2025\n", format_) == FineRow(
        "A1", "7", "2025-12-31", 1_250, "EUR", settled=False
    )
    with pytest.raises(FileFault, match="no column id"):
        read(header.replace("id", "ID no") + "\n7|A1|1|x\n", format_)


COMMAS = (
    'kind = "fines"\ndelimiter = ";"\ndecimal = ","\n[columns]\nregistration = "plate"\n'
    'reference = "id"\namount = "owed"\n[words.amount]\nnone = "0.00"\n'
)


@each_row(
    ("written", "cents"),
    [
        *(("35,50", 3_550), ("35,5", 3_550), ("35", 3_500), ("-0,05", -5), (" 7,00 ", 700)),
        *(("1.200,00", 120_000), ("1.200", 120_000), ("1.234.567,89", 123_456_789)),
        *(("1 200,00", 120_000), ("1\u00a0200,00", 120_000), ("1\u202f200", 120_000)),
        *(("1200,00", 120_000), ("None", 0)),
    ],
)
def test_amounts_with_a_comma(mapped, written: str, cents: int) -> None:
    """With `decimal = ","`, points and spaces separate thousands; words stay native."""
    row = outcome(f"id;plate;owed\n7;A1;{written}\n", mapped(COMMAS))
    assert isinstance(row, FineRow)
    assert (row.amount_cents, row.settled) == (cents, cents <= 0)


@each_row(
    "written", ["35.50", "1.20", "1,200", "1.2000", "1200.000,00", "1,200.00", "1.200.", ",5", "5,"]
)
def test_no_amounts_with_a_comma(mapped, written: str) -> None:
    """An amount that is not clearly one with a comma rejects its row, which is quoted as it is."""
    assert outcome(f"id;plate;owed\n7;A1;{written}\n", mapped(COMMAS)) == (
        f"amount: not a decimal with a comma and at most two places: '{written}'"
    )


def test_a_comma_without_decimal(mapped) -> None:
    """Without `decimal`, a comma rejects the row, and the reason names what can read it."""
    format_ = mapped(COMMAS.replace('decimal = ","\n', ""))
    assert outcome("id;plate;owed\n7;A1;35,50\n", format_) == (
        'amount: not a decimal with at most two places; a mapping with decimal = "," can read it: '
        "'35,50'"
    )


def test_a_declared_separator_goes_before_the_delimiter(mapped) -> None:
    """The file itself says it, as spreadsheets do."""
    format_ = mapped(COMMAS.replace('";"', '"|"'))
    assert outcome('"sep=;"\nid;plate;owed\n7;A1;35,50\n', format_) == FineRow(
        "A1", "7", None, 3_550, None, settled=False
    )


@each_row(
    ("form", "text", "day"),
    [
        ("YYYY-MM-DD", "2026-03-01", "2026-03-01"),
        ("DD.MM.YYYY", "01.03.2026", "2026-03-01"),
        ("MM/DD/YYYY", " 03/01/2026 ", "2026-03-01"),
        ("YYYYMMDD", "20260301", "2026-03-01"),
        ("YYYYMMDD", "20260301.0", "2026-03-01"),
        ("YYYYMMDD", "20260301.5", None),
        ("DD.MM.YYYY", "01.03.2026.0", None),
        ("DD.MM.YYYY", "01.03.2026 00:00:00", "2026-03-01"),
        ("M/D/YYYY", "3/1/2026 12:00:00 AM", "2026-03-01"),
        ("DD.MM.YYYY", "01.03.2026 00:00:01", None),
        ("DD.MM.YYYY", "2026-03-01 00:00:00", "2026-03-01"),
        ("MM/YYYY", "02/2028 00:00:00", None),
        ("DD.MM.YYYY", "2026-03-01", "2026-03-01"),
        ("DD.MM.YYYY", "29.02.2026", None),
        ("DD.MM.YYYY", "1.3.2026", None),
        ("DD.MM.YYYY", "01x03x2026", None),
        ("DD/MM/YYYY", "03/31/2026", None),
        ("DD.MM.YYYY", "", None),
        ("D.M.YYYY", "1.3.2026", "2026-03-01"),
        ("D.M.YYYY", "13.05.2026", "2026-05-13"),
        ("M/D/YYYY", "3/31/2026", "2026-03-31"),
        ("MM/YYYY", "02/2028", "2028-02-29"),
        ("MM/YYYY", "12/2027", "2027-12-31"),
        ("MM/YYYY", "13/2027", None),
        ("MM/YYYY", "00/2027", None),
        ("MM/YYYY", "12/9999", "9999-12-31"),
        ("MM/YYYY", "2027-05-13", "2027-05-13"),
        ("YYYY-MM", "2027-05", "2027-05-31"),
    ],
)
def test_dates(mapped, form: str, text: str, day: str | None) -> None:
    """Dates have the given form or ISO; in a vehicle, other dates are unknown."""
    mapping = VEHICLES.replace("[columns]", f'date_format = "{form}"\n[columns]\ntaxDue = "Due"')
    assert outcome(f"Plate,Due\nA1,{text}\n", mapped(mapping)) == VehicleRow("A1", tax_due=day)


def test_a_month_is_its_last_day_where_something_ends(mapped) -> None:
    """A form without days means the last day of what is valid until then, else the first one."""
    vehicles = VEHICLES.replace("[columns]", 'date_format = "MM/YYYY"\n[columns]')
    found = outcome(
        "Plate,HU,EZ,Tax\nA1,06/2027,06/2015,02/2027\n",
        mapped(vehicles + 'motExpiry = "HU"\nfirstRegistered = "EZ"\ntaxDue = "Tax"\n'),
    )
    assert found == VehicleRow(
        "A1", mot_expiry="2027-06-30", first_registered="2015-06-01", tax_due="2027-02-28"
    )
    policies = example("toml").replace("DD.MM.YYYY", "MM/YYYY")
    row = "Kennzeichen;Vertrag;Beginn;Ende;Art\nA1;1;03/2026;02/2027;VK\n"
    assert outcome(row, mapped(policies)) == PolicyRow(
        "A1", "Beispiel Leasing", "1", "2026-03-01", "2027-02-28", "comprehensive"
    )


def test_one_member_can_have_another_form(mapped) -> None:
    """`date_formats` names the form of one member; all others have that of `date_format`."""
    format_ = mapped(
        VEHICLES.replace("[columns]", 'date_format = "DD.MM.YYYY"\n[columns]')
        + 'motExpiry = "HU"\nfirstRegistered = "EZ"\n[date_formats]\nmotExpiry = "MM/YYYY"\n'
    )
    assert outcome("Plate,HU,EZ\nA1,05/2027,13.05.2015\n", format_) == VehicleRow(
        "A1", mot_expiry="2027-05-31", first_registered="2015-05-13"
    )
    assert outcome("Plate,HU,EZ\nA1,13.05.2027,05/2015\n", format_) == VehicleRow("A1")


def test_policy_dates(mapped) -> None:
    """A policy without readable dates is rejected."""
    toml = example("toml")
    row = "Kennzeichen;Vertrag;Beginn;Ende;Art\nA1;1;01.03.2026;%s;VK\n"
    assert outcome(row % "2027", mapped(toml)) == "validTo: not a date: '2027'"
    assert outcome(row % "01.02.2026", mapped(toml)) == "validTo is before validFrom"
    assert outcome(row % "02/28/2027", mapped(toml)) == (
        "validTo: not DD.MM.YYYY, but MM/DD/YYYY; a mapping can say so with date_format: "
        "'02/28/2027'"
    )


def test_rejects_hold_no_records(mapped) -> None:
    """A reject has only line and reason: other columns can hold anything."""
    found: Read = read("Plate,Owner\nA/B,ZZPRIVATE\nA1,ZZPRIVATE,\n", mapped(VEHICLES))
    assert found.heard.rejects == [
        (2, "not a registration number: 'A/B'"),
        (3, "3 fields where the header has 2"),
    ]
    assert found.heard.records == ["", ""]


def test_columns_must_be_there(mapped) -> None:
    """The key's columns must be in the header, and no column may occur twice."""
    format_ = mapped(VEHICLES + 'make = "Make"\n')
    with pytest.raises(FileFault, match="no column Plate"):
        read("Make\nx\n", format_)
    with pytest.raises(FileFault, match="Plate more than once"):
        read("Plate,PLATE,Make\nA1,A2,x\n", format_)


FINES = 'kind = "fines"\n[columns]\nregistration = "A"\nreference = "B"\n'


@ON_SQLITE
@each_row(
    ("toml", "told"),
    [
        ("kind = ", "The file is not valid TOML: "),
        ('kind = "cars"', "kind: must be one of vehicles, policies, fines."),
        ("kind = []", "kind: must be one of vehicles, policies, fines."),
        ("", "kind: must be one of"),
        (f"colums = 1\n{VEHICLES}", "colums: unknown member; use columns, constants, "),
        ('kind = "vehicles"', "columns.registration: missing; every row needs it."),
        (VEHICLES.replace("vehicles", "policies"), "columns.number: missing"),
        (FINES, "columns.amount: missing; every fine needs amount or settledOn."),
        (VEHICLES + 'colour = "Colour"', "columns.colour: unknown member; use registration, make"),
        (VEHICLES + "make = 5", "columns.make: must be the name of a column."),
        (VEHICLES + 'make = " "', "columns.make: must be the name of a column."),
        ('columns = "x"\nkind = "vehicles"', "columns: must be a table."),
        ('register = "A B"\n' + VEHICLES, "register: must be 1 to 30 of a-z"),
        ("register = 1\n" + VEHICLES, "register: must be a string."),
        ('delimiter = ";;"\n' + VEHICLES, "delimiter: must be one character"),
        ("delimiter = '\"'\n" + VEHICLES, "delimiter: must be one character"),
        ('date_format = "DD.MM.YY"\n' + VEHICLES, "date_format: must have YYYY, MM and DD once"),
        ('date_format = "%d.%m.%Y"\n' + VEHICLES, "date_format: must have YYYY, MM and DD once"),
        ('date_format = "DD.MM.YYYY MM"\n' + VEHICLES, "date_format: must have"),
        ('date_format = "DD MM YYYY h"\n' + VEHICLES, "date_format: must have"),
        ('date_format = "DMYYYY"\n' + VEHICLES, "date_format: must have"),
        ('date_format = "DD.YYYY"\n' + VEHICLES, "date_format: must have"),
        ("date_format = 1\n" + VEHICLES, "date_format: must be a string."),
        (VEHICLES + "[date_formats]\ntaxDue = 'MM/YYYY'", "date_formats.taxDue: has no column"),
        (
            VEHICLES + "make = 'M'\n[date_formats]\nmake = 'MM/YYYY'",
            "date_formats.make: make is no",
        ),
        (
            VEHICLES + "taxDue = 'D'\n[date_formats]\ntaxDue = 'MM'",
            "date_formats.taxDue: must have",
        ),
        (
            VEHICLES + "taxDue = 'D'\n[date_formats]\ntaxDue = 1",
            "date_formats.taxDue: must be a str",
        ),
        ("decimal = ';'\n" + VEHICLES, 'decimal: must be "." or ",".'),
        ("decimal = 1\n" + VEHICLES, "decimal: must be a string."),
        (VEHICLES + "[constants]\nowner = 1", "constants.owner: unknown member; use"),
        (VEHICLES + "[constants]\nregistration = 'A'", "constants.registration: also has a column"),
        (VEHICLES + "[constants]\nmake = [1]", "constants.make: must be a string."),
        (
            VEHICLES + "[constants]\ntaxDue = 'x'",
            "constants.taxDue: 'x' is not a valid taxDue; use a",
        ),
        (VEHICLES + "[constants]\ninsured = 'x'", "constants.insured: must be true or false."),
        (VEHICLES + "[words.make]\nA = 'B'", "words.make: has no column; name it in [columns]."),
        (VEHICLES + "make = 'M'\n[words]\nmake = 5", "words.make: must be a table of words."),
        (
            VEHICLES + "taxStatus = 'T'\n[words.taxStatus]\nP = 'payed'",
            "words.taxStatus.P: 'payed' is not a valid taxStatus; use taxed, exempt, sorn or unt",
        ),
        (
            VEHICLES + "insured = 'V'\n[words.insured]\nP = 'perhaps'",
            "words.insured.P: must be true or false.",
        ),
        (
            "kind = vehicles\n",
            "The file is not valid TOML: Invalid value (at line 1, column 8); words",
        ),
    ],
)
def test_mistakes(cli, toml: str, told: str) -> None:
    """A mistake is reported with file and member, before the register file is opened."""
    path = cli.file("mapping.toml", toml)
    refusal = cli.refusal("import", cli.directory / "missing.csv", "--map", path, "--register", "x")
    assert refusal.startswith(f"{path}: {told}")


def test_no_mapping_file(tmp_path: Path) -> None:
    """A missing or binary mapping is reported with its name."""
    with pytest.raises(MappingFault, match=r"missing\.toml: The file cannot be read: No such file"):
        read_mapping(tmp_path / "missing.toml")
    path = tmp_path / "binary.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(MappingFault, match=r"binary\.toml: The file is not valid TOML"):
        read_mapping(path)


def test_toml_values(mapped) -> None:
    """Numbers, dates and booleans of TOML work like texts; a BOM is ignored."""
    constants = "[constants]\nyear = 2020\ntaxDue = 2026-01-02\ninsured = false\n"
    row: Change | str = outcome("Plate\nA1\n", mapped("\ufeff" + VEHICLES + constants))
    assert row == VehicleRow("A1", year=2020, tax_due="2026-01-02", insured=False)


def test_register_must_be_named(cli) -> None:
    """A mapped file has no agency, so the mapping or the command names its register."""
    path = cli.file("mapping.toml", VEHICLES)
    data = cli.file("cars.csv", "Plate", "A1")
    assert "register: missing; name it there or with --register" in cli.refusal(
        "import", data, "--map", path
    )
    assert cli.json("import", data, "--map", path, "--register", "fleet")["register"] == "fleet"


def test_kind_must_agree(cli) -> None:
    """`--kind` confirms the mapping's kind, and never changes it."""
    path, data = cli.file("mapping.toml", VEHICLES), cli.file("cars.csv", "Plate", "A1")
    words = ("import", data, "--map", path, "--register", "fleet", "--kind", Kind.FINES)
    assert "The file contains vehicles, not fines." in cli.refusal(*words)


def test_map_or_format(cli) -> None:
    """`--map` and `--format` exclude each other."""
    told = cli.misuse("import", "x.csv", "--map", "m.toml", "--format", "rdw-csv")
    assert "not allowed with" in told
