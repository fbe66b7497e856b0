"""GET /v1/compliance/{registration} (D22)."""

import json
import re
from zoneinfo import ZoneInfo

import pytest

from app import clock
from tests.api.test_insurance import BAD_DAYS, IMPOSSIBLE
from tests.api.unknown import COMPLETE, EARLY, EARLY_TEXT, LATE, LATE_TEXT, SILENT, load_at
from tests.conftest import SHARED, engine_independent
from tests.rows import each_row

DAY = "2025-07-01"
ADDRESS = f"/v1/compliance/AB12CDE?asOf={DAY}"
VEHICLE = {
    "registration": "AB12CDE",
    "make": "Ford",
    "motExpiry": "2026-01-31",
    "taxStatus": "taxed",
    "taxDue": "2026-02-28",
}
POLICY = {
    "registration": "AB12CDE",
    "number": "POL-1",
    "validFrom": "2025-01-01",
    "validTo": "2025-12-31",
}
FINE = {"reference": "F-1", "registration": "AB12CDE", "amount": "65.00", "currency": "GBP"}
PAPERS = {"insured": True, "motExempt": True, "taxStatus": "exempt"}
CHECKS = ("insuranceValid", "motValid", "roadTaxPaid", "noOutstandingFines")
BAD_FLAGS = {
    "blank": "explain=",
    "bare name": "explain",
    "two": "explain=2",
    "some capitals": "explain=tRuE",
    "yes": "explain=yes",
    "trailing space": "explain=true%20",
    "bad UTF-8": "explain=%FF",
    "far too long": "explain=" + "true" * 1_000,
    "given twice": "explain=true&explain=true",
    "both": "explain=true&explain=false",
}


@pytest.fixture
def legal(world):
    """AB12CDE, which passes every check on DAY."""
    world.load([VEHICLE])
    world.load([POLICY])


def compliance(client, query=f"?asOf={DAY}", plate="AB12CDE"):
    """Return the answer's body for a known plate."""
    response = client.get(f"/v1/compliance/{plate}{query}")
    assert response.status_int == 200
    return response.json


def reasons(client, day=DAY):
    """Return the reason of each check, in the order of the checks."""
    explained = compliance(client, f"?asOf={day}&explain=true")["reasons"]
    return [explained[check] for check in CHECKS]


class Test200:
    @SHARED
    def test_spec_4_compliance_check(self, alice, legal):
        """The operation answers below the base address with the compliance record."""
        response = alice.get(ADDRESS)
        assert response.status_int == 200
        assert response.content_type == "application/json"
        assert set(response.json) == {"registration", "compliant", "checks", "lastChecked", "asOf"}

    @SHARED
    def test_the_day_is_repeated_only_if_it_was_named(self, alice, legal):
        """Without a day the answer has exactly the promised members (D92)."""
        assert compliance(alice)["asOf"] == DAY
        assert set(compliance(alice, "")) == {"registration", "compliant", "checks", "lastChecked"}

    @SHARED
    def test_spec_2_compliance_registration_is_the_one_checked(self, alice, legal):
        """The registration is in canonical form."""
        assert compliance(alice, plate="ab12-cde")["registration"] == "AB12CDE"

    @SHARED
    @pytest.mark.parametrize(("day", "expected"), [("2025-12-31", True), ("2026-01-01", False)])
    def test_spec_2_compliance_compliant_is_a_boolean(self, alice, legal, day, expected):
        """The overall result is true if all four checks are."""
        assert compliance(alice, f"?asOf={day}")["compliant"] is expected

    @SHARED
    def test_spec_2_compliance_checks_are_four_booleans(self, alice, legal):
        """Each of the four members is true or false."""
        assert compliance(alice)["checks"] == dict.fromkeys(CHECKS, True)

    @SHARED
    def test_spec_2_compliance_last_checked_is_a_utc_timestamp(self, alice, legal):
        """The time is ISO 8601, in UTC, in whole seconds."""
        form = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
        assert re.fullmatch(form, compliance(alice)["lastChecked"])

    @SHARED
    def test_last_checked_is_the_time_of_the_request(self, alice, legal):
        """It is neither the day asked about nor the time of a load (D21)."""
        before = clock.iso_utc(clock.now())
        checked = compliance(alice)["lastChecked"]
        assert before <= checked <= clock.iso_utc(clock.now())

    def test_unknown_is_false_except_for_fines(self, alice, world):
        """Unknown insurance, MOT and tax are false; no fine on record is true."""
        world.load([{"registration": "AB12CDE", "make": "Ford"}])
        assert list(compliance(alice)["checks"].values()) == [False, False, False, True]
        assert reasons(alice) == ["unknown", "unknown", "unknown", "none"]

    @pytest.mark.parametrize("rows", [[POLICY], [FINE]], ids=["policy", "fine"])
    def test_a_plate_known_by_a_policy_or_a_fine_is_known(self, alice, world, rows):
        """The answer is 200, with reasons for what is unknown."""
        world.load(rows)
        assert compliance(alice)["compliant"] is False

    @pytest.mark.parametrize("plate", ["M%C3%9CAB123", "m%C3%BC%20ab-123", "MU%CC%88AB123"])
    def test_a_plate_is_found_in_any_notation(self, alice, world, plate):
        """Case, spaces, hyphens and composition make no difference (D19)."""
        world.load([{"registration": "MÜ AB 123", "make": "BMW"}])
        assert compliance(alice, plate=plate)["registration"] == "MÜAB123"

    @SHARED
    def test_head_is_get_without_a_body(self, alice, legal):
        """HEAD answers like GET."""
        response = alice.request("HEAD", ADDRESS)
        assert (response.status_int, response.body) == (200, b"")

    def test_two_statements_however_many_registers(self, alice, world, legal, statements):
        """One query reads the key, and one the vehicle with its fines."""
        world.load([VEHICLE], register="rdw")
        world.load([FINE], register="nyc")
        compliance(alice)
        with statements() as seen:
            compliance(alice, f"?asOf={DAY}&explain=true")
        # A worker on SQLite knows the key already (D109).
        assert [each for each in seen if '"api_key"' not in each] == seen[-1:]


