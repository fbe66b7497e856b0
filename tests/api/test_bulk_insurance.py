"""POST /v1/vehicle/bulk-insurance."""

from zoneinfo import ZoneInfo

import msgspec
import pytest

from app import clock
from app.accounts.administration import set_plan
from tests.api.unknown import (
    BEFORE_FLAG,
    EARLY,
    EARLY_TEXT,
    ENDED,
    FLAGGED,
    LATE,
    LATE_TEXT,
    SILENT,
    load_at,
)
from tests.conftest import SHARED, engine_independent
from tests.contract.malformed import NESTED_TOO_DEEPLY, no_objects, not_json
from tests.rows import each_row

ADDRESS = "/v1/vehicle/bulk-insurance"
INVALID = "Invalid registration number: "
DAY = "2025-07-01"
NOT_JSON = not_json('"registrations": ["AB12CDE"]')
NO_OBJECTS = no_objects('"registrations": ["AB12CDE"]')
BAD_REGISTRATIONS = {
    "null": None,
    "text": "AB12CDE",
    "number": 1,
    "true": True,
    "object": {"0": "AB12CDE"},
}
BAD_ELEMENTS = {
    "null": None,
    "integer": 1,
    "fraction": 1.5,
    "true": True,
    "array": ["AB12CDE"],
    "object": {"registration": "AB12CDE"},
}
BAD_PLATES = {
    "empty": "",
    "blank": "  ",
    "hyphen": "-",
    "thirteen characters": "ABCDEFGHIJKLM",
    "far too long": "A" * 5_000,
    "punctuation": "AB12/CDE",
    "percent encoding": "AB12%20CDE",
    "emoji": "\U0001f697",
    "line feed": "AB12CDE\n",
    "invisible": "AB12\u200bCDE",
    "markup": "<script>",
    "quote": "A'\"1",
    "backslash": "A\\1",
}
BAD_DAYS = {
    "empty": "",
    "blank": " ",
    "word": "today",
    "no such day": "2025-02-29",
    "compact": "20250701",
    "with a time": "2025-07-01T00:00:00Z",
    "trailing line feed": "2025-07-01\n",
    "Arabic digits": "٢٠٢٥-07-01",
    "number": 20250701,
    "true": True,
    "array": [DAY],
    "object": {},
}


@pytest.fixture
def fleet(world):
    """Insured (AB12CDE), lapsed (XY34ZZZ), flagged (0001TJ), and never insured (MÜAB123)."""
    plates = ("AB12CDE", "XY34ZZZ", "MÜ AB 123")
    rows = [{"registration": plate, "make": "Ford"} for plate in plates]
    world.load([*rows, {"registration": "0001TJ", "insured": True}])
    policy = {"insurer": "Northgate", "type": "comprehensive", "validFrom": "2025-01-01"}
    world.load(
        [
            {"registration": "AB12CDE", "number": "P-1", "validTo": "2025-12-31", **policy},
            {"registration": "XY34ZZZ", "number": "P-2", "validTo": "2025-06-30", **policy},
        ]
    )


def bulk(client, *registrations, as_of=DAY):
    """Return the envelope for these registrations."""
    response = client.post(ADDRESS, {"registrations": registrations, "asOf": as_of})
    assert response.status_int == 200
    return response.json


def item(client, registration):
    """Return the one item for a registration."""
    (only,) = bulk(client, registration)["results"]
    return only


def refusal(client, document):
    """Return status, code and pointers of a refusal."""
    response = client.post(ADDRESS, document)
    pointers = [error["pointer"] for error in response.json.get("errors", [])]
    return response.status_int, response.json["code"], *pointers


