"""Every request takes a token; every answer shows the rest (D5, D7, D11)."""

import json
from typing import Any

import pytest

from app.accounts.administration import create_key, set_account_plan
from app.accounts.models import Account, ApiKey
from app.domains.repository import Domain
from tests.api.rate_limits import DOMAINS, NOW, OPEN, limit, plan, remaining, reset, use_up

JSON = {"Content-Type": "application/json"}


class TestHeaders:
    def test_spec_8_2_limit_is_the_plans(self, alice, carol):
        """X-RateLimit-Limit is the plan's number of requests per window."""
        assert (limit(alice.get(DOMAINS)), limit(carol.get(DOMAINS))) == (600, 3)

    def test_spec_8_2_remaining_counts_down(self, carol):
        """X-RateLimit-Remaining is the number of requests left after this one."""
        assert [remaining(carol.get(DOMAINS)) for _ in range(4)] == [2, 1, 0, 0]

    def test_spec_8_2_reset_is_when_all_is_back(self, carol, stopped_clock):
        """X-RateLimit-Reset is the Unix time at which the bucket is full again."""
        assert [reset(carol.get(DOMAINS)) - NOW for _ in range(4)] == [20, 40, 60, 60]
        stopped_clock.pass_seconds(5.5)
        assert reset(carol.get(DOMAINS)) == NOW + 60

    def test_reset_is_rounded_up(self, carol, stopped_clock):
        """The bucket is completely full at that second."""
        stopped_clock.pass_seconds(0.25)
        assert reset(carol.get(DOMAINS)) == NOW + 21

    def test_a_bulk_request_takes_one_token(self, carol):
        """A bulk request counts as one, however many registrations it has."""
        body = {"registrations": ["AB12CDE"] * 5}
        assert remaining(carol.post("/v1/vehicle/bulk-insurance", body)) == 2

    @pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "DELETE", "POST"])
    @pytest.mark.parametrize("path", [DOMAINS, "/nothing", "/v1/vehicle/x/insurance"])
    def test_every_request_takes_one_token(self, carol, method, path):
        """Unknown paths, other methods and refusals count like any request (D5)."""
        assert remaining(carol.request(method, path)) == 2
        assert remaining(carol.get(DOMAINS)) == 1

    def test_refusals_of_the_body_take_one_token(self, carol):
        """413, 415 and 400 have the headers and count."""
        large = carol.request("POST", DOMAINS, body=b"x" * (1024 * 1024 + 1), headers=JSON)
        other = carol.request("POST", DOMAINS, body=b"{}", headers={"Content-Type": "text/html"})
        wrong = carol.request("POST", DOMAINS, body=b"{", headers=JSON)
        assert [each.status_int for each in (large, other, wrong)] == [413, 415, 400]
        assert [remaining(each) for each in (large, other, wrong)] == [2, 1, 0]

    def test_a_fault_of_the_service_takes_one_token(self, carol, world, caplog):
        """A 500 has the headers of the account, too."""
        carol.post(DOMAINS, {"name": "a.example"})
        Domain.update(created_at=10**17).execute(world.engine)  # No calendar has such a day.
        response = carol.get(DOMAINS)
        assert (response.status_int, limit(response), remaining(response)) == (500, 3, 1)


def test_the_example_of_the_documentation_holds(stopped_clock, alice):
    """Of 610 requests on a full bucket 10 get 429, and all of them succeed a second later."""
    use_up(alice, 600)
    refused = [alice.get(DOMAINS) for _ in range(10)]
    assert {each.status_int for each in refused} == {429}
    assert {each.headers["Retry-After"] for each in refused} == {"1"}
    stopped_clock.pass_seconds(1)
    use_up(alice, 10)
    assert alice.get(DOMAINS).status_int == 429
    stopped_clock.pass_seconds(60)
    assert remaining(alice.get(DOMAINS)) == 599


