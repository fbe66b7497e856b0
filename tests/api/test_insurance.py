"""GET /v1/vehicle/{registration}/insurance (D19 to D21)."""

import re
from zoneinfo import ZoneInfo

import pytest

from app import clock
from app.storage.versions import set_tells_unknown
from tests.api.unknown import (
    BEFORE_FLAG,
    COMPLETE,
    EARLY,
    EARLY_TEXT,
    ENDED,
    FLAG_BEGINS,
    FLAGGED,
    LATE,
    LATE_TEXT,
    SILENT,
    load_at,
    tomorrow,
)
from tests.conftest import SHARED, engine_independent
from tests.rows import each_row

DAY = "2025-07-01"
ADDRESS = f"/v1/vehicle/AB12CDE/insurance?asOf={DAY}"
VEHICLE = {
    "registration": "AB12CDE",
    "make": "Ford",
    "model": "Focus",
    "year": 2021,
    "color": "Blue",
    "lastUpdated": "2025-06-01T10:00:00Z",
}
POLICY = {
    "registration": "AB12CDE",
    "number": "POL-1",
    "insurer": "Northgate Mutual",
    "validFrom": "2025-01-01",
    "validTo": "2025-12-31",
    "type": "comprehensive",
    "lastUpdated": "2025-06-02T11:00:00Z",
}
IMPOSSIBLE = {
    "blank": "%20",
    "hyphen": "-",
    "thirteen characters": "ABCDEFGHIJKLM",
    "thirteen letters from twelve": "%C3%9FABCDEFGHIJK",
    "far too long": "A" * 4_000,
    "NUL": "AB12%00CDE",
    "only NUL": "%00",
    "line feed": "AB12CDE%0A",
    "tab": "AB12%09CDE",
    "bad UTF-8": "%FF%FE",
    "truncated UTF-8": "AB%C3",
    "half a surrogate pair": "%ED%A0%80",
    "emoji": "%F0%9F%9A%97",
    "zero-width space": "AB12%E2%80%8BCDE",
    "right-to-left override": "%E2%80%AEAB12",
    "fraction": "%C2%BD",
    "question mark": "%3F",
    "percent sign": "AB12%25",
    "encoded twice": "AB12%2520CDE",
    "backslash": "AB%5C12",
    "dots": "...",
    "wildcard": "*",
    "SQL": "A'%20OR%201=1--",
    "markup": "%3Cb%3E",
}
BAD_DAYS = {
    "blank": "asOf=",
    "bare name": "asOf",
    "word": "asOf=today",
    "no such day": "asOf=2025-02-29",
    "no such month": "asOf=2025-13-01",
    "year zero": "asOf=0000-01-01",
    "short month": "asOf=2025-7-01",
    "compact": "asOf=20250701",
    "week": "asOf=2025-W27-2",
    "other order": "asOf=01-07-2025",
    "with a time": "asOf=2025-07-01T00:00:00Z",
    "trailing space": "asOf=2025-07-01%20",
    "trailing line feed": "asOf=2025-07-01%0A",
    "Arabic digits": "asOf=%D9%A2%D9%A0%D9%A2%D9%A5-07-01",
    "bad UTF-8": "asOf=%FF",
    "NUL": "asOf=%00",
    "far too long": "asOf=2025-07-01" + "0" * 3_000,
    "given twice": "asOf=2025-07-01&asOf=2025-07-01",
}


@pytest.fixture
def insured(world):
    """AB12CDE, described, and insured throughout 2025."""
    world.load([VEHICLE])
    world.load([POLICY])


def insurance(client, query=f"?asOf={DAY}", plate="AB12CDE"):
    """Return the answer's body for a known plate."""
    response = client.get(f"/v1/vehicle/{plate}/insurance{query}")
    assert response.status_int == 200
    return response.json