class Test200:
    @SHARED
    def test_spec_4_bulk_vehicle_verification(self, alice, fleet):
        """The registrations of the body are answered with the envelope."""
        response = alice.post(ADDRESS, {"registrations": ["AB12CDE"], "asOf": DAY})
        assert response.status_int == 200
        assert response.content_type == "application/json"
        assert set(response.json) == {"results", "processed", "successful", "failed", "asOf"}

    @SHARED
    @each_row("members", [{}, {"asOf": None}, {"details": None}, {"details": False}])
    def test_nothing_is_added_that_was_not_asked_for(self, alice, fleet, members):
        """Without a day and without details, the answer has exactly the promised members."""
        answer = alice.post(ADDRESS, {"registrations": ["AB12CDE"], **members}).json
        assert set(answer) == {"results", "processed", "successful", "failed"}
        assert set(answer["results"][0]) == {"registration", "insured", "policy"}

    @SHARED
    def test_details_add_the_vehicle(self, alice, fleet):
        """With details a successful item has the vehicle and lastUpdated of the single look-up."""
        sent = {"registrations": ["AB12CDE", "NONE1"], "details": True}
        found, failed = alice.post(ADDRESS, sent).json["results"]
        single = alice.get("/v1/vehicle/AB12CDE/insurance?details=true").json
        assert found == single
        assert set(failed) == {"registration", "insured", "error", "code"}

    @SHARED
    def test_spec_4_rule_1_each_registration_yields_one_item(self, alice, fleet):
        """There is an item per registration, in the order sent, duplicates included."""
        sent = ["XY34ZZZ", "AB12CDE", "NONE1", "XY34ZZZ", "?", "NONE1", "?"]
        results = bulk(alice, *sent)["results"]
        assert [result["registration"] for result in results] == sent
        assert results[0] == results[3]

    @SHARED
    def test_spec_4_rule_2_a_registration_not_found_yields_an_item(self, alice, fleet):
        """The whole request succeeds, and failed counts such items."""
        envelope = bulk(alice, "AB12CDE", "NONE1")
        assert envelope["results"][1] == {
            "registration": "NONE1",
            "insured": False,
            "error": "Vehicle not found",
            "code": "vehicle_not_found",
        }
        assert envelope["failed"] == 1

    @SHARED
    def test_spec_2_bulk_item_registration_is_the_one_it_refers_to(self, alice, fleet):
        """The registration is in canonical form, so that spellings of one plate are equal."""
        results = bulk(alice, "ab12 cde", "AB-12-CDE", "mu\u0308ab123")["results"]
        assert [r["registration"] for r in results] == ["AB12CDE", "AB12CDE", "MÜAB123"]

    @SHARED
    @each_row(
        ("plate", "insured"),
        [("AB12CDE", True), ("XY34ZZZ", False), ("0001TJ", True), ("MÜAB123", False)],
    )
    def test_spec_2_bulk_item_insured_is_a_boolean(self, alice, fleet, plate, insured):
        """The flag is computed as in the single look-up."""
        assert item(alice, plate)["insured"] is insured

    @SHARED
    def test_spec_2_bulk_item_policy_is_the_policy_object(self, alice, fleet):
        """The policy equals that of the single look-up."""
        alone = alice.get(f"/v1/vehicle/XY34ZZZ/insurance?asOf={DAY}").json["policy"]
        assert item(alice, "XY34ZZZ")["policy"] == alone
        assert alone["number"] == "P-2"

    @SHARED
    @pytest.mark.parametrize("plate", ["0001TJ", "MÜAB123"])
    def test_spec_2_bulk_item_policy_is_present_for_a_success(self, alice, fleet, plate):
        """It is null if no policy is known, and there is no error."""
        assert set(item(alice, plate)) == {"registration", "insured", "policy"}
        assert item(alice, plate)["policy"] is None

    @SHARED
    @each_row(
        ("plate", "error"),
        [
            ("NONE1", "Vehicle not found"),
            ("?", f"{INVALID}1 to 12 letters and digits; character 1 is neither"),
            ("", f"{INVALID}1 to 12 letters and digits; got none"),
            ("AB12CDE-AB12CDE", f"{INVALID}1 to 12 letters and digits; got 14"),
            (" " * 101, f"{INVALID}at most 100 characters with spaces; got 101"),
        ],
    )
    def test_spec_2_bulk_item_error_is_a_short_text(self, alice, fleet, plate, error):
        """A failed item has an error and no policy."""
        failed = item(alice, plate)
        assert failed["error"] == error
        assert set(failed) == {"registration", "insured", "error", "code"}

    @SHARED
    def test_spec_2_bulk_results_is_an_array(self, alice, fleet):
        """Even a single registration gives an array."""
        assert type(bulk(alice, "AB12CDE")["results"]) is list

    @SHARED
    def test_spec_2_bulk_processed_is_the_number_of_registrations(self, alice, fleet):
        """Duplicates count."""
        assert bulk(alice, "AB12CDE", "AB12CDE", "?")["processed"] == 3

    @SHARED
    def test_spec_2_bulk_successful_is_the_number_without_error(self, alice, fleet):
        """A known vehicle without insurance counts as successful."""
        assert bulk(alice, "AB12CDE", "XY34ZZZ", "NONE1")["successful"] == 2

    @SHARED
    def test_spec_2_bulk_failed_is_the_number_with_error(self, alice, fleet):
        """Unknown and malformed registrations count."""
        assert bulk(alice, "AB12CDE", "NONE1", "?")["failed"] == 2

    @SHARED
    @each_row("plates", [["AB12CDE"], ["NONE1"], ["?", "?"], ["AB12CDE", "NONE1", "?", "XY34ZZZ"]])
    def test_spec_2_bulk_processed_is_successful_plus_failed(self, alice, fleet, plates):
        """The numbers of the envelope add up."""
        envelope = bulk(alice, *plates)
        assert envelope["processed"] == envelope["successful"] + envelope["failed"] == len(plates)

    @SHARED
    @each_row("sent", BAD_PLATES.values(), ids=BAD_PLATES)
    def test_a_malformed_plate_is_echoed_as_sent(self, alice, fleet, sent):
        """A malformed plate fails alone and is returned as sent, so that the client can find it."""
        failed = item(alice, sent)
        assert failed.pop("error").startswith(INVALID)
        assert failed == {
            "registration": sent,
            "insured": False,
            "code": "invalid_registration",
        }

    @pytest.mark.parametrize("plate", ["A1", "AB", "ABC", "7", "ABCDEFGHIJKL"])
    def test_plates_of_every_length_are_found(self, alice, world, plate):
        """Plates of one to twelve characters are found."""
        world.load([{"registration": plate, "make": "Ford"}])
        assert bulk(alice, plate)["successful"] == 1

    def test_before_the_first_load_nothing_is_found(self, alice):
        """An installation without registers answers with failed items."""
        assert item(alice, "AB12CDE")["code"] == "vehicle_not_found"

    @pytest.mark.parametrize("rows", ["policy", "fine"])
    def test_a_plate_known_by_a_policy_or_a_fine_is_found(self, alice, world, rows):
        """A policy or a fine makes a plate known, as in the single look-up."""
        dates = {"validFrom": "2025-01-01", "validTo": "2025-12-31"}
        policy = {"registration": "AB12CDE", "number": "P-1", **dates}
        fine = {"registration": "AB12CDE", "reference": "F-1", "amount": "1"}
        world.load([policy if rows == "policy" else fine])
        assert item(alice, "AB12CDE")["insured"] is (rows == "policy")

    def test_registers_are_merged(self, alice, world, fleet):
        """A policy in another register is found, too (D26)."""
        dates = {"validFrom": "2025-07-01", "validTo": "2026-06-30"}
        row = {"registration": "XY34ZZZ", "number": "P-3", **dates}
        world.load([row], register="mid")
        assert item(alice, "XY34ZZZ")["policy"]["number"] == "P-3"

    @SHARED
    @pytest.mark.parametrize(
        "content_type",
        [
            "application/json",
            "application/json; charset=utf-8;",
            'Application/JSON;charset="UTF-8"',
        ],
    )
    def test_json_may_name_its_charset(self, alice, fleet, content_type):
        """The media type can have any case and the charset UTF-8."""
        sent = {"registrations": ["MÜAB123"]}
        response = alice.post(ADDRESS, sent, headers={"Content-Type": content_type})
        assert response.json["successful"] == 1

    @SHARED
    def test_escaped_characters_are_the_same_plate(self, alice, fleet):
        """An escaped letter in JSON is the same letter."""
        body = rb'{"registrations": ["M\u00dcAB123", "\u0041B12CDE", "\ud83d\ude97"]}'
        results = alice.post(ADDRESS, body).json["results"]
        sent = ["MÜAB123", "AB12CDE", "\U0001f697"]
        assert [result["registration"] for result in results] == sent