class TestMerging:
    def test_the_four_checks_can_come_from_four_registers(self, alice, world):
        """Insurance, MOT, tax and fines of different registers make one record (D26)."""
        world.load([POLICY], register="mid")
        world.load([{"registration": "AB12CDE", "motExpiry": "2026-05-19"}], register="dvsa")
        tax = {"taxStatus": "taxed", "taxDue": "2026-05-01"}
        world.load([{"registration": "AB12CDE", **tax}], register="dvla")
        assert compliance(alice)["compliant"] is True
        world.load([FINE], register="nyc")
        assert list(compliance(alice)["checks"].values()) == [True, True, True, False]

    def test_precedence_is_a_setting(self, world):
        """VERIFYD_REGISTER_ORDER decides which tax status counts."""
        world.load([VEHICLE | {"taxStatus": "sorn", "taxDue": None}], register="dvla")
        world.load([VEHICLE], register="rdw")
        for order, expected in ((("dvla", "rdw"), "sorn"), (("rdw", "dvla"), "valid")):
            client = world.client(world.alice_key, register_order=order)
            assert reasons(client)[2] == expected


class TestExplain:
    @SHARED
    def test_true_adds_the_reasons(self, alice, legal):
        """The same record has a reason for each check."""
        explained = compliance(alice, f"?asOf={DAY}&explain=true")
        assert explained.pop("reasons") == dict(
            zip(CHECKS, ("valid", "valid", "valid", "none"), strict=True)
        )
        assert explained | {"lastChecked": ""} == compliance(alice) | {"lastChecked": ""}

    @SHARED
    def test_false_adds_nothing(self, alice, legal):
        """explain=false equals no parameter."""
        assert "reasons" not in compliance(alice, f"?asOf={DAY}&explain=false")

    @SHARED
    @each_row(
        ("day", "expected"),
        [
            ("2024-12-31", ["future", "valid", "valid", "none"]),
            ("2025-12-31", ["valid", "valid", "valid", "none"]),
            ("2026-01-31", ["expired", "valid", "valid", "none"]),
            ("2026-02-01", ["expired", "expired", "valid", "none"]),
            ("2026-03-01", ["expired", "expired", "expired", "none"]),
        ],
    )
    def test_another_day_has_other_reasons(self, alice, legal, day, expected):
        """For another day the registers' current rows are judged."""
        assert reasons(alice, day) == expected

    @pytest.mark.parametrize(
        ("facts", "check", "expected"),
        [
            ({"insured": True}, 0, "flag"),
            ({"insured": False}, 0, "none"),
            ({"motExempt": True}, 1, "exempt"),
            ({"taxStatus": "exempt"}, 2, "exempt"),
            ({"taxStatus": "sorn"}, 2, "sorn"),
            ({"taxStatus": "untaxed"}, 2, "untaxed"),
            ({"taxStatus": "who knows"}, 2, "unknown"),
        ],
    )
    def test_a_register_s_word_becomes_a_reason(self, alice, world, facts, check, expected):
        """A loaded value gives the reason of its check."""
        world.load([{"registration": "AB12CDE", "make": "Ford", **facts}])
        assert reasons(alice)[check] == expected

    def test_a_cancelled_policy_is_the_reason(self, alice, world):
        """A policy that is cancelled on the day is not in force."""
        world.load([POLICY | {"cancelledOn": DAY}])
        assert reasons(alice, "2025-06-30")[0] == "valid"
        assert reasons(alice)[0] == "cancelled"


