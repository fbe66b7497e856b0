"""What a register file format must provide, shown by a format of a dozen lines."""

import pytest

from app.registers.formats import FORMATS, FileFault, Format, recognise
from app.registers.formats.columns import Column, Layout, Presence, normalised
from app.registers.formats.csv_format import CsvFormat
from app.registers.formats.json_format import JsonFormat
from app.registers.formats.values import registration, text
from app.storage.tables import Kind, VehicleRow
from tests.rows import each_row
from tests.unit.register_files import read


def layout() -> Layout:
    """The two columns of a source."""
    columns = (
        Column("Plaque", frozenset([normalised("Plaque")]), registration, Presence.REQUIRED),
        Column("Marque", frozenset([normalised("Marque")]), text("Marque"), Presence.EXPECTED),
    )
    return Layout(columns, lambda values: VehicleRow(*values))


class FrenchCsv(CsvFormat):
    """A CSV format of that source."""

    name = "french-csv"
    register = "french"
    looked_for = "a CSV header with the column Plaque"
    kinds = frozenset([Kind.VEHICLES])

    def kind_of(self, names):
        return Kind.VEHICLES if "plaque" in names else None

    def layout(self, kind):
        return layout()


class FrenchJson(JsonFormat):
    """A JSON format of that source."""

    name = "french-json"
    register = "french"
    looked_for = "JSON objects with the member plaque"
    kinds = frozenset([Kind.VEHICLES])

    def kind_of(self, names):
        return Kind.VEHICLES if "plaque" in names else None

    def layout(self, kind):
        return layout()


CSV = b"Marque,Plaque\nRENAULT,AB12CDE\n"
JSON = b'[{"plaque": "AB12CDE", "marque": "RENAULT"}]'


@pytest.mark.parametrize(("format_", "data"), [(FrenchCsv(), CSV), (FrenchJson(), JSON)])
def test_a_format_with_named_columns_is_little_more_than_its_columns(format_, data):
    """The base class provides recognition, rows, rejects and the known columns."""
    assert recognise(data, {**FORMATS, format_.name: format_}) == (format_, Kind.VEHICLES)
    changes, heard = read(data, format_)
    assert changes == [VehicleRow("AB12CDE", "RENAULT")]
    assert (heard.rejects, format_.is_snapshot(data)) == ([], True)
    missing = format_.known_columns(Kind.VEHICLES).missing(["plaque"], [])
    assert [column.label for column in missing] == ["Marque"]


def test_a_format_that_lacks_a_method_is_refused():
    """A format that lacks a method cannot be instantiated."""
    with pytest.raises(TypeError, match="kind_of"):
        type("Half", (CsvFormat,), {"layout": FrenchCsv.layout})()


@each_row("format_", FORMATS.values(), ids=FORMATS)
def test_a_format_refuses_kinds_that_it_cannot_hold(format_: Format):
    """`--kind` accepts only the kinds of a format, and every kind has its columns."""
    assert format_.kinds
    for kind in Kind:
        if kind in format_.kinds:
            format_.require_kind(kind)
            format_.known_columns(kind)
        else:
            with pytest.raises(FileFault, match=f"{format_.name} files contain .*, not {kind}"):
                format_.require_kind(kind)


def test_the_kind_of_a_load_is_checked_before_it_is_read(world):
    """The error names the file, and nothing is loaded."""
    path = world.directory / "a.csv"
    path.write_text("Plate;x\n")
    with pytest.raises(FileFault, match=r"a\.csv: rdw-csv files contain vehicles, not fines"):
        world.load_files(path, format="rdw-csv", kind=Kind.FINES)
