"""POST /v1/compliance/bulk (D92)."""

import pytest

from app.accounts.administration import set_plan
from tests.api.unknown import EARLY, EARLY_TEXT, LATE, LATE_TEXT, SILENT, load_at
from tests.conftest import SHARED, engine_independent
from tests.rows import each_row

ADDRESS = "/v1/compliance/bulk"
DAY = "2025-07-01"
VEHICLE = {"make": "Ford", "model": "Focus", "year": 2012, "color": "Blue"}
LEGAL = {
    **VEHICLE,
    "registration": "AB12CDE",
    "insured": True,
    "motExpiry": "2025-12-31",
    "taxStatus": "taxed",
}


@pytest.fixture
def fleet(world):
    """A legal vehicle (AB12CDE), one with a fine (XY34ZZZ), and the plate BULK."""
    others = [LEGAL | {"registration": "XY34ZZZ", "taxStatus": "sorn"}]
    world.load([LEGAL, *others, LEGAL | {"registration": "BULK"}])
    fine = {"registration": "XY34ZZZ", "reference": "F-1", "amount": "1.00", "settled": False}
    world.load([fine])


def post(client, *registrations, **members):
    """Return the envelope for these registrations."""
    response = client.post(ADDRESS, {"registrations": registrations, **members})
    assert response.status_int == 200
    return response.json


def refusal(client, document):
    """Return status, code and pointers of a refusal."""
    response = client.post(ADDRESS, document)
    pointers = [error["pointer"] for error in response.json.get("errors", [])]
    return response.status_int, response.json["code"], *pointers


class Test200:
    @SHARED
    def test_each_registration_yields_one_item(self, alice, fleet):
        """There is an item per registration, in the order sent, and the counts of the envelope."""
        sent = ["XY34ZZZ", "NONE1", "ab12 cde", "?", "XY34ZZZ"]
        answer = post(alice, *sent, asOf=DAY)
        assert [item["registration"] for item in answer["results"]] == [
            *("XY34ZZZ", "NONE1", "AB12CDE", "?", "XY34ZZZ")
        ]
        assert [item["compliant"] for item in answer["results"]] == [
            *(False, False, True, False, False)
        ]
        assert (answer["processed"], answer["successful"], answer["failed"]) == (5, 3, 2)

    @SHARED
    @each_row("explain", [None, False, True])
    @each_row("plate", ["AB12CDE", "XY34ZZZ"])
    def test_an_item_says_what_the_single_check_says(self, alice, fleet, plate, explain):
        """Checks and reasons are those of GET /v1/compliance/{registration}."""
        query = f"?asOf={DAY}&explain={'true' if explain else 'false'}"
        single = alice.get(f"/v1/compliance/{plate}{query}").json
        del single["lastChecked"], single["asOf"]
        assert post(alice, plate, asOf=DAY, explain=explain)["results"] == [single]

    @SHARED
    def test_a_failed_item_says_why(self, alice, fleet):
        """A plate that is unknown or malformed has error and code, and is not compliant."""
        unknown, malformed = post(alice, "NONE1", "A_1")["results"]
        assert unknown == {
            "registration": "NONE1",
            "compliant": False,
            "error": "Vehicle not found",
            "code": "vehicle_not_found",
        }
        assert set(malformed) == set(unknown)
        assert (malformed["compliant"], malformed["code"]) == (False, "invalid_registration")

    @SHARED
    def test_details_add_the_vehicle(self, alice, fleet):
        """With details a successful item has vehicle and lastUpdated, as the insurance record."""
        found, failed = post(alice, "AB12CDE", "NONE1", details=True)["results"]
        assert found["vehicle"] == VEHICLE
        single = alice.get(f"/v1/vehicle/AB12CDE/insurance?asOf={DAY}").json
        assert found["lastUpdated"] == single["lastUpdated"]
        assert set(failed) == {"registration", "compliant", "error", "code"}

    @SHARED
    @pytest.mark.parametrize("members", [{}, {"details": False, "explain": False}, {"asOf": None}])
    def test_nothing_is_added_that_was_not_asked_for(self, alice, fleet, members):
        """Without a day, details or reasons, items and envelope have their basic members."""
        answer = post(alice, "AB12CDE", **members)
        assert set(answer) == {"results", "processed", "successful", "failed"}
        assert set(answer["results"][0]) == {"registration", "compliant", "checks"}

    @SHARED
    def test_the_day_is_repeated(self, alice, fleet):
        """An answer to a request that names a day repeats it, and judges by it."""
        answer = post(alice, "AB12CDE", asOf="2026-01-01")
        assert answer["asOf"] == "2026-01-01"
        assert answer["results"][0]["checks"]["motValid"] is False

    @SHARED
    def test_two_statements_however_many_plates(self, alice, fleet, statements):
        """One query finds the key and one all vehicles."""
        post(alice, "AB12CDE")
        with statements() as seen:
            post(alice, "AB12CDE", "XY34ZZZ", "NONE1")
        # A worker on SQLite knows the key already (D109).
        assert [each for each in seen if '"api_key"' not in each] == seen[-1:]

    def test_it_takes_one_token(self, alice, fleet, stopped_clock):
        """A bulk request costs as much as a single one."""
        first, second = (
            alice.post(ADDRESS, {"registrations": ["A1", "A2"]}).headers["X-RateLimit-Remaining"]
            for _ in range(2)
        )
        assert int(second) == int(first) - 1

    @SHARED
    @pytest.mark.parametrize("path", ["/v1/compliance/bulk", "/v1/compliance/BULK"])
    def test_the_plate_bulk_can_be_checked(self, alice, fleet, path):
        """GET on the same path checks the vehicle with the registration BULK, as before."""
        response = alice.get(f"{path}?asOf={DAY}&explain=1")
        assert (response.status_int, response.json["registration"]) == (200, "BULK")
        assert alice.request("HEAD", path).status_int == 200