class TestFines:
    @pytest.mark.parametrize(
        ("facts", "expected"),
        [
            ({}, "outstanding"),
            ({"amount": "0.01"}, "outstanding"),
            ({"amount": "0"}, "none"),
            ({"settledOn": "2025-01-01"}, "none"),
        ],
    )
    def test_only_what_is_owed_counts(self, alice, legal, world, facts, expected):
        """A fine that was settled, or has no amount due, does not count."""
        world.load([FINE | facts])
        assert reasons(alice)[3] == expected

    @pytest.mark.parametrize("day", ["2020-01-01", "2030-01-01"])
    def test_they_are_always_those_of_now(self, alice, world, day):
        """Fines are the current ones, whatever day is asked about (D22)."""
        world.load([FINE | {"issuedOn": "2025-05-01"}])
        assert reasons(alice, day)[3] == "outstanding"


class TestSettings:
    @pytest.mark.parametrize(
        ("years", "day", "expected"),
        [
            (0, "2025-06-30", "unknown"),
            (3, "2025-06-30", "not_due"),
            (3, "2025-07-01", "unknown"),
            (4, "2025-07-01", "not_due"),
        ],
    )
    def test_first_mot_is_due_after_the_first_years(self, world, years, day, expected):
        """VERIFYD_MOT_FIRST_YEARS counts from first registration, and is off by default."""
        world.load([{"registration": "AB12CDE", "firstRegistered": "2022-07-01"}])
        client = world.client(world.alice_key, mot_first_years={"*": years})
        assert reasons(client, day)[1] == expected

    def test_first_mot_of_cars_that_only_agencies_know(self, world, tmp_path):
        """Each agency's date counts by the years of its register; its due date counts always."""
        cars = {
            "dvsa.json": [
                {"registration": "GB1", "motTests": [], "firstUsedDate": "2022-07-02"},
                {"registration": "GB2", "motTests": [], "registrationDate": "2022-07-01"},
                {"registration": "GB3", "motTests": [], "registrationDate": "2024-01-01"}
                | {"motTestDueDate": "2024-12-31"},
                {"registration": "GB4", "motTests": [], "motTestDueDate": "2025-07-01"},
            ],
            "rdw.json": [
                {"kenteken": "NL1", "datum_eerste_toelating": "20210702", "wam_verzekerd": "Ja"}
                | {"merk": "SEAT"}
            ],
            "dvla.json": [
                {"registrationNumber": "GB5", "monthOfFirstRegistration": "2022-07"}
                | {"taxStatus": "Taxed"}
            ],
        }
        for name, records in cars.items():
            (tmp_path / name).write_text(json.dumps(records))
            world.load_files(tmp_path / name)

        def found(**settings):
            client = world.client(world.alice_key, **settings)
            plates = ("GB1", "GB2", "GB3", "GB4", "GB5", "NL1")
            query = f"?asOf={DAY}&explain=true"
            answers = [compliance(client, query, plate) for plate in plates]
            return [answer["reasons"]["motValid"] for answer in answers]

        off = ["unknown", "unknown", "expired", "valid", "unknown", "unknown"]
        assert found() == off
        assert found(mot_first_years={"native": 3}) == off
        by_register = found(mot_first_years={"dvsa": 3, "rdw": 4, "dvla": 4})
        assert by_register == ["not_due", "unknown", "expired", "valid", "not_due", "not_due"]
        for_all = found(mot_first_years={"*": 3})
        assert for_all == ["not_due", "unknown", "expired", "valid", "unknown", "unknown"]

    def test_today_depends_on_the_time_zone(self, world):
        """Without asOf the day is today in VERIFYD_TIMEZONE; these two are 26 hours apart."""
        ahead, behind = ZoneInfo("Pacific/Kiritimati"), ZoneInfo("Etc/GMT+12")
        begins = str(clock.today(ahead))
        world.load([POLICY | {"validFrom": begins, "validTo": "9999-12-31"}])
        for zone, expected in ((ahead, "valid"), (behind, "future")):
            client = world.client(world.alice_key, timezone=zone)
            assert compliance(client, "?explain=true")["reasons"]["insuranceValid"] == expected


