"""The zone of times that name none: `--timezone`, and `timezone` in a mapping."""

from datetime import UTC, datetime
from typing import Any

import pytest

from app.registers.formats import formats_of
from app.registers.formats.mapped import MappedCsv
from app.registers.formats.mapping_file import MappingFault, read_mapping
from app.settings.time_zones import require_zone
from tests.conftest import ON_SQLITE
from tests.rows import each_row
from tests.unit.register_files import read

BERLIN = require_zone("Europe/Berlin")
MAPPING = """kind = "vehicles"
{}
[columns]
registration = "registration"
lastUpdated = "lastUpdated"
"""


def updated(text: str, format_) -> str | None:
    """Return the time that a row has, in UTC."""
    (row,) = read(f"registration,lastUpdated\nA1,{text}\n", format_).changes
    seconds: Any = row[-1]
    return None if seconds is None else f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M}"


@pytest.fixture
def mapped(tmp_path):
    """Make the format of a mapping."""

    def make(top: str, zone=None) -> MappedCsv:
        path = tmp_path / "mapping.toml"
        path.write_text(MAPPING.format(top))
        return MappedCsv(read_mapping(path), timezone=zone)

    return make


@each_row(
    ("text", "alone", "in_berlin"),
    [
        ("2026-07-01 06:00:00", None, "2026-07-01T04:00"),
        ("2026-07-01T06:00", None, "2026-07-01T04:00"),
        ("2026-11-01 06:00:00.123456", None, "2026-11-01T05:00"),
        ("2026-11-01", "2026-11-01T00:00", "2026-10-31T23:00"),
        ("2026-11-01 00:00:00", "2026-11-01T00:00", "2026-10-31T23:00"),
        # Hours of 12, and of one digit.
        ("2026-11-01 6:00", None, "2026-11-01T05:00"),
        ("2026-11-01 6:00:00 PM", None, "2026-11-01T17:00"),
        ("2026-11-01 12:30am", None, "2026-10-31T23:30"),
        ("2026-11-01 12:30 PM +0000", "2026-11-01T12:30", "2026-11-01T12:30"),
        ("2026-11-01 13:00 PM", None, None),
        ("2026-11-01 0:30 AM", None, None),
        # Zones that are written win.
        ("2026-11-01 06:00:00 UTC", "2026-11-01T06:00", "2026-11-01T06:00"),
        ("2026-11-01 06:00:00 GMT", "2026-11-01T06:00", "2026-11-01T06:00"),
        ("2026-11-01 06:00:00 +0000 UTC", "2026-11-01T06:00", "2026-11-01T06:00"),
        ("2026-11-01 06:00:00.5 +0100 CET", "2026-11-01T05:00", "2026-11-01T05:00"),
        ("2026-11-01 06:00:00 +0200", "2026-11-01T04:00", "2026-11-01T04:00"),
        ("2026-11-01 00:00:00+00", "2026-11-01T00:00", "2026-11-01T00:00"),
        ("2026-11-01T06:00:00Z", "2026-11-01T06:00", "2026-11-01T06:00"),
        # The clock skips 02:30 in March, and repeats it in October.
        ("2026-03-29 02:30", None, "2026-03-29T01:30"),
        ("2026-10-25 02:30", None, "2026-10-25T00:30"),
        # Words that nobody knows the offset of, and no times.
        ("2026-11-01 06:00:00 CET", None, None),
        ("2026-11-01 25:00:00", None, None),
        ("2026-02-30 06:00:00", None, None),
        ("yesterday", None, None),
    ],
)
def test_times(mapped, text, alone, in_berlin) -> None:
    """A time without a zone is that of the zone that is named, and unknown if none is."""
    without, native = formats_of()["native-csv"], formats_of(timezone=BERLIN)["native-csv"]
    assert updated(text, without) == updated(text, mapped("")) == alone
    assert updated(text, native) == updated(text, mapped("", BERLIN)) == in_berlin
    assert updated(text, mapped('timezone = "Europe/Berlin"')) == in_berlin


def test_the_option_wins(mapped) -> None:
    """A mapping is written once; the option is about this file."""
    format_ = mapped('timezone = "Asia/Tokyo"', BERLIN)
    assert updated("2026-07-01 06:00:00", format_) == "2026-07-01T04:00"


def test_the_form_of_dates(mapped) -> None:
    """A time can follow a date of another form."""
    format_ = mapped('date_format = "DD.MM.YYYY"\ntimezone = "Europe/Berlin"')
    assert updated("01.07.2026 06:00", format_) == "2026-07-01T04:00"
    assert updated("2026-07-01 06:00", format_) == "2026-07-01T04:00"
    assert updated("01.07.2026 06:00:00 +0000", format_) == "2026-07-01T06:00"
    assert updated("01.07.2026 6:00 PM", format_) == "2026-07-01T16:00"
    assert updated("01.07.2026", format_) == "2026-06-30T22:00"
    assert updated("32.07.2026 06:00", format_) is None


def test_mistakes(mapped) -> None:
    """A zone that does not exist is named before a file is opened."""
    with pytest.raises(MappingFault) as caught:
        mapped('timezone = "CEST"')
    assert "timezone: must be the name of a time zone, such as Europe/London." in str(caught.value)


@ON_SQLITE
class TestCommand:
    def test_the_option(self, cli) -> None:
        """A load without it counts the times that it could not read, and names the option."""
        file = cli.directory / "vehicles.csv"
        file.write_text("registration,lastUpdated\nA1,2026-07-01 06:00\nA2,2026-07-01 06:00\n")
        (note,) = cli.json("import", file)["notes"]
        assert "lastUpdated: 2 values could not be read" in note
        assert "--timezone, or timezone in a mapping, names that of times without one" in note
        (note,) = cli.json("import", file, "--timezone", "Europe/Berlin")["notes"]
        assert note.startswith("same content")

    def test_times_with_days_of_another_form(self, cli) -> None:
        """With a zone, what such a time lacks is the form of its day."""
        file = cli.directory / "vehicles.csv"
        file.write_text("registration,lastUpdated\nA1,13/07/2026 06:00\n")
        (note,) = cli.json("import", file, "--timezone", "Europe/Berlin")["notes"]
        assert "; the form of the days is DD/MM/YYYY, which date_format in a mapping" in note

    def test_other_formats(self, cli) -> None:
        """Formats of agencies have zones of their own."""
        file = cli.directory / "nyc.csv"
        file.write_text("Plate,State,Summons Number,Issue Date,Amount Due\nA1,NY,1,01/01/2026,5\n")
        told = cli.refusal("import", file, "--timezone", "UTC")
        assert "--timezone is only for native and mapped files" in told
        assert "must be the name of a time zone" in cli.misuse("import", file, "--timezone", "x")
