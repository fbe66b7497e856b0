"""What 1.0.0 stored as the last day with is loaded again as the first day without (D100, D157)."""

import json
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from app import clock
from app.registers.applying.answers import LoadBasis
from app.registers.formats import dvla, rdw
from app.registers.formats.dates import iso_date
from app.registers.undo import roll_back
from tests.conftest import STORAGE, World
from tests.unit.watched import Watched

DUTCH = tuple(f"NL{number:02}X" for number in range(40))
"""The vehicle with number N must be approved N days after today."""
BRITISH = tuple(f"GB{number:02}XYZ" for number in range(40))
"""Their tax is due on a first of a month."""
_HEADER = (
    "Kenteken,Merk,Handelsbenaming,Datum eerste toelating,Eerste kleur,WAM verzekerd,"
    "Vervaldatum APK\n"
)
_LONG = pytest.mark.system_long


def _files(directory: Path, today: date, tax_due: str) -> tuple[Path, Path]:
    dutch, british = directory / "rdw.csv", directory / "dvla.ndjson"
    expiries = (f"{today + timedelta(number):%Y%m%d}" for number in range(len(DUTCH)))
    rows = (f"{plate},SEAT,,,,Ja,{expiry}\n" for plate, expiry in zip(DUTCH, expiries, strict=True))
    dutch.write_text(_HEADER + "".join(rows))
    answer = {"taxStatus": "Taxed", "taxDueDate": tax_due}
    answers = (json.dumps({"registrationNumber": plate, **answer}) + "\n" for plate in BRITISH)
    british.write_text("".join(answers))
    return dutch, british


@STORAGE
@pytest.mark.parametrize(
    ("today", "mode"),
    [
        ("2027-03-15", "replace"),
        pytest.param("2027-03-15", "merge", marks=_LONG),
        pytest.param("2027-04-01", "replace", marks=_LONG),
        ("2027-04-01", "merge"),
    ],
)
def test_no_load_is_refused_and_no_watch_is_held(
    world: World, monkeypatch: pytest.MonkeyPatch, today: str, mode: str
) -> None:
    """Nothing is reported twice: only what ends today, and lead days that are reached thereby."""
    monkeypatch.setattr(clock, "today", lambda _: date.fromisoformat(today))
    files = _files(world.directory, date.fromisoformat(today), "2027-04-01")
    watched = Watched(world.config, world.engine)
    options: dict[str, Any] = {"mode": mode, "basis": LoadBasis(today)}

    def sweep() -> list[tuple[str, str]]:
        assert [each.held for each in watched.sweep()] == [0]
        return sorted(watched.news())

    with monkeypatch.context() as former:
        former.setattr(rdw, "_last_day", rdw._date)
        former.setattr(dvla, "_last_taxed_day", iso_date)
        for file in files:
            world.load_files(file, **options)
    watched.watch(*DUTCH, *BRITISH, leads=(28, 14))
    assert len(sweep()) == 28 + 40

    for file in files:
        world.load_files(file, **options)
    lapsed = [("mot.changed", DUTCH[0])]
    is_first = today.endswith("-01")
    unpaid = [("tax.changed", plate) for plate in BRITISH * is_first]
    assert sweep() == [*lapsed, ("mot.ending", DUTCH[14]), ("mot.ending", DUTCH[28]), *unpaid]

    if mode == "replace":
        roll_back(world.engine, "rdw", None)
        assert sweep() == lapsed
        world.load_files(files[0], **options)
        assert sweep() == lapsed
