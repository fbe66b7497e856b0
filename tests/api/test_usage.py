"""GET /v1/usage, and what is counted for it (D128)."""

from datetime import timedelta
from zoneinfo import ZoneInfo

import peewee
import pytest

from app import clock
from app.accounts.administration import create_key
from app.accounts.usage.report import By, Whose, usage_of_days
from app.config import Config
from app.vehicles.records import Records
from tests.conftest import engine_independent
from tests.rows import each_row

PATH = "/v1/usage"
CAR = {"registration": "AB12CDE", "make": "FORD"}
CLASSES = ("status2xx", "status4xx", "status429", "status5xx")
# 2026-11-22T12:00:00Z
NOON = 1_795_348_800
TODAY = clock.day_of(NOON, Config().timezone)


@pytest.fixture(autouse=True)
def noon(monkeypatch):
    """Stop the clock at noon, so that no day or month ends during a test."""
    monkeypatch.setattr(clock, "now", lambda: NOON)
    monkeypatch.setattr(clock, "today", lambda zone: clock.day_of(NOON, zone))


def used(client, query=""):
    """Return classes and vehicles by operation, of what the client's application has counted."""
    client.application.usage.flush()
    response = client.get(PATH + query)
    assert response.status_int == 200
    for item in response.json["usage"]:
        assert item["answers"] == sum(item[name] for name in CLASSES)
        assert item["day"] == TODAY.isoformat()
    return {
        item["operation"]: (*(item[name] for name in CLASSES), item["vehicles"])
        for item in response.json["usage"]
    }


class TestCounting:
    def test_look_ups(self, alice, world):
        """Known and unknown vehicles count; a plate that is none, or a bad request, does not."""
        world.load([CAR])
        for plate in ("AB12CDE", "ab12%20cde", "NONE1", "ABCDEFGHIJKLM", "AB12CDE?asOf=never"):
            path, _, query = plate.partition("?")
            alice.get(f"/v1/vehicle/{path}/insurance?{query}")
            alice.get(f"/v1/compliance/{path}?{query}")
        assert used(alice) == {"insurance": (2, 3, 0, 0, 3), "compliance": (2, 3, 0, 0, 3)}

    def test_bulk(self, alice, world):
        """A bulk request is one answer, and as many vehicles as its answer has items."""
        world.load([CAR])
        sent = {"registrations": ["AB12CDE", "AB12CDE", "NONE1", "?"]}
        for path in ("/v1/vehicle/bulk-insurance", "/v1/compliance/bulk"):
            assert alice.post(path, sent).json["processed"] == 4
            alice.post(path, {"registrations": []})
            alice.post(path, b"{")
        alice.get("/v1/compliance/bulk")
        assert used(alice) == {
            "bulk_insurance": (1, 2, 0, 0, 4),
            "bulk_compliance": (1, 2, 0, 0, 4),
            "compliance": (0, 1, 0, 0, 1),
        }

    def test_other_operations(self, alice):
        """Every operation has a name; HEAD counts as GET."""
        alice.post("/api/domains", {"name": "a.example"})
        alice.post("/api/domains", {"name": "a.example"})
        alice.get("/api/domains")
        alice.request("HEAD", "/api/domains")
        alice.get("/api/domains/a.example")
        alice.request("DELETE", "/api/domains/a.example")
        alice.get("/v1/account")
        alice.get("/metrics")
        assert used(alice) == {
            "create_domain": (1, 1, 0, 0, 0),
            "list_domains": (2, 0, 0, 0, 0),
            "get_domain": (1, 0, 0, 0, 0),
            "delete_domain": (1, 0, 0, 0, 0),
            "account": (1, 0, 0, 0, 0),
            "metrics": (0, 1, 0, 0, 0),
        }
        assert used(alice)["usage"] == (1, 0, 0, 0, 0)

    def test_what_does_not_exist(self, alice):
        """Paths and methods that do not exist, and OPTIONS, are `other`."""
        alice.get("/nothing")
        alice.get("/api/domains/")
        alice.request("PUT", "/api/domains")
        alice.request("OPTIONS", "/api/domains")
        assert used(alice) == {"get_domain": (0, 1, 0, 0, 0), "other": (1, 2, 0, 0, 0)}

    def test_open_paths_and_others_are_not_counted(self, alice, stranger, world):
        """Open paths are nobody's usage, with or without a key, and so is a wrong key."""
        for path in ("/healthz", "/readyz", "/docs", "/openapi.json", "/"):
            alice.get(path)
        wrong = {"X-API-Key": "nonsense"}
        for client in (stranger, alice):
            client.get("/v1/compliance/AB12CDE", headers=wrong)
            client.application.usage.flush()
        assert used(alice) == {}

    def test_refused_requests(self, world, carol):
        """429 is counted with the operation that was asked for."""
        for _ in range(3):
            carol.get("/v1/account")
        assert carol.get("/v1/compliance/AB12CDE").status_int == 429
        assert carol.get("/v1/vehicle/AB12CDE/insurance").status_int == 429
        assert carol.get("/nothing").status_int == 429
        carol.application.usage.flush()
        rows = usage_of_days(world.engine, TODAY, TODAY, (By.OPERATION,), Whose(account="carol"))
        assert {each.operation: each.by_class for each in rows} == {
            "account": (3, 0, 0, 0),
            "compliance": (0, 0, 1, 0),
            "insurance": (0, 0, 1, 0),
            "other": (0, 0, 1, 0),
        }

    def test_failures(self, alice, monkeypatch):
        """A look-up that failed is an answer without vehicles."""

        def fail(*_arguments, **_options):
            raise peewee.OperationalError("gone")

        with monkeypatch.context() as patched:
            patched.setattr(Records, "find_records", fail)
            assert alice.get("/v1/compliance/AB12CDE").status_int == 503
        assert used(alice) == {"compliance": (0, 0, 0, 1, 0)}


