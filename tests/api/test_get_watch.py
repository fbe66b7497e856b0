"""GET /v1/watches/{registration} (D183)."""

import pytest

from tests.api.watches import ITEM, PATH, PLATE, load_policy, put, sweep
from tests.conftest import ON_SQLITE, engine_independent
from tests.enquiry import set_enquiry, set_watches_max
from tests.rows import each_row
from tests.unit.audit_trails import lines


@pytest.fixture(autouse=True)
def _allowed(request):
    if "world" in request.fixturenames:
        set_watches_max(request.getfixturevalue("world").engine, "standard", 3)


class Test200:
    def test_it_is_the_answer_to_put(self, alice):
        """The plate can be sent in any form."""
        created = put(alice, leadDays=[7]).json
        assert alice.get(f"{PATH}/ab12-cde").json == created

    def test_nothing_is_looked_up(self, alice, world, statements):
        """The state is the one that was told last, whatever the registers say by now (D187)."""
        created = put(alice).json
        load_policy(world)
        alice.get(ITEM)
        with statements() as seen:
            assert alice.get(ITEM).json == created
        assert [each for each in seen if "register_native" in each] == []

    def test_no_reason_is_needed(self, alice, world):
        """It was given with the watch."""
        put(alice)
        set_enquiry(world.engine, "standard", "required")
        assert alice.get(ITEM).status_int == 200

    def test_head_has_no_body(self, alice):
        """HEAD answers like GET."""
        put(alice)
        assert alice.request("HEAD", ITEM).status_int == 200


@engine_independent
class Test400:
    def test_a_text_that_is_no_plate_is_refused(self, alice):
        """A plus sign is explained, as in a look-up."""
        answer = alice.get(f"{PATH}/AB12+CDE")
        assert answer.json["code"] == "invalid_registration"
        assert answer.json["detail"].endswith("A space in a path is %20, not a plus sign.")

    def test_there_are_no_parameters(self, alice):
        """A day cannot be asked for."""
        assert alice.get(f"{ITEM}?asOf=2026-01-01").json["code"] == "unknown_parameter"


@engine_independent
def test_a_key_is_needed(stranger):
    """Without a key there is no answer."""
    assert stranger.get(ITEM).status_int == 401


class Test404:
    @each_row("path", [ITEM, f"{PATH}/bulk"])
    def test_a_vehicle_that_is_not_watched_is_not_found(self, alice, path):
        """Also the plate BULK."""
        assert alice.get(path).json["code"] == "watch_not_found"

    def test_watches_of_others_are_not_found(self, alice, bob):
        """Nobody learns what others watch."""
        put(alice)
        assert bob.get(ITEM).json["code"] == "watch_not_found"


@engine_independent
def test_405_has_the_methods(alice):
    """A watch is set with PUT."""
    answer = alice.post(ITEM, {})
    assert answer.status_int == 405
    assert answer.headers["Allow"] == "GET, HEAD, PUT, DELETE, OPTIONS"
    assert PLATE not in answer.text


class TestTrail:
    """Answers show only states that the trail has (D187)."""

    @pytest.mark.parametrize("path", [ITEM, PATH])
    def test_a_state_that_was_stored_without_it_is_recorded_when_it_is_shown(
        self, alice, world, path
    ):
        """With the reason and the reference of the watch, until a sweep has recorded it."""
        set_enquiry(world.engine, "standard", "optional")
        put(alice, headers={"Enquiry-Reason": "THEFT"}, reference="CASE 1")
        trail = world.directory / "audit"
        client = world.client(world.alice_key, audit=True, audit_dir=trail)
        assert client.get(path).json == alice.get(path).json
        (record,) = lines(trail)
        assert record["operation"] == ("get_watch" if path == ITEM else "list_watches")
        assert (record["reason"], record["reference"]) == ("THEFT", "CASE 1")
        assert record["plates"] == [{"plate": PLATE, "found": False}]
        sweep(world, records=True)
        client.get(path)
        assert len(list(lines(trail))) == 1

    @ON_SQLITE
    def test_a_state_that_cannot_be_recorded_is_not_shown(self, alice, world):
        """The answer is 503."""
        put(alice)
        trail = world.directory / "audit"
        trail.write_text("")
        client = world.client(world.alice_key, audit=True, audit_dir=trail)
        assert client.get(ITEM).json["code"] == "service_unavailable"
        assert client.get(PATH).json["code"] == "service_unavailable"