class TestUnknown:
    """What no register knows is named, if the database says so (D198)."""

    PLATE = SILENT["registration"]

    def told(self, client, plate=PLATE, query=""):
        answer = compliance(client, query, plate)
        return answer["compliant"], answer.get("unknown")

    def test_all_checks_are_named_in_their_order(self, alice, telling):
        """Without a register of fines their check stays good, and is named, too."""
        telling.load([SILENT])
        answer = compliance(alice, "?explain=true", self.PLATE)
        assert answer["unknown"] == [*CHECKS, "compliant"]
        assert list(answer["checks"].values()) == [False, False, False, True]
        assert set(answer["reasons"].values()) == {"unknown"}

    def test_fines_alone_leave_it_known(self, alice, telling):
        """A vehicle that passes all other checks is compliant."""
        telling.load([SILENT | PAPERS])
        assert self.told(alice) == (True, ["noOutstandingFines"])
        telling.load([FINE])
        assert self.told(alice) == (True, None)

    @SHARED
    @each_row(
        "failing",
        [
            {"insured": False},
            {"motExempt": None, "motExpiry": "2025-01-31"},
            {"taxStatus": "sorn"},
        ],
    )
    def test_one_certain_failure_is_enough(self, alice, telling, failing):
        """Then it is known that the vehicle is not compliant, whatever else is not known."""
        telling.load([FINE])
        (name,) = [each for each in ("insured", "motExpiry", "taxStatus") if each in failing]
        plate = f"NK1{name.upper()}"
        telling.load([SILENT | failing | {"registration": plate}])
        compliant, unknown = self.told(alice, plate)
        assert (compliant, len(unknown)) == (False, 2)
        assert "compliant" not in unknown

    @SHARED
    def test_a_fine_that_is_owed_is_enough(self, alice, telling):
        """Of a plate that only a fine makes known, nothing else is."""
        telling.load([FINE | {"reference": "F-2", "registration": "NK2FINE"}])
        assert self.told(alice, "NK2FINE") == (False, list(CHECKS[:3]))

    @SHARED
    def test_reasons_stay_beside_what_is_not_known(self, alice, telling):
        """The reason is the state of the policy, also if another one may be in force."""
        lapsed = POLICY | {"registration": "NK3LAPSED"}
        telling.load([lapsed])
        for query, reason in (("", "expired"), ("&asOf=2024-12-31", "future")):
            answer = compliance(alice, f"?explain=true{query}", "NK3LAPSED")
            assert answer["reasons"]["insuranceValid"] == reason
            assert "insuranceValid" in answer["unknown"]

    @SHARED
    def test_other_days_have_reasons_of_their_own(self, alice, telling):
        """What is known, but not for the day, is `not_known_then`; absence is `no_policy`."""
        row = SILENT | PAPERS | {"registration": "NK4THEN", "lastUpdated": "2025-06-01"}
        telling.load([row])
        query = "?asOf=2025-05-31&explain=true"
        answer = compliance(alice, query, "NK4THEN")
        assert list(answer["reasons"].values())[:3] == ["not_known_then"] * 3
        telling.load([POLICY])
        telling.load([SILENT | {"registration": "NK5NONE"}])
        client = telling.client(telling.alice_key, **COMPLETE)
        answer = compliance(client, "?explain=true", "NK5NONE")
        assert answer["reasons"]["insuranceValid"] == "no_policy"
        assert "insuranceValid" not in answer["unknown"]

    def test_details_tell_when_each_check_was_loaded(self, alice, telling):
        """Each has the time of its register; the dates are absent where nothing is known."""
        papers = {"registration": "AB12CDE", "motExpiry": "2099-01-31", "taxStatus": "sorn"}
        load_at(telling, EARLY, [papers], [FINE | {"amount": "0"}], register="first")
        load_at(telling, LATE, [papers | {"motExpiry": "2099-02-28"}], register="second")
        answer = compliance(alice, "?details=true")
        assert answer["loaded"] == {
            "insuranceValid": None,
            "motValid": LATE_TEXT,
            "roadTaxPaid": EARLY_TEXT,
            "noOutstandingFines": EARLY_TEXT,
        }
        assert not {"insuredUntil", "compliantUntil"} & set(answer)

    @SHARED
    def test_head_has_the_length_of_get(self, alice, telling):
        """HEAD answers like GET, without a body."""
        telling.load([SILENT])
        head, get = (
            alice.request(each, f"/v1/compliance/{self.PLATE}") for each in ("HEAD", "GET")
        )
        assert (head.status_int, head.body) == (200, b"")
        assert head.headers["Content-Length"] == get.headers["Content-Length"]