class Test200:
    @SHARED
    def test_spec_4_vehicle_insurance_verification(self, alice, insured):
        """The operation answers below the base address with the insurance record."""
        response = alice.get(ADDRESS)
        assert response.status_int == 200
        assert response.content_type == "application/json"
        assert response.json == {
            "asOf": DAY,
            "registration": "AB12CDE",
            "insured": True,
            "policy": {
                "number": "POL-1",
                "insurer": "Northgate Mutual",
                "validFrom": "2025-01-01",
                "validTo": "2025-12-31",
                "type": "comprehensive",
            },
            "vehicle": {"make": "Ford", "model": "Focus", "year": 2021, "color": "Blue"},
            "lastUpdated": "2025-06-02T11:00:00Z",
        }

    @SHARED
    def test_the_day_is_repeated_only_if_it_was_named(self, alice, insured):
        """Without a day the answer has exactly the promised members (D92)."""
        assert insurance(alice)["asOf"] == DAY
        assert set(insurance(alice, "")) == {
            *("registration", "insured", "policy", "vehicle", "lastUpdated")
        }

    @SHARED
    def test_spec_2_insurance_registration_is_the_one_queried(self, alice, insured):
        """The registration is in canonical form."""
        assert insurance(alice, plate="ab12%20cde")["registration"] == "AB12CDE"

    @SHARED
    @pytest.mark.parametrize(("day", "expected"), [("2025-12-31", True), ("2026-01-01", False)])
    def test_spec_2_insurance_insured_is_a_boolean(self, alice, insured, day, expected):
        """It is true or false: whether the vehicle is insured on the day."""
        assert insurance(alice, f"?asOf={day}")["insured"] is expected

    @SHARED
    def test_spec_2_insurance_policy_is_an_object(self, alice, insured):
        """The policy has exactly five members."""
        policy = insurance(alice)["policy"]
        assert set(policy) == {"number", "insurer", "validFrom", "validTo", "type"}

    @SHARED
    def test_spec_2_insurance_vehicle_is_an_object(self, alice, insured):
        """The vehicle has exactly four members."""
        assert set(insurance(alice)["vehicle"]) == {"make", "model", "year", "color"}

    @SHARED
    def test_spec_2_insurance_last_updated_is_a_utc_timestamp(self, alice, insured):
        """The time is ISO 8601, in UTC, in whole seconds."""
        form = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
        assert re.fullmatch(form, insurance(alice)["lastUpdated"])

    @SHARED
    def test_spec_2_policy_number_is_a_string(self, alice, insured):
        """The number is the register's."""
        assert insurance(alice)["policy"]["number"] == "POL-1"

    @SHARED
    def test_spec_2_policy_insurer_is_a_string(self, alice, insured):
        """The insurer is a name."""
        assert insurance(alice)["policy"]["insurer"] == "Northgate Mutual"

    @SHARED
    def test_spec_2_policy_valid_from_is_a_date(self, alice, insured):
        """The first day is YYYY-MM-DD."""
        assert insurance(alice)["policy"]["validFrom"] == "2025-01-01"

    @SHARED
    def test_spec_2_policy_valid_to_is_a_date(self, alice, insured):
        """The last day is YYYY-MM-DD."""
        assert insurance(alice)["policy"]["validTo"] == "2025-12-31"

    @SHARED
    def test_spec_2_policy_type_is_a_string(self, alice, insured):
        """The type is the register's own text."""
        assert insurance(alice)["policy"]["type"] == "comprehensive"

    @SHARED
    def test_spec_2_vehicle_make_is_a_string(self, alice, insured):
        """The make is a text."""
        assert insurance(alice)["vehicle"]["make"] == "Ford"

    @SHARED
    def test_spec_2_vehicle_model_is_a_string(self, alice, insured):
        """The model is a text."""
        assert insurance(alice)["vehicle"]["model"] == "Focus"

    @SHARED
    def test_spec_2_vehicle_year_is_an_integer(self, alice, insured):
        """The year is a number, never a text."""
        year = insurance(alice)["vehicle"]["year"]
        assert (type(year), year) == (int, 2021)

    @SHARED
    def test_spec_2_vehicle_color_is_a_string(self, alice, insured):
        """The colour is a text."""
        assert insurance(alice)["vehicle"]["color"] == "Blue"

    def test_known_but_uninsured_is_no_error(self, alice, world):
        """A vehicle without insurance has insured false and no policy (D20)."""
        world.load([VEHICLE])
        answer = insurance(alice)
        assert (answer["insured"], answer["policy"]) == (False, None)

    def test_a_flag_counts_if_no_policy_is_known(self, alice, world):
        """Without a policy the register's flag decides, whatever the day."""
        world.load([VEHICLE | {"insured": True}])
        answer = insurance(alice, "?asOf=1999-01-01")
        assert (answer["insured"], answer["policy"]) == (True, None)

    def test_unknown_values_are_null(self, alice, world):
        """A plate with only a policy is known, and its description is null."""
        world.load([POLICY | {"insurer": None, "type": None}])
        answer = insurance(alice)
        assert answer["vehicle"] == dict.fromkeys(("make", "model", "year", "color"))
        assert (answer["policy"]["insurer"], answer["policy"]["type"]) == (None, None)

    def test_a_plate_known_by_a_fine_is_known(self, alice, world):
        """A fine makes its plate known."""
        world.load([{"reference": "F-1", "registration": "AB12CDE", "amount": "5"}])
        answer = insurance(alice)
        assert (answer["insured"], answer["policy"]) == (False, None)
        assert answer["vehicle"] == dict.fromkeys(("make", "model", "year", "color"))

    @pytest.mark.parametrize(
        "sent",
        [
            "M%C3%9CAB123",
            "m%C3%BC-ab%20123",
            "M%C3%9C%20AB%20123",
            "MU%CC%88AB123",
            "%EF%BC%AD%C3%9C%EF%BC%A1%EF%BC%A2%EF%BC%91%EF%BC%92%EF%BC%93",
            "M%C3%9C%C2%A0AB%E2%80%91123",
        ],
    )
    def test_a_plate_is_found_in_any_notation(self, alice, world, sent):
        """Case, spaces, hyphens, width and composition make no difference (D19)."""
        world.load([{"registration": "MÜ AB 123", "make": "BMW"}])
        assert insurance(alice, plate=sent)["registration"] == "MÜAB123"

    @SHARED
    def test_head_is_get_without_a_body(self, alice, insured):
        """HEAD answers like GET."""
        head, get = alice.request("HEAD", ADDRESS), alice.get(ADDRESS)
        assert (head.status_int, head.body) == (200, b"")
        assert head.headers["Content-Length"] == get.headers["Content-Length"]

    def test_two_statements_however_many_registers(self, alice, world, insured, statements):
        """One reads the key, unless it is known, and one the vehicle (D109).

        Registers are attached once per worker.
        """
        for register in ("rdw", "zeta"):
            world.load([VEHICLE], register=register)
            world.load([POLICY], register=register)
        insurance(alice)
        with statements() as seen:
            insurance(alice)
        assert all('"api_key"' in each for each in seen[:-1])
        assert len(seen) == (1 if world.store.url.startswith("sqlite") else 2)
        assert all(f'"register_{name}"' in seen[-1] for name in ("native", "rdw", "zeta"))


