"""Requests whose account is deleted after their key was found."""

from typing import Any

import pytest

from app.accounts.administration import delete_account
from app.domains.repository import Domains
from app.watches.feed import Feed
from app.watches.repository import Watches
from tests.api.watches import EVENTS, ITEM, PATH, put
from tests.conftest import STORAGE, Client
from tests.enquiry import set_watches_max

pytestmark = STORAGE


def create_domain(client: Client) -> Any:
    return client.post("/api/domains", {"name": "a.example.com"})


def bulk_watch(client: Client) -> Any:
    return client.post(f"{PATH}/bulk", {"add": [{"registration": "AB12CDE"}]})


@pytest.fixture
def alice(world):
    """A client that may watch."""
    set_watches_max(world.engine, "standard", 10)
    return world.client(world.alice_key)


@pytest.fixture
def delete_before(world, monkeypatch):
    """`delete_before(owner, name)` lets alice be deleted when this function is called next."""

    def arrange(owner: type, name: str) -> None:
        called = getattr(owner, name)

        def deleting(self: object, *args: object, **kwargs: object) -> object:
            delete_account(world.engine, "alice", lambda _: 0)
            return called(self, *args, **kwargs)

        monkeypatch.setattr(owner, name, deleting)

    return arrange


@pytest.mark.parametrize(
    ("owner", "name", "send"),
    [
        (Domains, "create_domain", create_domain),
        (Watches, "change_watches", put),
        (Watches, "change_watches", bulk_watch),
    ],
)
def test_what_would_write_is_refused(alice, delete_before, caplog, owner, name, send):
    """The request is refused as the next one is, whose key is unknown, and nothing is logged."""
    delete_before(owner, name)
    answers = [send(alice), send(alice)]
    for answer in answers:
        assert answer.status_int == 401
        assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert answers[0].json["detail"] == answers[1].json["detail"]
    assert not caplog.records


@pytest.mark.parametrize(
    ("called", "sent", "status"),
    [
        ((Domains, "list_domains"), ("GET", "/api/domains"), 200),
        ((Domains, "delete_domain"), ("DELETE", "/api/domains/a.example.com"), 404),
        ((Watches, "list_watches"), ("GET", PATH), 200),
        ((Watches, "remove_watches"), ("DELETE", ITEM), 404),
        ((Feed, "list_events"), ("GET", EVENTS), 200),
    ],
)
def test_others_find_nothing(alice, delete_before, called, sent, status):
    """The account has nothing any more."""
    put(alice)
    delete_before(*called)
    assert [alice.request(*sent).status_int for _ in range(2)] == [status, 401]
