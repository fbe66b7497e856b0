"""`verifyd usage`: tables, JSON and CSV of what accounts have used (D128)."""

import csv
from datetime import UTC

import pytest

from app import clock
from app.accounts.administration import create_account, create_key, delete_account, require_account
from app.accounts.authentication import Authenticator
from app.accounts.usage.counts import Counts
from app.accounts.usage.store import UsageWriter, add_events
from app.audit.owner import claim
from app.config import Config
from app.routes import OPERATIONS
from app.storage.engine import close_quietly, open_engine
from app.storage.versions import database_id
from tests.conftest import STORAGE

INSURANCE = "/v1/vehicle/{registration}/insurance"
BULK = "/v1/compliance/bulk"
# 2026-11-22T12:00:00Z
NOW = 1_795_348_800
DAY = 86_400


class Usage:
    """Writes usage as the service does."""

    def __init__(self, url, monkeypatch):
        self.engine = open_engine(url)
        self._monkeypatch = monkeypatch
        self.travel(0)

    def travel(self, seconds):
        """Set the clock."""
        now = NOW + seconds
        self._monkeypatch.setattr(clock, "now", lambda: now)
        self._monkeypatch.setattr(clock, "today", lambda zone: clock.day_of(now, zone))

    def key(self, account):
        """Return the caller with a new key of an account."""
        key = create_key(self.engine, account)[1].text
        return Authenticator(self.engine).find_caller(key)

    def add(self, caller, *answers, days_ago=0):
        """Count answers, each a path, a method, a status and the number of vehicles."""
        self.travel(-days_ago * DAY)
        counts = Counts(OPERATIONS)
        for answer in answers:
            counts.add(caller, *answer)
        config = Config.from_env()
        UsageWriter(counts, self.engine, config.timezone, config.data_dir).flush()
        self.travel(0)


@pytest.fixture
def usage(cli, monkeypatch):
    usage = Usage(cli.database_url, monkeypatch)
    for name in ("acme", "other"):
        create_account(usage.engine, name, "standard")
    yield usage
    close_quietly(usage.engine)


@pytest.fixture
def acme(usage):
    """A caller with usage in two months; `other` has some, too."""
    caller = usage.key("acme")
    usage.add(caller, (INSURANCE, "GET", 200, 1), (INSURANCE, "GET", 404, 1), days_ago=1)
    usage.add(caller, (BULK, "POST", 200, 1_000), (BULK, "POST", 429, 0))
    usage.add(caller, (INSURANCE, "GET", 503, 0), days_ago=31)
    usage.add(usage.key("other"), (INSURANCE, "GET", 200, 1))
    return caller


@STORAGE
def test_accounts_of_this_month(cli, usage, acme):
    """By default there is a line for each account, about the current month; events are apart."""
    add_events(usage.engine, require_account(usage.engine, "other").id, "other", 3, UTC)
    assert cli.run("usage").stdout == (
        "account  answers  2xx  4xx  429  5xx  vehicles  events\n"
        "acme     4        2    1    1    0    1,002     0\n"
        "other    1        1    0    0    0    1         3\n"
        "\n"
        "5 answers, 1,003 vehicles and 3 events in 2026-11\n"
    )


def test_another_month(cli, acme):
    """`--month` names any month."""
    (item,) = cli.json("usage", "--month", "2026-10")
    assert item == {
        "account": "acme",
        "answers": 1,
        "2xx": 0,
        "4xx": 0,
        "429": 0,
        "5xx": 1,
        "vehicles": 0,
        "events": 0,
    }
    assert cli.json("usage", "--month", "2026-09") == []


def test_one_account(cli, acme):
    """`--account` leaves others out."""
    assert [each["account"] for each in cli.json("usage", "--account", "other")] == ["other"]


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("day", [("2026-11-21", 2), ("2026-11-22", 2)]),
        ("operation", [("bulk_compliance", 2), ("insurance", 2)]),
        ("hour", [("2026-11-21T12:00:00Z", 2), ("2026-11-22T12:00:00Z", 2)]),
    ],
)
@STORAGE
def test_by_something(cli, acme, by, expected):
    """`--by` adds a column, and a line for each of its values."""
    items = cli.json("usage", "--by", by, "--account", "acme")
    assert [(each[by], each["answers"]) for each in items] == expected


