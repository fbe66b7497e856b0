"""Known plates that look like an unknown one, in the 404 of a look-up (D175)."""

import shutil

import pytest

from tests.api.test_recorded_look_ups import last, unrecorded
from tests.conftest import ON_SQLITE
from tests.enquiry import set_enquiry, set_suggest
from tests.rows import each_row
from tests.unit.audit_trails import lines

ADDRESSES = ("/v1/vehicle/{}/insurance", "/v1/compliance/{}")
EVERY_ADDRESS = pytest.mark.parametrize("address", ADDRESSES)
FORD = {"registration": "AB12CDE", "make": "Ford", "model": "Focus", "color": "Blue"}
POLICY = {"registration": "AB12C0E", "number": "P", "validFrom": "2025-01-01"}
VEHICLES = [FORD, {"registration": "SEAT1", "make": "SEAT"}, {"registration": "BULL"}]
UNKNOWN = {"make": None, "model": None, "color": None}


@pytest.fixture
def world(world):
    """An installation with vehicles, one of them known by a policy only; the plan suggests."""
    world.load(VEHICLES)
    world.load([{**POLICY, "validTo": "2025-12-31"}], register="policies")
    set_suggest(world.engine, "standard", "on")
    return world


def suggested(client, plate, address=ADDRESSES[0]):
    """Return what the 404 of a plate suggests."""
    answer = client.get(address.format(plate))
    assert (answer.status_int, answer.json["detail"]) == (404, "Vehicle not found")
    return answer.json["suggestions"]


def plates(client, plate):
    return [each["registration"] for each in suggested(client, plate)]


class Test404:
    @EVERY_ADDRESS
    def test_known_plates_with_one_other_character(self, alice, address):
        """With what a person can compare, in alphabetical order; those of a policy only, too."""
        ford = {name: FORD[name] for name in ("registration", "make", "model", "color")}
        known_by_policy = {"registration": "AB12C0E", **UNKNOWN}
        assert suggested(alice, "ab12-cQe", address) == [known_by_policy, ford]
        seat = {**UNKNOWN, "registration": "SEAT1", "make": "SEAT"}
        assert suggested(alice, "5EATI", address) == []
        assert suggested(alice, "5EAT1", address) == [seat]

    @each_row(
        "plate", ["ZZ99ZZZ", "CLW", "0" * 12, "%C5%81%C3%93D", "AB12CDF", "AB12CDEE", "AB12CD"]
    )
    def test_others_have_none(self, alice, plate):
        """Other characters, added and missing ones are no confusion; the list is empty."""
        assert suggested(alice, plate) == []

    def test_at_most_ten(self, world, alice):
        """Of more known variants, the first ten by alphabet."""
        names = [f"{'5' * n}S{'5' * (11 - n)}" for n in range(12)]
        world.load([{"registration": each} for each in names])
        assert plates(alice, "5" * 12) == sorted(names)[:10]

    def test_a_plan_without_suggestions_tells_nothing(self, world, alice, statements):
        """By default the body has no such member, and no variant is looked up."""
        set_suggest(world.engine, "standard", "off")
        address = ADDRESSES[0].format("AB12CQE")
        alice.get(address)
        with statements() as seen:
            answer = alice.get(address)
        assert len(seen) == (1 if world.engine.dialect == "sqlite" else 2)
        members = ["type", "title", "status", "detail", "code", "request_id"]
        assert list(answer.json) == members

    def test_it_takes_effect_with_the_next_request(self, world, alice):
        """Accounts on other plans get none."""
        dave = world.client(world.key_of("dave", "free"))
        for suggest in ("off", "on", "off"):
            set_suggest(world.engine, "standard", suggest)
            answer = alice.get(ADDRESSES[0].format("AB12CQE"))
            assert ("suggestions" in answer.json) == (suggest == "on")
            assert "suggestions" not in dave.get(ADDRESSES[0].format("AB12CQE")).json

    def test_one_more_statement_after_a_miss_only(self, world, alice, statements):
        """A plate that is found costs nothing more, nor does one without confusable characters."""
        for plate in ("AB12CQE", "AB12CDE"):  # The first ones compile the statements.
            alice.get(ADDRESSES[0].format(plate))
        counts = {}
        for plate in ("AB12CDE", "CLW", "AB12CQE"):
            with statements() as seen:
                alice.get(ADDRESSES[0].format(plate))
            counts[plate] = len(seen)
        assert counts["CLW"] == counts["AB12CDE"]
        assert counts["AB12CQE"] == counts["AB12CDE"] + 1

    def test_the_plate_bulk(self, alice):
        """The 404 of GET /v1/compliance/bulk has them beside its hint."""
        answer = alice.get("/v1/compliance/bulk")
        assert "send a POST" in answer.json["detail"]
        assert answer.json["suggestions"] == []

    def test_they_are_of_the_registers_at_that_moment(self, world, alice):
        """A plate that a load brings is suggested at once."""
        assert plates(alice, "ZZ99ZZ2") == []
        world.load([{"registration": "ZZ99ZZZ"}], register="another")
        assert plates(alice, "ZZ99ZZ2") == ["ZZ99ZZZ"]