class TestLastUpdated:
    def test_it_is_the_newest_of_the_rows_used(self, alice, world, insured):
        """The time of the source counts, of the vehicle or of the chosen policy (D21)."""
        assert insurance(alice)["lastUpdated"] == "2025-06-02T11:00:00Z"
        world.load([VEHICLE | {"lastUpdated": "2025-06-03T01:00:00+02:00"}])
        assert insurance(alice)["lastUpdated"] == "2025-06-02T23:00:00Z"

    def test_without_a_source_time_it_is_that_of_the_load(self, alice, world, monkeypatch):
        """The time is that of the last load that changed the row."""
        row = {"registration": "AB12CDE", "make": "Ford"}
        for loaded_at, make in ((1_000_000_000, "Ford"), (1_100_000_000, "Ford")):
            monkeypatch.setattr(clock, "now", lambda at=loaded_at: at)
            world.load([row | {"make": make}])
        assert insurance(alice)["lastUpdated"] == "2001-09-09T01:46:40Z"
        monkeypatch.setattr(clock, "now", lambda: 1_200_000_000)
        world.load([row | {"make": "Opel"}])
        assert insurance(alice)["lastUpdated"] == "2008-01-10T21:20:00Z"

    @SHARED
    def test_it_is_never_the_time_of_the_request(self, alice, insured):
        """Two answers are equal byte by byte."""
        assert alice.get(ADDRESS).body == alice.get(ADDRESS).body