class Test200:
    def test_the_answer(self, alice):
        """Without parameters the answer is about the current month, until today."""
        alice.get("/v1/compliance/NONE1")
        alice.application.usage.flush()
        assert alice.get(PATH).json == {
            "firstDay": TODAY.replace(day=1).isoformat(),
            "lastDay": TODAY.isoformat(),
            "usage": [
                {
                    "day": TODAY.isoformat(),
                    "operation": "compliance",
                    "answers": 1,
                    "status2xx": 0,
                    "status4xx": 1,
                    "status429": 0,
                    "status5xx": 0,
                    "vehicles": 1,
                    "events": 0,
                }
            ],
        }

    def test_every_account_sees_its_own(self, world, alice, bob):
        """All keys of the account count, and none of others."""
        alice.get("/v1/account")
        second = world.client(create_key(world.engine, "alice")[1].text)
        second.get("/v1/account")
        second.application.usage.flush()
        assert used(alice) == {"account": (2, 0, 0, 0, 0)}
        assert used(bob) == {}

    def test_the_order(self, alice):
        """Items are in the order of days and operations."""
        for path in ("/v1/compliance/A1", "/v1/account", "/v1/vehicle/A1/insurance", "/x"):
            alice.get(path)
        assert list(used(alice)) == ["account", "compliance", "insurance", "other"]

    def test_both_days_are_included(self, alice):
        """`from` and `to` are the first and the last day; other days are left out."""
        alice.get("/v1/account")
        alice.application.usage.flush()
        before, after = TODAY - timedelta(days=1), TODAY + timedelta(days=1)
        for since, until, is_there in (
            (TODAY, TODAY, True),
            (before, TODAY, True),
            (TODAY, after, True),
            (before, before, False),
            (after, after, False),
        ):
            answer = alice.get(f"{PATH}?from={since}&to={until}").json
            assert (answer["firstDay"], answer["lastDay"]) == (str(since), str(until))
            assert bool(answer["usage"]) == is_there

    def test_from_is_the_first_of_the_month_of_to(self, alice):
        """Without `from` the answer begins with the month."""
        answer = alice.get(f"{PATH}?to=2026-02-28").json
        assert (answer["firstDay"], answer["lastDay"]) == ("2026-02-01", "2026-02-28")

    def test_400_days_can_be_asked_for(self, alice):
        """That is as long as days are kept."""
        since = TODAY - timedelta(days=399)
        assert alice.get(f"{PATH}?from={since}").status_int == 200
        assert alice.get(f"{PATH}?from={since}&to={TODAY}").status_int == 200

    def test_the_days_are_those_of_the_time_zone(self, world, monkeypatch):
        """Today, and the day of an answer, depend on VERIFYD_TIMEZONE (D20)."""
        # 2026-11-30T23:30:00Z
        monkeypatch.setattr(clock, "now", lambda: 1_796_081_400)
        monkeypatch.setattr(clock, "today", lambda zone: clock.day_of(1_796_081_400, zone))
        client = world.client(world.alice_key, timezone=ZoneInfo("Europe/Berlin"))
        client.get("/v1/account")
        client.application.usage.flush()
        answer = client.get(PATH).json
        assert (answer["firstDay"], answer["lastDay"]) == ("2026-12-01", "2026-12-01")
        assert [each["day"] for each in answer["usage"]] == ["2026-12-01"]

    def test_it_takes_a_token(self, alice, stopped_clock):
        """Asking costs a request like any other."""
        first, second = (int(alice.get(PATH).headers["X-RateLimit-Remaining"]) for _ in range(2))
        assert second == first - 1


