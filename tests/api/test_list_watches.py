"""GET /v1/watches (D183)."""

import pytest

from tests.api.watches import PATH, load_policy, put
from tests.conftest import engine_independent
from tests.enquiry import set_watches_max
from tests.rows import each_row

PLATES = ["A1", "B2", "B23", "C3", "Ж777Ж"]


@pytest.fixture
def alice(world):
    """A client that watches some vehicles."""
    set_watches_max(world.engine, "standard", 300)
    client = world.client(world.alice_key)
    client.post(f"{PATH}/bulk", {"add": [{"registration": each} for each in reversed(PLATES)]})
    return client


def plates(answer):
    """Return the plates of a page, and where the next one begins."""
    return [each["registration"] for each in answer.json["watches"]], answer.json["next"]


class Test200:
    def test_watches_come_by_plate(self, alice):
        """In the order of code points, on both databases."""
        assert plates(alice.get(PATH)) == (PLATES, None)

    def test_each_is_as_a_single_one(self, alice, world):
        """With the state that was told last; no register is read."""
        before = alice.get(PATH).json["watches"]
        load_policy(world, "A1")
        assert alice.get(PATH).json["watches"] == before
        assert alice.get(f"{PATH}/B2").json == before[1]

    def test_pages_lead_to_each_other(self, alice):
        """Each page says where the next one begins; the last one says nothing."""
        found: list[list[str]] = []
        following: str | None = ""
        while following is not None:
            after = f"&after={following}" if following else ""
            page, following = plates(alice.get(f"{PATH}?limit=2{after}"))
            found.append(page)
        assert found == [PLATES[:2], PLATES[2:4], PLATES[4:]]

    def test_a_full_last_page_has_no_next(self, alice):
        """Nobody asks for an empty page."""
        assert plates(alice.get(f"{PATH}?limit=5")) == (PLATES, None)

    def test_a_page_begins_after_any_plate(self, alice):
        """Also after one that is not watched, in any form."""
        assert plates(alice.get(f"{PATH}?after=b-21"))[0] == PLATES[2:]

    def test_a_page_has_a_hundred_by_default(self, alice):
        """More come with `limit`."""
        many = [{"registration": f"X{number}"} for number in range(120)]
        alice.post(f"{PATH}/bulk", {"add": many})
        assert len(plates(alice.get(PATH))[0]) == 100
        assert len(plates(alice.get(f"{PATH}?limit=1000"))[0]) == 125

    def test_every_account_sees_its_own(self, alice, bob):
        """Watches of others are not listed."""
        put(bob, f"{PATH}/B2", reference="mine")
        assert plates(bob.get(PATH)) == (["B2"], None)
        assert alice.get(f"{PATH}/B2").json["reference"] is None

    def test_it_takes_one_statement(self, alice, statements):
        """However many watches there are, besides the one that checks the key."""
        alice.get(PATH)
        with statements() as seen:
            alice.get(PATH)
        assert len([each for each in seen if '"watch"' in each]) == 1


@engine_independent
class Test400:
    @each_row(
        "query",
        ["limit=0", "limit=1001", "limit=x", "limit=1&limit=2", "after=!!", "after=", "after=%00"],
    )
    def test_a_wrong_parameter_is_refused(self, client, query):
        """The error names it."""
        answer = client.get(f"{PATH}?{query}")
        assert answer.json["code"] == "invalid_parameter"
        assert query.partition("=")[0] in answer.json["detail"]

    def test_an_unknown_parameter_is_refused(self, client):
        """A misspelt one would change the answer."""
        assert client.get(f"{PATH}?page=2").json["code"] == "unknown_parameter"

    @pytest.fixture
    def client(self, world):
        return world.client(world.alice_key)


@engine_independent
def test_a_key_is_needed(stranger):
    """Without a key nothing is listed."""
    assert stranger.get(PATH).status_int == 401
