"""What the refusal of a CSV file that fits no format says."""

import pytest

from app.registers.formats import FileFault, recognise
from tests.rows import each_row


def refusal(text: str | bytes) -> str:
    """Return why a file is refused."""
    with pytest.raises(FileFault) as caught:
        recognise(text if isinstance(text, bytes) else text.encode())
    return str(caught.value)


def test_columns_closest_format_what_is_missing_and_the_mapping_are_named():
    """The refusal says what was found, what is closest, what it lacks, and what to do."""
    told = refusal("Kennzeichen;Vertrag;Beginn;Ende\nB-XY 123;L-1;01.03.2026;28.02.2027\n")
    assert told == (
        "The file fits no format. Its columns are 'Kennzeichen', 'Vertrag', 'Beginn', 'Ende'. "
        "The closest format is native-csv with policies; the file lacks registration, number, "
        "validFrom, validTo. If its columns have other names, describe them in a mapping file for "
        '--map: "verifyd import --suggest-map FILE" writes a first one.'
    )


@each_row(
    ("header", "closest"),
    [
        ("plate,make,model", "native-csv with vehicles; the file lacks registration."),
        ("reference,amount,plate", "native-csv with fines; the file lacks registration."),
        ("reference,issuedOn,vrm", "native-csv with fines; the file lacks registration, amount."),
        ("Merk,Handelsbenaming,Eerste kleur,WAM verzekerd,Zuinigheidslabel", "rdw-csv with veh"),
        ("Plate,State,Issue Date,Violation,Payment Amount,Amount Due", "nyc-csv with fines; "),
        ("something,else", "native-csv with vehicles; the file lacks registration."),
    ],
)
def test_the_format_with_the_most_columns_is_the_closest(header, closest):
    """The closest format is the one that knows most of the columns, in whatever language."""
    assert f"The closest format is {closest}" in refusal(f"{header}\n")


def test_ten_of_many_columns_are_named():
    """The message stays short, whatever the header."""
    told = refusal(",".join(f"col{n:04}" + "x" * 60 for n in range(500)) + "\n")
    assert " and 490 more. " in told
    assert len(told) < 1_500


@each_row(
    "text",
    [
        "AB12CDE;FORD;2012\nCD34EFG;OPEL;2013\n",
        "AB12CDE;FORD\nCD34EFG;OPEL\n",
        "AB12CDE\nCD34EFG\n",
        "AB12CDE,Smith\n",
        "sep=;\nAB12CDE;Smith\n",
        "Fleet report,,\n,,\nAB12CDE,Smith,x\n",
        "V000AB12CDE  SMITH   20260101\nV000CD34EFG  MILLER  20260101\n",
    ],
)
def test_a_record_in_place_of_the_header_is_not_shown(text):
    """Without a header, the first line is a record, which no message may quote (D70)."""
    told = refusal(text)
    assert "AB12CDE" not in told
    assert "Smith" not in told
    assert "SMITH" not in told


@pytest.mark.parametrize("data", [b"a;b\0\n", b"\xff\xfea\0;\0b\0\n\0", b"<a>;<b>\n"])
def test_other_content_than_csv_gets_the_list_of_formats(data):
    """Only a CSV file can be given a mapping."""
    assert "Looked for: " in refusal(data)


@each_row(
    "text",
    [
        "Reg No,CO2\nAB12CDE,\n",
        "Kennzeichen;Marke;Euro6;Driver 1\nB-XY 12;VW;Euro 6;A 1\n",
        "Reg,Address1,Address2,Street Code1\nAB12CDE,12 High St,Flat 2,34330\n",
        "Plate,2019,2020\nAB12CDE,x,y\n",
    ],
)
def test_everyday_names_like_plates_do_not_make_a_header_a_record(text):
    """Beside a known name, a name that could be a plate or a number is a name like any other."""
    assert "does not look like names" not in refusal(text)


@each_row(
    "text",
    [
        "AB12CDE;insured\n",
        "AB12CDE;insured\nCD34EFG;insured\n",
        "insured;2012\nuninsured;2013\n",
        "AB12CDE;Smith;CO2\nCD34EFG;Miller;x\n",
        "B-XY 12;versichert\nM-AB 9;unbekannt\n",
        "B-XY 12;Marke\nM-AB 9;Marke\n",
    ],
)
def test_a_record_with_a_known_word_is_not_shown(text):
    """A word that could be a name does not make a record a header, if it is like those below."""
    assert "does not look like names" in refusal(text)
