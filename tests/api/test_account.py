"""GET /v1/account."""

import pytest

from app import clock
from app.accounts.administration import create_key, set_plan
from tests.conftest import engine_independent
from tests.enquiry import set_watches_max

PATH = "/v1/account"


class Test200:
    def test_the_account_its_plan_and_its_key(self, alice, world):
        """The answer names the account, its limits, what is left and used, and the key."""
        alice.post("/api/domains", {"name": "a.example"})
        set_watches_max(world.engine, "standard", 5)
        sent = {"add": [{"registration": "A1"}, {"registration": "A2"}]}
        alice.post("/v1/watches/bulk", sent)
        response = alice.get(PATH)
        assert response.status_int == 200
        assert response.json == {
            "name": "alice",
            "plan": {
                "name": "standard",
                "requests": int(response.headers["X-RateLimit-Limit"]),
                "windowSeconds": 60,
                "bulkMax": 1_000,
                "domainsMax": 1_000,
                "watchesMax": 5,
                "enquiry": "off",
                "enquiryReasons": [],
                "suggest": False,
                "sandbox": False,
            },
            "requestsRemaining": int(response.headers["X-RateLimit-Remaining"]),
            "domainsUsed": 1,
            "watchesUsed": 2,
            "key": {
                # A key is `vfd_`, six characters of the account, and then its id (D3).
                "id": world.alice_key[10:18],
                "label": response.json["key"]["label"],
                "expiresAt": None,
                "only": None,
                "networks": [],
            },
        }

    def test_the_label_and_the_expiry_of_the_key(self, stranger, world):
        """A key with a label and an expiry has both in the answer, and never its secret."""
        expires_at = clock.now() + 3_600
        key = create_key(world.engine, "alice", "till 3", expires_at)[1]
        response = stranger.get(PATH, headers={"X-API-Key": key.text})
        assert response.json["key"] == {
            "id": key.key_id,
            "label": "till 3",
            "expiresAt": clock.iso_utc(expires_at),
            "only": None,
            "networks": [],
        }
        assert key.secret not in response.text

    def test_a_changed_plan_counts_from_the_next_request(self, alice, world):
        """The numbers are those that the request was admitted by."""
        limits = {"requests": 7, "window_seconds": 60, "bulk_max": 3, "domains_max": 2}
        set_plan(world.engine, "standard", limits)
        plan = alice.get(PATH).json["plan"]
        assert (plan["requests"], plan["bulkMax"]) == (7, 3)

    def test_what_look_ups_must_say(self, alice, world):
        """A client finds out without a look-up what it must send, and what it is shown."""
        limits = {"requests": 600, "window_seconds": 60, "bulk_max": 3, "domains_max": 2}
        set_plan(
            world.engine,
            "standard",
            limits,
            enquiry="required",
            reasons="THEFT, COLLISION",
            suggest="on",
        )
        plan = alice.get(PATH).json["plan"]
        assert (plan["enquiry"], plan["enquiryReasons"]) == ("required", ["THEFT", "COLLISION"])
        assert plan["suggest"] is True

    def test_it_takes_a_token(self, alice, stopped_clock):
        """Asking costs a request like any other."""
        first, second = (alice.get(PATH).json["requestsRemaining"] for _ in range(2))
        assert second == first - 1

    def test_every_account_sees_itself(self, alice, bob):
        """Nobody sees another account's name or domains."""
        alice.post("/api/domains", {"name": "a.example"})
        account = bob.get(PATH).json
        assert (account["name"], account["domainsUsed"]) == ("bob", 0)


@engine_independent
class Test400:
    @pytest.mark.parametrize("query", ["?name=bob", "?account=2"])
    def test_parameters_are_refused(self, alice, query):
        """The operation has no parameters."""
        assert alice.get(PATH + query).json["code"] == "unknown_parameter"


@engine_independent
class Test401:
    def test_a_key_is_needed(self, stranger):
        """Without a key there is no account."""
        response = stranger.get(PATH)
        assert (response.status_int, response.json["code"]) == (401, "unauthorized")