class TestAccounts:
    def test_all_keys_of_an_account_share_its_bucket(self, world, carol):
        """A second key has no limit of its own."""
        other = world.client(create_key(world.engine, "carol")[1].text)
        assert [remaining(each.get(DOMAINS)) for each in (carol, other, carol)] == [2, 1, 0]
        assert other.get(DOMAINS).status_int == 429

    def test_accounts_do_not_share_a_bucket(self, carol, alice, bob):
        """One account's requests do not affect another's limit."""
        use_up(carol)
        assert carol.get(DOMAINS).status_int == 429
        assert remaining(alice.get(DOMAINS)) == 599
        assert remaining(bob.get(DOMAINS)) == 599

    def test_all_applications_share_the_buckets(self, world, carol, carol_key):
        """Applications with the same state directory share the counts (D11)."""
        others = [world.client(carol_key) for _ in range(2)]
        assert [remaining(each.get(DOMAINS)) for each in (carol, *others)] == [2, 1, 0]

    def test_a_plan_change_counts_from_the_next_request(self, carol, world, stopped_clock):
        """The next request has the new limit; an account above it waits an interval (D12)."""
        use_up(carol, 2)
        plan(world, requests=600)
        assert (limit(carol.get(DOMAINS)), remaining(carol.get(DOMAINS))) == (600, 198)
        plan(world, requests=1, window_seconds=10)
        refused = carol.get(DOMAINS)
        assert (refused.status_int, limit(refused)) == (429, 1)
        assert refused.headers["Retry-After"] == "10"
        stopped_clock.pass_seconds(10)
        assert carol.get(DOMAINS).status_int == 200

    def test_another_plan_counts_from_the_next_request(self, carol, world):
        """An account that is moved to another plan has its limit at once."""
        use_up(carol)
        set_account_plan(world.engine, "carol", "free")
        assert limit(carol.get(DOMAINS)) == 60

    def test_an_account_beyond_the_last_bucket_is_refused(self, carol, world, caplog):
        """An account without a slot gets 503, and never another account's bucket (D11)."""
        engine, is_carol = world.engine, Account.name == "carol"
        values: Any = Account.select().where(is_carol).dicts().get(engine)
        Account.update(name="former", tag="former").where(is_carol).execute(engine)
        Account.insert(**values | {"id": 1_048_577}).execute(engine)
        ApiKey.update(account=1_048_577).where(ApiKey.account == values["id"]).execute(engine)
        response = carol.get(DOMAINS)
        assert (response.status_int, response.json["code"]) == (503, "service_unavailable")
        assert "account 1,048,577 has no bucket" in caplog.text


class Test429:
    def test_spec_8_3_429_when_the_limit_is_exceeded(self, carol):
        """The request beyond the limit gets 429 with a problem body."""
        use_up(carol)
        response = carol.get(DOMAINS)
        assert (response.status_int, response.json["code"]) == (429, "rate_limit_exceeded")
        assert response.json["title"] == "Too Many Requests"
        assert "3 requests in 60 s" in response.json["detail"]

    def test_retry_after_is_kept(self, carol, stopped_clock):
        """A client is admitted after Retry-After seconds, and refused one second earlier."""
        use_up(carol)
        wait = int(carol.get(DOMAINS).headers["Retry-After"])
        assert wait == 20
        stopped_clock.pass_seconds(wait - 1)
        assert carol.get(DOMAINS).headers["Retry-After"] == "1"
        stopped_clock.pass_seconds(1)
        assert carol.get(DOMAINS).status_int == 200

    def test_a_refusal_takes_nothing(self, carol, stopped_clock):
        """A refused account is served as soon as its token is back."""
        use_up(carol)
        for _ in range(50):
            assert carol.get(DOMAINS).status_int == 429
        stopped_clock.pass_seconds(20)
        assert carol.get(DOMAINS).status_int == 200

    @pytest.mark.parametrize("path", ["/nothing", "/v1/compliance/AB12CDE"])
    @pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "DELETE", "POST"])
    def test_it_comes_before_path_method_and_body(self, carol, method, path):
        """An empty bucket is reported before any other error (D5)."""
        use_up(carol)
        response = carol.request(method, path, body=b"x" * (1024 * 1024 + 1))
        assert (response.status_int, remaining(response)) == (429, 0)

    def test_nothing_is_done(self, carol, world, statements):
        """A refused request runs one query at most, that of the key."""
        use_up(carol)
        with statements() as seen:
            carol.post(DOMAINS, {"name": "a.example"})
        assert all('"api_key"' in each for each in seen)
        assert len(seen) <= 1


def test_spec_7_429_too_many_requests(carol):
    """More requests than the plan allows get 429."""
    use_up(carol)
    response = carol.get(DOMAINS)
    assert (response.status_int, response.json["title"]) == (429, "Too Many Requests")


def test_every_number_is_one(carol, stranger):
    """The three headers are whole numbers without sign or spaces, on every answer."""
    for client in (carol, stranger):
        for path in (DOMAINS, "/nothing", *OPEN):
            headers = client.get(path).headers
            for name in ("Limit", "Remaining", "Reset"):
                value = headers.getall(f"X-RateLimit-{name}")
                assert len(value) == 1
                assert value[0].isascii()
                assert value[0].isdigit()
                assert json.loads(value[0]) >= 0
