"""DELETE /v1/watches/{registration} (D183)."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.api.watches import EVENTS, ITEM, PATH, PLATE, cancel, load_policy, put, sweep
from tests.conftest import engine_independent
from tests.enquiry import set_watches_max


@pytest.fixture
def alice(world):
    """A client that watches a vehicle."""
    set_watches_max(world.engine, "standard", 3)
    client = world.client(world.alice_key)
    load_policy(world)
    put(client)
    return client


def delete(client, path=ITEM):
    """Delete a watch, and return status and code."""
    response = client.request("DELETE", path)
    return response.status_int, response.json["code"] if response.body else None


class Test204:
    def test_a_deleted_watch_is_gone(self, alice):
        """The plate can be sent in any form."""
        assert delete(alice, f"{PATH}/ab12%20cde") == (204, None)
        assert alice.get(ITEM).status_int == 404
        assert alice.get(PATH).json == {"watches": [], "next": None}

    def test_its_events_stay(self, alice, world):
        """The deletion brings no event, and no other event of the vehicle follows."""
        cancel(world)
        sweep(world)
        told = alice.get(EVENTS).json["events"]
        delete(alice)
        load_policy(world)
        sweep(world)
        assert [each["type"] for each in told] == ["insurance.changed"]
        assert alice.get(EVENTS).json["events"] == told

    def test_a_new_watch_starts_afresh(self, alice, world):
        """Its state is that of now."""
        cancel(world)
        delete(alice)
        created = put(alice)
        assert created.status_int == 201
        assert created.json["checks"]["insurance"]["reason"] == "cancelled"

    def test_of_two_deletions_at_once_one_succeeds(self, alice, world):
        """The others find nothing."""
        clients = [world.client(world.alice_key) for _ in range(4)]
        with ThreadPoolExecutor(len(clients)) as threads:
            answers = sorted(threads.map(delete, clients))
        assert answers == [(204, None), *[(404, "watch_not_found")] * 3]


class TestRefused:
    def test_watches_of_others_are_not_found(self, alice, bob):
        """And they stay."""
        assert delete(bob) == (404, "watch_not_found")
        assert alice.get(ITEM).json["registration"] == PLATE

    def test_a_wrong_request_deletes_nothing(self, alice, stranger):
        """Without a key, with a parameter or with another plate."""
        assert delete(stranger) == (401, "unauthorized")
        assert delete(alice, f"{ITEM}?force=true") == (400, "unknown_parameter")
        assert delete(alice, f"{PATH}/!!") == (400, "invalid_registration")
        assert delete(alice, f"{PATH}/AB12CD") == (404, "watch_not_found")
        assert alice.get(ITEM).status_int == 200


@engine_independent
def test_a_body_is_ignored(alice):
    """A body is read and ignored, as with GET."""
    assert alice.request("DELETE", f"{PATH}/ZZ9", body=b"{not json").status_int == 404