@ON_SQLITE
class TestOthers:
    @EVERY_ADDRESS
    def test_200_is_about_the_plate_that_was_asked_for(self, alice, address):
        """A known plate has no suggestions, however close another one is."""
        for plate in ("AB12CDE", "AB12C0E"):
            answer = alice.get(address.format(plate))
            assert (answer.status_int, answer.json["registration"]) == (200, plate)
            assert "suggestions" not in answer.json

    @EVERY_ADDRESS
    @each_row("text", ["!!", "AB12CQE" * 2, "%20", "AB12CQE!", "0" * 101])
    def test_400_has_none(self, alice, text, address):
        """A text that is no plate is not compared with any."""
        answer = alice.get(address.format(text))
        assert (answer.status_int, answer.json["code"]) == (400, "invalid_registration")
        assert "suggestions" not in answer.json

    @pytest.mark.parametrize("path", ["/v1/vehicle/bulk-insurance", "/v1/compliance/bulk"])
    @pytest.mark.parametrize("count", [1, 2])
    def test_a_bulk_has_none(self, alice, statements, path, count):
        """Not even one of a single plate, whatever is asked for."""
        sent = {"registrations": ["AB12CQE"] * count, "details": True}
        alice.post(path, sent)
        with statements() as seen:
            answer = alice.post(path, sent)
        assert len(seen) == 1
        assert answer.json["failed"] == count
        assert "AB12CDE" not in answer.text

    def test_a_reason_that_is_needed_comes_first(self, world, alice):
        """Nothing is suggested to somebody who does not say why."""
        set_enquiry(world.engine, "standard", "required")
        answer = alice.get(ADDRESSES[0].format("AB12CQE"))
        assert answer.json["code"] == "enquiry_reason_required"
        assert "suggestions" not in answer.json


class TestUsage:
    def test_every_plate_shown_is_a_vehicle(self, alice):
        """The one asked for, and each of its suggestions; HEAD counts as GET."""
        for method in ("GET", "HEAD"):
            alice.request(method, ADDRESSES[0].format("AB12CQE"))
        alice.get(ADDRESSES[1].format("5EAT1"))
        alice.get(ADDRESSES[1].format("CLW"))
        alice.application.usage.flush()
        usage = alice.get("/v1/usage").json["usage"]
        vehicles = {item["operation"]: item["vehicles"] for item in usage}
        assert vehicles == {"insurance": 6, "compliance": 3}


class TestTrail:
    @pytest.fixture
    def trail(self, world):
        """The directory of the audit trail."""
        return world.directory / "audit"

    @pytest.fixture
    def audited(self, world, trail):
        """A client of a service that records its look-ups."""
        return world.client(world.alice_key, audit=True, audit_dir=trail)

    @pytest.mark.parametrize("method", ["GET", "HEAD"])
    def test_every_plate_shown_is_recorded(self, audited, trail, method):
        """After the one asked for, as what it is, in the order in which it was shown."""
        for address in ADDRESSES:
            audited.request(method, address.format("AB12CQE"))
            record = last(trail)
            assert record["plates"] == [
                {"plate": "AB12CQE", "found": False},
                {"plate": "AB12C0E", "found": True, "suggested": True},
                {"plate": "AB12CDE", "found": True, "suggested": True},
            ]
            assert record["registers"].keys() == {"native", "policies"}
        assert b"Ford" not in b"".join(path.read_bytes() for path in trail.glob("*-*.ndjson"))

    def test_none_is_recorded_that_was_not_shown(self, world, audited, trail):
        """Nor is one if the plan has none."""
        audited.get(ADDRESSES[0].format("CLW"))
        assert last(trail)["plates"] == [{"plate": "CLW", "found": False}]
        set_suggest(world.engine, "standard", "off")
        audited.get(ADDRESSES[0].format("AB12CQE"))
        assert last(trail)["plates"] == [{"plate": "AB12CQE", "found": False}]

    @ON_SQLITE
    def test_what_cannot_be_recorded_is_not_told(self, audited, trail):
        """503, without suggestions and without vehicles in the usage."""
        path = ADDRESSES[0].format("AB12CQE")
        audited.get(path)
        away = trail.rename(trail.with_name("away"))
        refused = unrecorded(audited, "GET", path)
        assert refused.json["code"] == "service_unavailable"
        assert "AB12CDE" not in refused.text
        shutil.rmtree(away)
        audited.application.usage.flush()
        (item,) = audited.get("/v1/usage").json["usage"]
        counted = item["answers"] - item["status5xx"]
        assert item["vehicles"] == 3 * counted

    @ON_SQLITE
    def test_no_plate_is_in_the_log(self, world, trail, capfd):
        """The log has the route and the status."""
        world.client(world.alice_key, audit=True, audit_dir=trail, access_log=True).get(
            ADDRESSES[0].format("AB12CQE")
        )
        logged = "".join(capfd.readouterr())
        assert '"status":404' in logged
        assert "AB12C" not in logged
        assert len(list(lines(trail))) == 1