class TestUnknown:
    """Items name what no register knows, as single answers do (D198)."""

    @pytest.fixture
    def partial(self, telling):
        """A silent vehicle, one with a flag, and one whose only policy has ended."""
        load_at(telling, LATE, [SILENT, FLAGGED], register=None)
        load_at(telling, EARLY, [ENDED], [SILENT], register="other")
        return telling

    def test_each_item_has_its_own(self, alice, partial):
        """A failed item names nothing, and counts stay those of items without `error`."""
        plates = [each["registration"] for each in (SILENT, FLAGGED, ENDED)]
        answer = alice.post(ADDRESS, {"registrations": [*plates, "ZZ99ZZZ", "?"]}).json
        told = [(each["insured"], each.get("unknown")) for each in answer["results"]]
        unknown = (False, ["insured"])
        assert told == [unknown, (True, None), unknown, (False, None), (False, None)]
        assert (answer["successful"], answer["failed"]) == (3, 2)

    def test_the_day_of_the_body_counts(self, alice, partial):
        """Before its flag was known nothing is known of the vehicle."""
        sent = {"registrations": [FLAGGED["registration"]], "asOf": BEFORE_FLAG}
        (item,) = alice.post(ADDRESS, sent).json["results"]
        assert (item["insured"], item["unknown"]) == (False, ["insured"])

    def test_details_tell_when_the_register_was_loaded(self, partial):
        """Each item has its own time; null if none decided, absent with `error` (D199)."""
        plates = [each["registration"] for each in (SILENT, FLAGGED)]
        sent = {"registrations": [*plates, "ZZ99ZZZ"], "details": True}
        for complete, expected in (((), None), (("other",), EARLY_TEXT)):
            client = partial.client(partial.alice_key, complete_registers=complete)
            silent, flagged, failed = client.post(ADDRESS, sent).json["results"]
            assert silent["loaded"] == {"insuranceValid": expected}
            assert flagged["loaded"] == {"insuranceValid": LATE_TEXT}
            assert "loaded" not in failed