class TestUnknown:
    """What no register knows is named, if the database says so (D198)."""

    @pytest.fixture
    def partial(self, telling):
        """A silent vehicle, one with a flag, and one whose only policy has ended."""
        telling.load([SILENT, FLAGGED])
        telling.load([ENDED])
        return telling

    def told(self, client, plate, query=""):
        answer = insurance(client, query, plate)
        return answer["insured"], answer.get("unknown")

    @SHARED
    @each_row("plate", [SILENT["registration"], ENDED["registration"]])
    def test_without_cover_it_is_not_known(self, alice, partial, plate):
        """The boolean is false, and `unknown` names it: a register may lack the policy."""
        assert self.told(alice, plate) == (False, ["insured"])

    @SHARED
    @each_row("plate", [SILENT["registration"], ENDED["registration"]])
    def test_in_a_complete_register_absence_is_an_answer(self, partial, plate):
        """Then the vehicle is not insured for certain, and the member is absent."""
        client = partial.client(partial.alice_key, **COMPLETE)
        assert self.told(client, plate) == (False, None)

    @SHARED
    @each_row(
        ("query", "expected"),
        [
            ("", (True, None)),
            (f"?asOf={FLAG_BEGINS}", (True, None)),
            (f"?asOf={BEFORE_FLAG}", (False, ["insured"])),
            (f"?asOf={tomorrow()}", (False, ["insured"])),
        ],
    )
    def test_a_flag_is_known_since_a_day(self, alice, partial, query, expected):
        """It says nothing about earlier and later days."""
        assert self.told(alice, FLAGGED["registration"], query) == expected

    @SHARED
    def test_what_is_known_is_answered_as_before(self, alice, telling, insured):
        """Without anything unknown the answer has exactly the promised members."""
        answer = insurance(alice)
        assert (answer["insured"], "unknown" in answer) == (True, False)

    @SHARED
    def test_the_former_rule_names_nothing(self, alice, partial):
        """By the rule of 1.0.0 all of these are answers, and a flag holds for every day."""
        set_tells_unknown(partial.engine, False)
        assert self.told(alice, SILENT["registration"]) == (False, None)
        for query in ("", f"?asOf={BEFORE_FLAG}", f"?asOf={tomorrow()}"):
            assert self.told(alice, FLAGGED["registration"], query) == (True, None)

    @SHARED
    def test_no_end_is_told_of_what_is_not_known(self, alice, partial):
        """`insuredUntil` is absent, and so it is on no other day but today for a flag."""
        assert "insuredUntil" not in insurance(alice, "?details=true", SILENT["registration"])
        flagged = FLAGGED["registration"]
        assert insurance(alice, "?details=true", flagged)["insuredUntil"] is None
        query = f"?details=true&asOf={BEFORE_FLAG}"
        assert "insuredUntil" not in insurance(alice, query, flagged)

    @SHARED
    def test_an_unknown_plate_stays_404(self, alice, partial):
        """A plate that no register mentions has no answer."""
        answer = alice.get("/v1/vehicle/ZZ99ZZZ/insurance")
        assert (answer.status_int, answer.json["code"]) == (404, "vehicle_not_found")

    @SHARED
    def test_head_has_the_length_of_get(self, alice, partial):
        """HEAD answers like GET, without a body."""
        address = f"/v1/vehicle/{SILENT['registration']}/insurance"
        head, get = alice.request("HEAD", address), alice.get(address)
        assert (head.status_int, head.body) == (200, b"")
        assert head.headers["Content-Length"] == get.headers["Content-Length"]

    def test_the_rule_changes_with_the_next_request(self, alice, world):
        """Workers that run see it with the state of the registers."""
        world.load([SILENT])
        for tells in (False, True, False):
            set_tells_unknown(world.engine, tells)
            unknown = ["insured"] if tells else None
            assert self.told(alice, SILENT["registration"]) == (False, unknown)


