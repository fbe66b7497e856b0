"""The page on files from other programs: what it calls read is read."""

import re
from datetime import UTC
from typing import NamedTuple

from app.registers.formats import formats_of
from app.storage.tables import VehicleRow
from tests.contract.pages import PAGES
from tests.rows import each_row
from tests.unit.register_files import Read, read

HEADER = "registration,insured,motExpiry,lastUpdated\n"
WRITERS_MIN = 40


class Writer(NamedTuple):
    """A line of the tables: what a program writes, and what verifyd makes of it."""

    name: str
    missing: str
    flags: str
    day: str
    time: str
    outcome: str

    @property
    def is_read(self) -> bool:
        """Whether the page says that its values are read."""
        return self.outcome.startswith(("as it is", "zone")) and "`" in self.day


def _writers() -> list[Writer]:
    lines = re.findall(r"(?m)^\| (.+) \|$", PAGES["deploy/docs/other-programs.md"])
    cells = [re.split(r"(?<!\\\\) *\| *", line) for line in lines]
    return [
        Writer(*map(str.strip, each))
        for each in cells
        if len(each) == len(Writer._fields) and each[1:2] != ["Missing"] and each[0] != "---"
    ]


WRITERS = _writers()
READ = [each for each in WRITERS if each.is_read]


def _rows(writer: Writer, zone: object) -> Read:
    true, false = re.findall("`([^`]*)`", writer.flags)
    day, time, missing = (each.strip("`") for each in (writer.day, writer.time, writer.missing))
    # A JSON null is no text, and shorter lines are another matter.
    missing = "" if missing in ("null", "a shorter line") else missing
    rows = f"A1,{true},{day},{time}\nA2,{false},{missing},{missing}\n"
    format_ = formats_of(timezone=UTC if zone else None)["native-csv"]
    return read(HEADER + rows, format_)


def test_there_are_many() -> None:
    """The page names at least forty writers, each with its version; most are read as they are."""
    assert len(WRITERS) >= WRITERS_MIN
    unversioned = [
        each.name
        for each in WRITERS
        if not re.search(r"[0-9]", each.name) and not each.name.startswith((".", "JSON", "join"))
    ]
    assert unversioned == []
    assert 2 * len(READ) > len(WRITERS)


@each_row("writer", READ, ids=lambda writer: writer.name)
def test_what_is_read(writer: Writer) -> None:
    """Days, flags and missing values are read; times too, or with --timezone."""
    for zone in (False, True):
        changes, heard = _rows(writer, zone)
        first, second = (VehicleRow._make(each) for each in changes)
        assert (first.insured, first.mot_expiry, heard.rejects) == (True, "2027-05-13", [])
        assert second == VehicleRow("A2", insured=False)
        needs_zone = writer.outcome.startswith("zone")
        assert (first[-1] is None) == (needs_zone and not zone)
        assert ("lastUpdated" in heard.unread) == (needs_zone and not zone)