class TestDay:
    @SHARED
    @pytest.mark.parametrize(("day", "insured"), [("2025-06-30", True), ("2025-07-01", False)])
    def test_as_of_is_a_member_of_the_body(self, alice, fleet, day, insured):
        """The day applies to all items (D20)."""
        assert bulk(alice, "XY34ZZZ", as_of=day)["results"][0]["insured"] is insured

    def test_today_depends_on_the_time_zone(self, world):
        """Without asOf, or with null, the day is today in VERIFYD_TIMEZONE, here 26 hours apart."""
        ahead, behind = ZoneInfo("Pacific/Kiritimati"), ZoneInfo("Etc/GMT+12")
        dates = {"validFrom": str(clock.today(ahead)), "validTo": "9999-12-31"}
        world.load([{"registration": "AB12CDE", "number": "P-1", **dates}])
        for zone, insured in ((ahead, True), (behind, False)):
            client = world.client(world.alice_key, timezone=zone)
            for sent in ({}, {"asOf": None}):
                response = client.post(ADDRESS, {"registrations": ["AB12CDE"], **sent})
                assert response.json["results"][0]["insured"] is insured

    @SHARED
    @pytest.mark.parametrize("day", ["0001-01-01", "9999-12-31"])
    def test_the_calendar_is_taken_whole(self, alice, fleet, day):
        """The first and the last day of the calendar are valid."""
        assert bulk(alice, "AB12CDE", as_of=day)["results"][0]["insured"] is False