class TestUnknown:
    """Items name what no register knows, as single answers do (D198)."""

    PLATE = SILENT["registration"]

    def test_each_item_has_its_own(self, alice, telling, fleet):
        """A vehicle that fails for certain is known not to be compliant; an error names nothing."""
        telling.load([SILENT | {"registration": "NK1SORN", "taxStatus": "sorn"}, SILENT])
        answer = post(alice, "AB12CDE", "NK1SORN", self.PLATE, "ZZ99ZZZ", "?", asOf=None)
        unknown = ["insuranceValid", "motValid"]
        assert [each.get("unknown") for each in answer["results"]] == [
            None,
            unknown,
            [*unknown, "roadTaxPaid", "compliant"],
            None,
            None,
        ]
        assert (answer["successful"], answer["failed"]) == (3, 2)

    def test_an_item_says_what_the_single_answer_says(self, alice, telling):
        """With reasons and details, for a vehicle of which nothing is known."""
        load_at(telling, LATE, [SILENT], register="first")
        paid = {"registration": self.PLATE, "reference": "F-1", "amount": "0", "currency": "GBP"}
        load_at(telling, EARLY, [SILENT | {"motExempt": True}], [paid], register="second")
        (item,) = post(alice, self.PLATE, details=True, explain=True)["results"]
        single = alice.get(f"/v1/compliance/{self.PLATE}?details=true&explain=true").json
        assert item["loaded"] == {
            "insuranceValid": None,
            "motValid": EARLY_TEXT,
            "roadTaxPaid": None,
            "noOutstandingFines": EARLY_TEXT,
        }
        assert item["unknown"] == ["insuranceValid", "roadTaxPaid", "compliant"]
        assert {name: item.get(name) for name in single if name != "lastChecked"} == {
            name: value for name, value in single.items() if name != "lastChecked"
        }
        load_at(telling, LATE, [SILENT | {"motExempt": True}], register="third")
        (item,) = post(alice, self.PLATE, details=True)["results"]
        assert item["loaded"]["motValid"] == EARLY_TEXT
        assert LATE_TEXT > EARLY_TEXT


@engine_independent
class Test400:
    @each_row(
        ("document", "expected"),
        [
            ({}, ("invalid_body", "/registrations")),
            ({"registrations": []}, ("invalid_body", "/registrations")),
            ({"registrations": ["A1", 1]}, ("invalid_body", "/registrations/1")),
            ({"registrations": ["A1"], "asOf": "x"}, ("invalid_body", "/asOf")),
            ({"registrations": ["A1"], "explain": "true"}, ("invalid_body", "/explain")),
            ({"registrations": ["A1"], "details": 1}, ("invalid_body", "/details")),
            ({"registrations": ["A1"], "asof": DAY}, ("unknown_member", "/asof")),
            ({"registrations": ["A1"], "x": 1}, ("unknown_member", "/x")),
            (b"{", ("invalid_json",)),
        ],
    )
    def test_a_wrong_body_is_refused(self, alice, document, expected):
        """The body is checked like that of bulk insurance."""
        assert refusal(alice, document) == (400, *expected)

    def test_parameters_are_refused(self, alice):
        """The day and the flags are members of the body."""
        response = alice.post(f"{ADDRESS}?explain=true", {"registrations": ["A1"]})
        assert response.json["code"] == "unknown_parameter"

    def test_the_plan_limits_the_list(self, alice, world):
        """The maximum is that of bulk insurance."""
        limits = {"requests": 600, "window_seconds": 60, "domains_max": 1}
        set_plan(world.engine, "standard", {**limits, "bulk_max": 2})
        assert post(alice, "A1", "A2")["processed"] == 2
        expected = (400, "too_many_registrations", "/registrations")
        assert refusal(alice, {"registrations": ["A1"] * 3}) == expected


@engine_independent
class Test401:
    def test_a_key_is_needed(self, stranger):
        """Nobody learns anything without a key."""
        assert refusal(stranger, {"registrations": ["A1"]}) == (401, "unauthorized")
