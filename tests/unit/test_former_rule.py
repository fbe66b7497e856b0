"""By the rule of 1.0.0 answers, CSV files and records are the same bytes as before (D198).

`former_rule.txt` was written by the program before it could tell what is not known.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app import clock
from app.accounts.administration import set_plan
from app.audit.export import COLUMNS, csv_lines, csv_of
from app.audit.record import find_record
from app.audit.segments import list_segments
from app.storage.versions import set_tells_unknown
from tests.conftest import STORAGE

pytestmark = STORAGE

RECORDED = Path(__file__).with_name("former_rule.txt")
NOW = 1_781_524_800  # Noon of 15 June 2026.
UPDATED = "2026-01-10T12:00:00Z"
LATER = {"registration": "COVERED", "number": "P2", "validFrom": "2026-12-01"}
VEHICLES: list[dict[str, Any]] = [
    {"registration": "SILENT"},
    {"registration": "YES", "insured": True, "motExempt": True, "taxStatus": "taxed"},
    {"registration": "NO", "insured": False, "taxStatus": "sorn", "taxDue": "2026-08-31"},
    {"registration": "YESENDED", "insured": True, "motExpiry": "2026-06-14"},
    {
        "registration": "COVERED",
        "make": "Ford",
        "motExpiry": "2027-03-01",
        "taxStatus": "taxed",
        "taxDue": "2026-08-31",
    },
]
POLICIES = [
    {"registration": "YESENDED", "number": "P1", "validFrom": "2026-01-01"},
    {"registration": "COVERED", "number": "P1", "validFrom": "2026-01-01"},
]
ENDS = {"YESENDED": "2026-05-31", "COVERED": "2026-12-31"}
PLATES = [*(each["registration"] for each in VEHICLES), "LATER", "ZZ9", "!?"]
QUESTIONS: dict[str, dict[str, Any]] = {
    "": {},
    "asOf=2010-03-01&explain=true": {"asOf": "2010-03-01", "explain": True},
    "from=2026-06-01&to=2026-09-01": {"from": "2026-06-01", "to": "2026-09-01"},
    "details=true": {"details": True},
}


@pytest.fixture
def cli(bare_cli, world, monkeypatch):
    """The command line on a world with vehicles in two registers, and one policy alone."""
    for name, value in {
        "VERIFYD_DATABASE_URL": world.store.url,
        "VERIFYD_STATE_DIR": str(world.config.state_dir),
        "VERIFYD_DATA_DIR": str(world.directory),
        "VERIFYD_AUDIT": "on",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(clock, "now", lambda: NOW)
    set_tells_unknown(world.engine, tells=False)
    limits = {"requests": 1_000, "window_seconds": 60, "bulk_max": 100, "domains_max": 100}
    set_plan(world.engine, "standard", limits)
    world.load([each | {"lastUpdated": UPDATED} for each in VEHICLES], register="native")
    policies = [each | {"validTo": ENDS[each["registration"]]} for each in POLICIES]
    policies.append(LATER | {"registration": "LATER", "validTo": "2027-11-30"})
    world.load([each | {"lastUpdated": UPDATED} for each in policies], register="mid")
    return bare_cli


def answers(client) -> Iterator[str]:
    """Yield the body of each answer of the API."""
    for query, members in QUESTIONS.items():
        for plate in PLATES[:-1]:
            for path in (f"/v1/vehicle/{plate}/insurance", f"/v1/compliance/{plate}"):
                if "explain" not in members or "compliance" in path:
                    yield without_loaded(client.get(f"{path}?{query}"))
        for path in ("/v1/vehicle/bulk-insurance", "/v1/compliance/bulk"):
            if "explain" not in members or "compliance" in path:
                yield without_loaded(client.post(path, {"registrations": PLATES} | members))


def without_loaded(answer) -> str:
    """Return a body without its request, and without `loaded`, which is new by both rules."""
    text = re.sub(r'"request_id":"[0-9a-f]+"', '"request_id":""', answer.text)
    return re.sub(r',"loaded":(?:\{[^}]*\}|null|"[^"]*")', "", text)


def recorded(directory) -> Iterator[str]:
    """Yield the lines of the trail, and of commands as CSV, without what differs each time."""
    segments = [directory / each.file_name for each in list_segments(directory)]
    lines = [line for path in segments for line in path.read_bytes().splitlines()]
    blank = rb'"(time|request_id|key|login|sudo_user)":"[^"]*"'
    lines = [re.sub(blank, rb'"\1":""', line) for line in lines]
    yield from (line.decode() for line in lines)
    # The export has two columns more, which are empty.
    yield csv_of([COLUMNS]).decode().strip().removesuffix(",rule,unknown")
    for line in lines:
        record = find_record(line)
        assert record is not None
        if record.operation == "lookup":
            yield csv_lines(record).decode().replace(",,\r\n", "\r\n")


def test_what_was_answered_is_answered(world, cli):
    """Each answer, each cell and each record, also about other days."""
    client = world.client(world.alice_key, audit=True)
    told = list(answers(client))
    file = cli.file("plates.csv", "plate", *PLATES)
    for words in ((), ("--from", "2026-06-01", "--to", "2026-09-01")):
        assert cli.run("lookup", *PLATES[:3], *words).status == 0
        told.append(cli.run("lookup", "--csv", file, *words).stdout)
    told += recorded(world.config.audit_dir)
    text = "".join(f"{each}\n" for each in told)
    assert text.encode().split(b"\n") == RECORDED.read_bytes().split(b"\n")