class TestLoaded:
    """`details` says when the register was loaded that decided (D199)."""

    def loaded(self, client, plate, query=""):
        return insurance(client, f"?details=true{query}", plate)["loaded"]["insuranceValid"]

    @pytest.fixture
    def two(self, world):
        """Two registers, of which one knows the policy; the other is loaded later."""
        load_at(world, EARLY, [VEHICLE], [POLICY], register="first")
        load_at(world, LATE, [VEHICLE | {"insured": False}], [ENDED], register="second")
        return world

    def test_it_is_of_the_register_with_the_policy(self, alice, two):
        """Under both rules; `lastUpdated` is the time of the row."""
        for tells in (False, True):
            set_tells_unknown(two.engine, tells)
            assert self.loaded(alice, "AB12CDE", f"&asOf={DAY}") == EARLY_TEXT

    def test_it_is_of_the_vehicles_if_a_flag_decides(self, alice, telling):
        """Each kind of a register has its own time."""
        load_at(telling, EARLY, [FLAGGED], register="first")
        load_at(telling, LATE, [ENDED], register="first")
        assert self.loaded(alice, FLAGGED["registration"]) == EARLY_TEXT
        assert self.loaded(alice, ENDED["registration"]) is None

    def test_absence_is_as_old_as_the_oldest_complete_register(self, telling):
        """Of several that decided, the answer has the oldest time."""
        load_at(telling, LATE, [SILENT], [ENDED], register="first")
        load_at(telling, EARLY, [ENDED], register="second")
        for complete, expected in (
            (("first",), LATE_TEXT),
            (("first", "second"), EARLY_TEXT),
            (("misspelt",), None),
        ):
            client = telling.client(telling.alice_key, complete_registers=complete)
            assert self.loaded(client, SILENT["registration"]) == expected

    def test_absence_before_today_is_as_old_as_what_knew_the_vehicle(self, telling):
        """A complete register that never had a policy of it says nothing about the past."""
        load_at(telling, LATE, [ENDED | {"registration": "NK08AAA"}], register="knew")
        load_at(telling, EARLY, [ENDED | {"registration": "NK09AAA"}], register="other")
        client = telling.client(telling.alice_key, complete_registers=("knew", "other"))
        for day, expected in (("2025-07-01", LATE_TEXT), (tomorrow(), EARLY_TEXT)):
            assert self.loaded(client, "NK08AAA", f"&asOf={day}") == expected

    def test_without_details_no_time_is_read(self, alice, two, statements):
        """Nor is the member there."""
        with statements() as seen:
            assert "loaded" not in insurance(alice)
        assert not any("register_load" in each for each in seen)


class TestToday:
    # The zones are 26 hours apart, so their days always differ.
    AHEAD, BEHIND = ZoneInfo("Pacific/Kiritimati"), ZoneInfo("Etc/GMT+12")

    def test_it_depends_on_the_time_zone(self, world):
        """Without asOf the day is today in VERIFYD_TIMEZONE (D20)."""
        world.load([POLICY | {"validFrom": str(clock.today(self.AHEAD)), "validTo": "9999-12-31"}])
        ahead = world.client(world.alice_key, timezone=self.AHEAD)
        behind = world.client(world.alice_key, timezone=self.BEHIND)
        assert insurance(ahead, "")["insured"] is True
        assert insurance(behind, "")["insured"] is False

    def test_as_of_asks_for_another_day(self, world):
        """With asOf the zone makes no difference."""
        world.load([POLICY])
        behind = world.client(world.alice_key, timezone=self.BEHIND)
        days = ("2024-12-31", "2025-01-01", "2025-12-31", "2026-01-01")
        answers = [insurance(behind, f"?asOf={day}")["insured"] for day in days]
        assert answers == [False, True, True, False]

    @SHARED
    @pytest.mark.parametrize("day", ["0001-01-01", "9999-12-31"])
    def test_the_calendar_is_taken_whole(self, alice, insured, day):
        """The first and the last day of the calendar are valid."""
        assert insurance(alice, f"?asOf={day}")["insured"] is False