class TestMany:
    @pytest.mark.parametrize("registers", [["native"], ["native", "rdw", "zeta"]])
    def test_two_statements_for_a_thousand(self, world, alice, statements, registers):
        """One query reads the key, unless it is known, and one all vehicles of all registers."""
        plates = [f"AB{number}" for number in range(1_000)]
        for register in registers:
            rows = [{"registration": plate, "make": "Ford"} for plate in plates[1::2]]
            world.load(rows, register=register)
        bulk(alice, *plates)
        with statements() as seen:
            envelope = bulk(alice, *plates)
        assert (envelope["successful"], envelope["failed"]) == (500, 500)
        assert all('"api_key"' in each for each in seen[:-1])
        assert len(seen) == (1 if world.store.url.startswith("sqlite") else 2)
        assert all(f'"register_{name}"' in seen[-1] for name in registers)

    @pytest.mark.parametrize(
        ("plan", "most", "named"),
        [("free", 100, "100"), ("standard", 1_000, "1,000"), ("enterprise", 10_000, "10,000")],
    )
    def test_one_more_than_the_plan_allows_is_too_many(self, world, plan, most, named):
        """A larger list is refused as a whole with the maximum; the maximum is accepted (D12)."""
        client = world.client(world.key_of("carol", plan))
        assert bulk(client, *["AB12CDE"] * most)["processed"] == most
        response = client.post(ADDRESS, {"registrations": ["AB12CDE"] * (most + 1)})
        assert (response.status_int, response.json["code"]) == (400, "too_many_registrations")
        assert f" {named} " in response.json["detail"]
        assert response.json["errors"][0]["pointer"] == "/registrations"

    def test_a_changed_plan_counts_from_the_next_request(self, alice, world):
        """The plan's new maximum is read with the key."""
        assert bulk(alice, "AB1", "AB2")["processed"] == 2
        limits = {"requests": 600, "window_seconds": 60, "domains_max": 1_000}
        set_plan(world.engine, "standard", {**limits, "bulk_max": 1})
        response = alice.post(ADDRESS, {"registrations": ["AB1", "AB2"]})
        assert response.json["code"] == "too_many_registrations"

    def test_malformed_and_repeated_ones_count(self, world):
        """The maximum applies to all elements that were sent."""
        client = world.client(world.key_of("carol", "free"))
        sent = {"registrations": ["?"] * 101}
        assert refusal(client, sent)[1] == "too_many_registrations"


