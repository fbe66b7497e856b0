"""Pasted lists and tables: which is which, the likely column, and that no cell is lost."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.console.pasted_plates import ALL_CELLS, COLUMNS_MAX, plates_of, table_of

WIDE = ",".join(f"A{n}" for n in range(COLUMNS_MAX))


@pytest.mark.parametrize(
    ("text", "choice", "has_heading", "plates"),
    [
        ("Plate\tDriver\r\nAB12 CDE\tAnn\r\nZZ9\tBob\r\n", "1", True, ["AB12 CDE", "ZZ9"]),
        ("\tPlate\r\n1\tAB12\r\n2\tZZ9", "2", True, ["AB12", "ZZ9"]),
        ('"Ort";"Kfz"\n"Ber;lin";"B-XY 1"\n"a ""b""\nc";"M-AB 2"', "2", True, ["B-XY 1", "M-AB 2"]),
        ("AB12CDE,Ann\nZZ9,Bob", "1", False, ["AB12CDE", "ZZ9"]),
        ("Depot,Kenteken,Note\n1,AB12CDE\n2,EV1L,x,y,z\n\n3\n", "2", True, ["AB12CDE", "EV1L"]),
        ('AB12CDE,x\n"ZZ9,y\nEV1L,z', "1", False, ["AB12CDE", '"ZZ9', "EV1L"]),
        ("P1,A1\nP2,A2", ALL_CELLS, False, ["P1", "A1", "P2", "A2"]),
        ("Name,Town\nAnn,Leeds", "", False, []),
        ("VRM,Plate\nA1,A2", "1", True, ["A1"]),
        ("Fleet No,Rego\nA1,AB12\nA2,ZZ9", "2", True, ["AB12", "ZZ9"]),
        ("Kontrollschild\nZH 1\nBE 2", "1", True, ["ZH 1", "BE 2"]),
        ("x\tA1\rx\tA2\rx\tA,3", "2", False, ["A1", "A2", "A 3"]),
        ("Kenteken\nAB12 CDE\n\nZZ9\n", "1", True, ["AB12 CDE", "ZZ9"]),
        ("Plate\t\r\nAB12\t\r\nZZ9\t", "1", True, ["AB12", "ZZ9"]),
        ("Our vehicles\nAB12\nGONE\nZZ9", "1", True, ["AB12", "GONE", "ZZ9"]),
        ("Kfz;Tag\nB.XY/12;01.02.2026\nM_A\u20229;03.04.2026", "1", True, ["BXY12", "MA9"]),
        (f"{WIDE}\n{WIDE}", ALL_CELLS, False, [*WIDE.split(","), *WIDE.split(",")]),
    ],
)
def test_the_likely_column_of_a_table(text, choice, has_heading, plates):
    """By the names of columns in a heading, otherwise by what looks like plates."""
    table = table_of(text)
    assert table is not None
    assert (table.likely_choice(), table.looks_headed()) == (choice, has_heading)
    assert table.plates(choice, has_heading=has_heading) == plates


def test_signs_that_people_type():
    """Points, slashes and bullets in a plate are ignored; what is no plate stays as it is."""
    assert plates_of("AB.12 CDE\nZH·1/2_3\n.../;AB1?.") == ["AB12 CDE", "ZH·123", ".../", "AB1?."]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "AB12CDE",
        "AB12CDE,EV1L,ZZ9",
        "AB12CDE\nEV1L",
        "AB12CDE\nPLATE",
        "PLATE",
        "ANN\nBOB",
        "AB12CDE\t\nEV1L\t",
        "AB12 CDE\nev1l;ZZ9,\t!!\n,",
        ";,\n;,",
        "A1,A2\nA3\nA4",
        f"{WIDE},X1\n{WIDE},X2",
        "," * 100_000 + "A\n" + "A,B\n" * 50_000,
    ],
)
def test_other_texts_are_lists(text):
    """One line, one column, mixed or only delimiters, or more columns than a page can show."""
    assert table_of(text) is None


@given(st.text(alphabet='A1"\r\n\t,; x', max_size=60))
def test_no_cell_is_lost(text):
    """All cells have every character of the text but delimiters, quotes and spaces."""
    table = table_of(text)
    cells = plates_of(text) if table is None else table.plates(ALL_CELLS, has_heading=False)

    def content(text):
        return re.sub(r'[\s",;]', "", text)

    assert content("".join(cells)) == content(text)