@engine_independent
class Test400:
    @each_row("plate", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
    def test_spec_7_bad_request_registration(self, alice, plate):
        """A malformed registration is refused (D19)."""
        response = alice.get(f"/v1/vehicle/{plate}/insurance")
        assert (response.status_int, response.json["code"]) == (400, "invalid_registration")
        assert response.json["title"] == "Bad Request"

    @each_row("query", BAD_DAYS.values(), ids=BAD_DAYS)
    def test_spec_7_bad_request_as_of(self, alice, query):
        """An invalid day, or two days, are refused; the error names the parameter."""
        response = alice.get(f"/v1/vehicle/AB12CDE/insurance?{query}")
        assert (response.status_int, response.json["code"]) == (400, "invalid_parameter")
        assert "asOf" in response.json["detail"]

    def test_an_unknown_plate_does_not_hide_a_bad_parameter(self, alice):
        """Parameters are checked before the registers are queried."""
        response = alice.get("/v1/vehicle/NONE1/insurance?asOf=x")
        assert response.json["code"] == "invalid_parameter"

    def test_the_refusal_does_not_repeat_what_was_sent(self, alice):
        """A hostile plate is not repeated."""
        response = alice.get("/v1/vehicle/%3Cscript%3E/insurance")
        assert b"script" not in response.body


@engine_independent
class Test401:
    @pytest.mark.parametrize("path", [ADDRESS, "/v1/vehicle/%00/insurance?asOf=x"])
    def test_spec_5_rule_4_without_a_key(self, stranger, insured, path):
        """Without a key nothing is revealed, not even that a request is malformed."""
        response = stranger.get(path)
        assert (response.status_int, response.json["code"]) == (401, "unauthorized")

    def test_spec_5_rule_3_either_header_opens(self, world, stranger, insured):
        """A key in X-API-Key works, too."""
        response = stranger.get(ADDRESS, headers={"X-API-Key": world.alice_key})
        assert response.status_int == 200


class Test404:
    @SHARED
    def test_spec_7_not_found_vehicle(self, alice, insured):
        """An unknown plate gets 404."""
        response = alice.get("/v1/vehicle/ZZ99ZZZ/insurance")
        assert (response.status_int, response.json["code"]) == (404, "vehicle_not_found")
        assert response.json["title"] == "Not Found"
        assert response.json["detail"] == "Vehicle not found"

    def test_before_the_first_load_nothing_is_found(self, alice):
        """An installation without registers answers 404."""
        assert alice.get(ADDRESS).json["code"] == "vehicle_not_found"

    @SHARED
    @each_row("plate", ["A812CDE", "AB1ZCDE", "%D0%90B12CDE", "AB12CD", "AB12CDEE"])
    def test_look_alikes_are_other_plates(self, alice, insured, plate):
        """Look-alike letters differ, and a part of a plate finds nothing (D19)."""
        assert alice.get(f"/v1/vehicle/{plate}/insurance").status_int == 404

    @engine_independent
    @each_row(
        "path",
        [
            "/v1/vehicle/AB12CDE/insurance/",
            "/v1/vehicle/AB12CDE",
            "/v1/vehicle/AB12%2FCDE/insurance",
            "/v1/vehicle/%2F/insurance",
            "/vehicle/AB12CDE/insurance",
            "/V1/vehicle/AB12CDE/insurance",
        ],
    )
    def test_another_path_is_another_path(self, alice, path):
        """A trailing slash, an encoded slash or another version gets 404 (D1)."""
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