@engine_independent
class Test400:
    @pytest.mark.parametrize("query", ["account=2", "since=2026-11-01", "From=2026-11-01"])
    def test_other_parameters_are_refused(self, alice, query):
        """The operation has two parameters."""
        assert alice.get(f"{PATH}?{query}").json["code"] == "unknown_parameter"

    @each_row(
        ("query", "detail"),
        [
            ("from=yesterday", "The parameter from must be a day as YYYY-MM-DD, such as"),
            ("to=20261101", "The parameter to must be a day as YYYY-MM-DD, such as"),
            ("to=2026-02-30", "The parameter to names a day that does not exist."),
            ("from=", "The parameter from must be a day"),
            ("from=2026-11-01&from=2026-11-02", "The parameter from is given more than once"),
            (
                "from=2026-11-02&to=2026-11-01",
                "The parameter from must not be after the parameter to.",
            ),
            ("from=9999-12-31", "The parameter from must not be after today."),
            ("from=2000-01-01", "The parameter from must be less than 400 days before today."),
            (
                "from=2025-09-27&to=2026-11-01",
                "The parameter from must be less than 400 days before the parameter to.",
            ),
        ],
    )
    def test_wrong_days_are_refused(self, alice, query, detail):
        """Days must be days, in their order, and at most 400 of them."""
        response = alice.get(f"{PATH}?{query}")
        assert (response.status_int, response.json["code"]) == (400, "invalid_parameter")
        assert response.json["detail"].startswith(detail)

    def test_the_limit_is_exact(self, alice):
        """From 2025-09-28 to 2026-11-01 there are 400 days."""
        assert alice.get(f"{PATH}?from=2025-09-28&to=2026-11-01").status_int == 200


@engine_independent
class Test401:
    def test_a_key_is_needed(self, stranger):
        """Without a key there is no account."""
        response = stranger.get(PATH)
        assert (response.status_int, response.json["code"]) == (401, "unauthorized")


class Test503:
    def test_a_lost_database(self, world, alice):
        """Usage cannot be read without the database; what was counted is not lost."""
        alice.get("/v1/account")
        world.store.lose()
        alice.application.usage.flush()
        response = alice.get(PATH)
        assert (response.status_int, response.json["code"]) == (503, "database_unavailable")
        world.store.give_back()
        assert used(alice)["account"] == (1, 0, 0, 0, 0)