def test_by_key(cli, usage, acme):
    """Keys have their public ids, as `keys list` shows them."""
    second = usage.key("acme")
    usage.add(second, (INSURANCE, "GET", 200, 1))
    items = cli.json("usage", "--by", "key", "--account", "acme")
    assert {each["key"]: each["answers"] for each in items} == {acme.key_id: 4, second.key_id: 1}


def test_csv_is_for_programs(cli, acme):
    """Numbers have no separators, lines end as spreadsheets expect, and no sentence follows."""
    out = cli.run("usage", "--csv", "--by", "day").stdout
    assert out.splitlines()[0] == "account,day,answers,2xx,4xx,429,5xx,vehicles,events"
    assert "acme,2026-11-22,2,1,0,1,0,1000,0\r\n" in out
    assert len(list(csv.reader(out.splitlines()))) == 4


def test_csv_begins_no_formula(cli, usage):
    """The name of an account cannot run as a formula in a spreadsheet."""
    create_account(usage.engine, '=1+1, "x"', "standard")
    usage.add(usage.key('=1+1, "x"'), (INSURANCE, "GET", 200, 1))
    _, (name, *_) = csv.reader(cli.run("usage", "--csv").stdout.splitlines())
    assert name == '\'=1+1, "x"'


def test_a_deleted_account_is_still_billed(cli, usage, acme):
    """Its usage is shown under its name, also with `--account`."""
    delete_account(usage.engine, "acme", lambda _: 0)
    (item,) = cli.json("usage", "--account", "acme")
    assert item["answers"] == 4


def test_an_account_without_usage(cli, usage):
    """An account that exists and has used nothing has no line."""
    assert cli.json("usage", "--account", "acme") == []
    assert cli.run("usage", "--account", "acme").stdout.endswith(
        "0 answers, 0 vehicles and 0 events in 2026-11\n"
    )


def test_an_unknown_account_is_refused(cli, usage):
    """A mistyped name is not an account without usage."""
    told = 'there is no account named acmee; see "verifyd accounts list"\n'
    assert cli.refusal("usage", "--account", "acmee") == told


@STORAGE
def test_the_month_is_that_of_the_time_zone(cli, usage, monkeypatch):
    """The current month, like days, depends on VERIFYD_TIMEZONE (D20)."""
    monkeypatch.setenv("VERIFYD_TIMEZONE", "Pacific/Auckland")
    usage.travel(8 * DAY)  # In Auckland it is December already.
    usage.add(usage.key("acme"), (INSURANCE, "GET", 200, 1), days_ago=-8)
    usage.travel(8 * DAY)
    assert cli.run("usage").stdout.endswith("1 answer, 1 vehicle and 0 events in 2026-12\n")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--month", "2026-13"), "argument --month: names a month that does not exist"),
        (("--month", "november"), "argument --month: must be a month as YYYY-MM"),
        (("--by", "week"), "argument --by: must be key, day, hour or operation, not 'week'"),
        (("--csv", "--json"), "argument --csv: not allowed with argument --json"),
        (("--by", "hour", "--month", "2026-10"), "argument --month: not allowed with --by hour"),
    ],
)
def test_misuse(cli, words, told):
    """Options that do not fit are refused, and the message says why."""
    assert told in cli.misuse("usage", *words)


def test_a_report_of_the_audit_trail_has_the_refusals(cli, usage, acme, monkeypatch):
    """Look-ups that were not answered, by account; requests of other operations are none."""
    monkeypatch.setenv("VERIFYD_AUDIT", "on")
    claim(cli.directory / "audit", database_id(usage.engine))
    usage.add(usage.key("other"), ("/v1/account", "GET", 429, 0))
    words = ("audit", "report", "--from", "2026-11-01", "--to", "2026-11-22")
    assert cli.json(*words)["refusals"] == [
        {"account": "acme", "refused": 1, "limited": 1, "failed": 0}
    ]
    assert cli.json(*words[:2], "--from", "0001-01-01")["refusals"] == [
        {"account": "acme", "refused": 1, "limited": 1, "failed": 1}
    ]
    monkeypatch.setenv("VERIFYD_DATABASE_URL", f"sqlite:///{cli.directory}/missing.db")
    assert cli.json(*words)["refusals"] is None