@engine_independent
class Test400:
    @each_row("body", NOT_JSON.values(), ids=NOT_JSON)
    def test_spec_7_bad_request_malformed_json(self, alice, body):
        """A body that is not entirely JSON in UTF-8 is refused."""
        assert refusal(alice, body) == (400, "invalid_json")

    @each_row("body", NO_OBJECTS.values(), ids=NO_OBJECTS)
    def test_spec_7_bad_request_no_object(self, alice, body):
        """The error of a JSON value that is no object points at the root."""
        assert refusal(alice, body) == (400, "invalid_body", "")

    @pytest.mark.parametrize("sent", [{}, {"asOf": DAY}])
    def test_spec_7_bad_request_registrations_missing(self, alice, sent):
        """The error names the missing member."""
        assert refusal(alice, sent) == (400, "invalid_body", "/registrations")

    @each_row("value", BAD_REGISTRATIONS.values(), ids=BAD_REGISTRATIONS)
    def test_spec_7_bad_request_registrations_no_array(self, alice, value):
        """The member must be an array."""
        sent = {"registrations": value}
        assert refusal(alice, sent) == (400, "invalid_body", "/registrations")

    def test_spec_7_bad_request_registrations_empty(self, alice):
        """An empty list is refused."""
        assert refusal(alice, {"registrations": []}) == (400, "invalid_body", "/registrations")

    @each_row("value", BAD_ELEMENTS.values(), ids=BAD_ELEMENTS)
    @each_row("place", [0, 2])
    def test_spec_7_bad_request_element_no_string(self, alice, value, place):
        """The error points at the element that is no string."""
        elements = ["AB12CDE"] * 3
        sent = {"registrations": [*elements[:place], value, *elements[place:]]}
        assert refusal(alice, sent) == (400, "invalid_body", f"/registrations/{place}")

    @each_row("value", BAD_DAYS.values(), ids=BAD_DAYS)
    def test_spec_7_bad_request_as_of(self, alice, value):
        """The error of an invalid day points at the member."""
        sent = {"registrations": ["AB12CDE"], "asOf": value}
        assert refusal(alice, sent) == (400, "invalid_body", "/asOf")

    @each_row(
        "elements",
        [
            rb'"AB12\u0000"',
            b'"AB12\x00"',
            rb'"\ud800"',
            b'"\xed\xa0\x80"',
            b'"\xff"',
            b"NaN",
            b"-Infinity",
            b"[" + NESTED_TOO_DEEPLY + b"]",
            b'"A1" "B2"',
            b'"A1",,"B2"',
            b"'A1'",
        ],
        ids=lambda elements: ascii(elements[:12]),
    )
    def test_elements_themselves_must_be_json(self, alice, elements):
        """NUL, lone surrogates, bad UTF-8, malformed numbers and nesting get 400, never 500."""
        status, code, *_ = refusal(alice, b'{"registrations": [%b]}' % elements)
        assert status == 400
        assert code in ("invalid_json", "invalid_body")

    @each_row("number", [b"1e999", b"-0", b"9" * 5_000, b"1." + b"0" * 5_000])
    def test_numbers_of_any_size_are_no_registrations(self, alice, number):
        """Any number, however large, is refused as an element."""
        status, code, *_ = refusal(alice, b'{"registrations": ["A1", %b]}' % number)
        assert status == 400
        assert code in ("invalid_json", "invalid_body")

    def test_the_refusal_does_not_repeat_what_was_sent(self, alice):
        """The refusal has neither names nor values of the body."""
        sent = {"registrations": [{"<script>": "<script>"}], "<script>": 1}
        assert b"script" not in alice.post(ADDRESS, sent).body


@engine_independent
class Test401:
    def test_spec_5_rule_4_without_a_key(self, stranger, fleet):
        """The key is checked before the body."""
        for body in (b'{"registrations": ["AB12CDE"]}', b"{", b"x" * 2_000_000):
            response = stranger.post(ADDRESS, body)
            assert (response.status_int, response.json["code"]) == (401, "unauthorized")


@engine_independent
class Test405:
    @each_row("method", ["GET", "HEAD", "PUT", "DELETE"])
    def test_it_can_only_be_posted_to(self, alice, method):
        """Plates belong in a body: addresses are logged."""
        response = alice.request(method, ADDRESS)
        assert response.status_int == 405
        assert set(response.headers["Allow"].split(", ")) == {"POST", "OPTIONS"}


class Test413:
    @SHARED
    def test_a_body_of_one_mebibyte_is_the_limit(self, alice, fleet):
        """A body of 1 MiB is accepted, one more byte is refused."""
        body = msgspec.json.encode({"registrations": ["AB12CDE"]}).ljust(1024 * 1024)
        assert alice.post(ADDRESS, body).status_int == 200
        assert refusal(alice, body + b" ") == (413, "body_too_large")


@engine_independent
class Test415:
    @each_row(
        "content_type",
        [
            "",
            "text/plain",
            "application/x-www-form-urlencoded",
            "application/json; charset=latin-1",
        ],
    )
    def test_only_json_is_taken(self, alice, content_type):
        """Another media type is refused, even if the body is JSON."""
        body = b'{"registrations": ["AB12CDE"]}'
        response = alice.request("POST", ADDRESS, body=body, headers={"Content-Type": content_type})
        assert (response.status_int, response.json["code"]) == (415, "unsupported_media_type")
