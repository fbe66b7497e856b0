"""DELETE /api/domains/{domain}."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from app.accounts.administration import require_account, set_plan
from app.domains.repository import Domains
from tests.conftest import engine_independent

PATH = "/api/domains/a.example"


@pytest.fixture
def created(alice):
    """A domain of alice."""
    return alice.post("/api/domains", {"name": "a.example"}).json


def delete(client, path=PATH):
    """Delete a domain, and return status and code."""
    response = client.request("DELETE", path)
    return response.status_int, response.json["code"] if response.body else None


def set_status(world, status):
    """Set the status of alice's domain, as the operator does."""
    account = require_account(world.engine, "alice")
    Domains(world.engine).set_status(account.id, "a.example", status)


class Test204:
    def test_a_deleted_domain_is_gone(self, alice, created):
        """The answer has no body, and the domain is neither found nor listed."""
        assert delete(alice) == (204, None)
        assert alice.get(PATH).json["code"] == "domain_not_found"
        assert alice.get("/api/domains").json == {"domains": []}

    @pytest.mark.parametrize("name", ["A.EXAMPLE", "a.example.", "%61.example"])
    def test_any_notation_of_the_name_is_accepted(self, alice, created, name):
        """The name is found as in the other operations."""
        assert delete(alice, f"/api/domains/{name}") == (204, None)

    def test_the_name_can_be_created_again(self, alice, created):
        """A new domain of the same name has a new id."""
        delete(alice)
        again = alice.post("/api/domains", {"name": "a.example"})
        assert again.status_int == 201
        assert again.json["id"] != created["id"]

    def test_a_deletion_makes_room_in_the_plan(self, alice, world, created):
        """A deleted domain no longer counts as one of the plan's."""
        limits = {"requests": 600, "window_seconds": 60, "bulk_max": 1}
        set_plan(world.engine, "standard", {**limits, "domains_max": 1})
        assert alice.post("/api/domains", {"name": "b.example"}).status_int == 403
        delete(alice)
        assert alice.post("/api/domains", {"name": "b.example"}).status_int == 201

    @engine_independent
    def test_a_body_is_ignored(self, alice, created):
        """A body is read and ignored, as with GET."""
        response = alice.request("DELETE", PATH, body=b"{not json")
        assert response.status_int == 204

    def test_of_two_deletions_at_once_one_succeeds(self, alice, world, created):
        """Of many requests at once for one domain, one gets 204 and the others 404."""
        clients = [world.client(world.alice_key) for _ in range(4)]
        with ThreadPoolExecutor(len(clients)) as threads:
            answers = sorted(threads.map(delete, clients))
        assert answers == [(204, None), *[(404, "domain_not_found")] * 3]


class Test400:
    @engine_independent
    def test_parameters_are_refused(self, alice, created):
        """The operation has no parameters, and deletes nothing if one is sent."""
        assert delete(alice, f"{PATH}?force=true") == (400, "unknown_parameter")
        assert alice.get(PATH).status_int == 200


class Test401:
    @engine_independent
    def test_a_key_is_needed(self, stranger, alice, created):
        """Without a key nothing is deleted."""
        assert delete(stranger) == (401, "unauthorized")
        assert alice.get(PATH).status_int == 200


class Test404:
    def test_an_unknown_domain_is_not_found(self, alice):
        """Deleting a domain that is not there, or once more, gets 404."""
        assert delete(alice) == (404, "domain_not_found")

    @engine_independent
    @pytest.mark.parametrize("name", ["localhost", "%00", "a" * 64 + ".example"])
    def test_an_impossible_name_is_not_found(self, alice, name):
        """A text that is no domain name gets the same code."""
        assert delete(alice, f"/api/domains/{name}") == (404, "domain_not_found")

    def test_domains_of_others_are_not_found(self, bob, alice, created):
        """Nobody deletes, or learns of, another account's domain."""
        assert delete(bob) == (404, "domain_not_found")
        assert alice.get(PATH).json == created


class Test409:
    def test_a_suspended_domain_stays(self, alice, world, created):
        """Deleting and creating again must not lift a suspension."""
        set_status(world, "suspended")
        assert delete(alice) == (409, "domain_suspended")
        assert alice.get(PATH).json == created | {"status": "suspended"}

    def test_an_activated_domain_can_be_deleted(self, alice, world, created):
        """The operator lifts the suspension; then the account may delete."""
        set_status(world, "suspended")
        set_status(world, "active")
        assert delete(alice) == (204, None)
