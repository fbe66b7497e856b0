"""Builds audit trails for tests."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from app import clock
from app.audit.owner import claim
from app.audit.record import Plate, Record, time_of
from app.audit.segments import list_segments
from app.audit.trail import Trail

HOUR_NS = 3600 * 10**9
DATABASE = "d" * 32


class Clock:
    """A clock that a test sets; it begins in the middle of an hour."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_ns = 1_793_600_000 * 10**9 // HOUR_NS * HOUR_NS + HOUR_NS // 2
        monkeypatch.setattr(clock, "now_ns", self._tick)

    def _tick(self) -> int:
        self.now_ns += 1_000
        return self.now_ns

    def pass_hours(self, hours: float) -> None:
        self.now_ns += int(hours * HOUR_NS)


@contextmanager
def opened(directory: Path) -> Iterator[Trail]:
    """Open a trail of this host, and close it at the end."""
    owner = claim(directory, DATABASE)
    trail = Trail(directory, lambda: owner)
    yield trail
    trail.close()


def look_up(plate: str = "AB12CDE", **members: Any) -> Record:
    """Return the record of a look-up now."""
    members = {"operation": "insurance", "account": "acme"} | members
    plates = members.pop("plates", [Plate(plate, found=True, insured=True)])
    return Record(time=time_of(clock.now_ns()), plates=plates, **members)


def lines(directory: Path) -> Iterator[dict[str, Any]]:
    """Yield all records of a trail; each line must be one."""
    for segment in list_segments(directory):
        with (directory / segment.file_name).open("rb") as file:
            for line in file:
                assert line.endswith(b"\n"), "a record is torn"
                yield json.loads(line)


def plates(directory: Path) -> list[str]:
    """Return the plates of all records."""
    return [plate["plate"] for line in lines(directory) for plate in line.get("plates", [])]


def first_plates(directory: Path) -> list[str]:
    """Return the first plate of each look-up."""
    return [line["plates"][0]["plate"] for line in lines(directory) if "plates" in line]


def names(directory: Path) -> list[str]:
    """Return the names of all segments."""
    return [segment.name for segment in list_segments(directory)]


def until(is_true: Any, seconds: float = 10) -> Any:
    """Wait until a function returns something true, and return that."""
    end = time.monotonic() + seconds
    while not (found := is_true()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)
    return found