@engine_independent
class Test400:
    @each_row("plate", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
    def test_spec_7_bad_request_registration(self, alice, plate):
        """A malformed registration is refused (D19)."""
        response = alice.get(f"/v1/compliance/{plate}")
        assert (response.status_int, response.json["code"]) == (400, "invalid_registration")
        assert response.json["title"] == "Bad Request"

    @each_row("query", BAD_DAYS.values(), ids=BAD_DAYS)
    def test_spec_7_bad_request_as_of(self, alice, query):
        """An invalid day, or two days, are refused; the error names the parameter."""
        response = alice.get(f"/v1/compliance/AB12CDE?{query}")
        assert (response.status_int, response.json["code"]) == (400, "invalid_parameter")
        assert "asOf" in response.json["detail"]

    @each_row("query", BAD_FLAGS.values(), ids=BAD_FLAGS)
    def test_spec_7_bad_request_explain(self, alice, query):
        """Only true and false are accepted, once."""
        response = alice.get(f"/v1/compliance/AB12CDE?{query}")
        assert (response.status_int, response.json["code"]) == (400, "invalid_parameter")
        assert "explain" in response.json["detail"]


@engine_independent
class Test401:
    @pytest.mark.parametrize("path", [ADDRESS, "/v1/compliance/%00?explain=x"])
    def test_spec_5_rule_4_without_a_key(self, stranger, legal, path):
        """Without a key nothing is revealed."""
        response = stranger.get(path)
        assert (response.status_int, response.json["code"]) == (401, "unauthorized")


class Test404:
    @SHARED
    def test_spec_7_not_found_vehicle(self, alice, legal):
        """An unknown plate gets 404, and is never compliant."""
        response = alice.get("/v1/compliance/ZZ99ZZZ")
        assert (response.status_int, response.json["code"]) == (404, "vehicle_not_found")
        assert response.json["title"] == "Not Found"
        assert response.json["detail"] == "Vehicle not found"

    def test_before_the_first_load_nothing_is_found(self, alice):
        """An installation without registers answers 404."""
        assert alice.get(ADDRESS).json["code"] == "vehicle_not_found"

    @engine_independent
    @each_row(
        "path",
        [
            "/v1/compliance/AB12CDE/",
            "/v1/compliance",
            "/v1/compliance/AB12%2FCDE",
            "/v1/vehicle/AB12CDE/compliance",
            "/compliance/AB12CDE",
        ],
    )
    def test_another_path_is_another_path(self, alice, path):
        """A trailing slash, an encoded slash or a missing version gets 404 (D1)."""
        response = alice.get(path)
        assert (response.status_int, response.json["code"]) == (404, "not_found")


@engine_independent
class Test405:
    @each_row("method", ["POST", "PUT", "PATCH", "DELETE"])
    def test_it_can_only_be_read(self, alice, method):
        """Other methods get 405 with the allowed methods."""
        response = alice.request(method, ADDRESS)
        assert (response.status_int, response.json["code"]) == (405, "method_not_allowed")
        assert set(response.headers["Allow"].split(", ")) == {"GET", "HEAD", "OPTIONS"}
