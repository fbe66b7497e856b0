"""Periods, dates and all policies, over the four operations on vehicles (D172)."""

from itertools import product

import pytest

from app.storage.versions import set_tells_unknown
from tests.api.unknown import COMPLETE, FLAG_BEGINS, FLAGGED, tomorrow
from tests.conftest import SHARED, STORAGE, engine_independent
from tests.rows import each_row
from tests.unit.periods_model import random_vehicles

PLATE = "AB12CDE"
INSURANCE = f"/v1/vehicle/{PLATE}/insurance"
COMPLIANCE = f"/v1/compliance/{PLATE}"
BULKS = ("/v1/vehicle/bulk-insurance", "/v1/compliance/bulk")
FRIDAY, SUNDAY, MONDAY = "2025-07-04", "2025-07-06", "2025-07-07"
WEEKEND = f"from={FRIDAY}&to={MONDAY}"
VEHICLE = {
    "registration": PLATE,
    "make": "Ford",
    "motExpiry": "2025-07-31",
    "taxStatus": "exempt",
    "lastUpdated": "2025-06-01T10:00:00Z",
}
POLICY = {
    "registration": PLATE,
    "number": "P-1",
    "insurer": "Northgate",
    "validFrom": "2025-01-01",
    "validTo": "2025-07-05",
    "lastUpdated": "2025-06-02T11:00:00Z",
}
LATER = {
    **POLICY,
    "number": "P-2",
    "validFrom": MONDAY,
    "validTo": "2025-12-31",
    "lastUpdated": "2025-06-03T12:00:00Z",
}
BAD_PERIODS = {
    "only from": ({"from": FRIDAY}, "from", "is not allowed without to"),
    "only to": ({"to": FRIDAY}, "to", "is not allowed without from"),
    "a day too": (
        {"from": FRIDAY, "to": MONDAY, "asOf": FRIDAY},
        *("asOf", "is not allowed with from and to"),
    ),
    "half and a day": ({"from": FRIDAY, "asOf": FRIDAY}, "from", "is not allowed without to"),
    "reversed": ({"from": MONDAY, "to": FRIDAY}, "to", "must not be before from"),
    "401 days": (
        {"from": "2025-01-01", "to": "2026-02-05"},
        *("to", "makes a period of 401 days; at most 400 are allowed"),
    ),
    "all time": (
        {"from": "0001-01-01", "to": "9999-12-31"},
        *("to", "makes a period of 3,652,059 days; at most 400 are allowed"),
    ),
    "29 February": (
        {"from": "2025-02-29", "to": MONDAY},
        *("from", "names a day that does not exist"),
    ),
    "31 April": ({"from": FRIDAY, "to": "2026-04-31"}, "to", "names a day that does not exist"),
    "year 0": ({"from": "0000-12-31", "to": FRIDAY}, "from", "names a day that does not exist"),
    "a word": (
        {"from": FRIDAY, "to": "monday"},
        *("to", "must be a day as YYYY-MM-DD, such as 2026-12-31"),
    ),
}


@pytest.fixture
def gap(world):
    """A vehicle with two policies, of which none covers the Sunday."""
    world.load([VEHICLE])
    world.load([POLICY, LATER])


FAILED = {"registration", "error", "code"}


def native(row):
    """Return a row as an object of a native file, without its time."""
    words = {name: name.split("_") for name in row._fields}
    names = {name: first + "".join(map(str.title, rest)) for name, (first, *rest) in words.items()}
    known = {names[name]: value for name, value in row._asdict().items() if value is not None}
    return {name: value for name, value in known.items() if name != "updated"}


def got(client, path):
    """Return the body of an answer."""
    response = client.get(path)
    assert response.status_int == 200
    return response.json


def items(client, bulk, *plates, **members):
    """Return the items of a bulk."""
    response = client.post(bulk, {"registrations": plates, **members})
    assert response.status_int == 200
    return response.json["results"]


class TestPeriod:
    @SHARED
    def test_two_good_days_do_not_hide_a_gap(self, alice, gap):
        """The first day without a policy is found, with its reason, between two insured days."""
        for day in (FRIDAY, MONDAY):
            assert got(alice, f"{INSURANCE}?asOf={day}")["insured"]
        assert got(alice, f"{INSURANCE}?{WEEKEND}")["period"] == {
            "firstDay": FRIDAY,
            "lastDay": MONDAY,
            "validThroughout": False,
            "firstFailingDay": SUNDAY,
            "reasons": {"insuranceValid": "future"},
        }

    @SHARED
    def test_compliance_has_the_reasons_of_all_checks(self, alice, gap):
        """The reasons are those of `explain` on the first failing day."""
        period = got(alice, f"{COMPLIANCE}?from={MONDAY}&to=2025-08-31")["period"]
        assert period["firstFailingDay"] == "2025-08-01"
        alone = got(alice, f"{COMPLIANCE}?asOf=2025-08-01&explain=true")
        assert period["reasons"] == alone["reasons"]
        assert period["reasons"]["motValid"] == "expired"

    @SHARED
    @each_row("address", [INSURANCE, COMPLIANCE])
    def test_a_period_without_a_failing_day(self, alice, gap, address):
        """It is valid throughout, and has neither a failing day nor reasons."""
        assert got(alice, f"{address}?from={MONDAY}&to=2025-07-31")["period"] == {
            "firstDay": MONDAY,
            "lastDay": "2025-07-31",
            "validThroughout": True,
        }

    @SHARED
    @each_row("address", [INSURANCE, COMPLIANCE])
    def test_all_other_members_are_about_the_first_day(self, alice, gap, address):
        """They are those of `asOf`, which is not repeated."""
        within, alone = got(alice, f"{address}?{WEEKEND}"), got(alice, f"{address}?asOf={FRIDAY}")
        del within["period"], alone["asOf"]
        for time in ("lastChecked", "lastUpdated"):
            within.pop(time, None)
            alone.pop(time, None)
        assert within == alone

    @SHARED
    def test_last_updated_covers_all_policies_used(self, alice, gap):
        """The policy that begins later is newer, and counts with a period only."""
        assert got(alice, f"{INSURANCE}?{WEEKEND}")["lastUpdated"] == LATER["lastUpdated"]
        for query in (f"asOf={FRIDAY}", f"asOf={FRIDAY}&details=true"):
            assert got(alice, f"{INSURANCE}?{query}")["lastUpdated"] == POLICY["lastUpdated"]
        details = {"from": FRIDAY, "to": MONDAY, "details": True}
        for bulk in BULKS:
            assert items(alice, bulk, PLATE, **details)[0]["lastUpdated"] == LATER["lastUpdated"]

    @SHARED
    @each_row(
        ("first", "last"),
        [
            (FRIDAY, FRIDAY),
            ("2025-01-01", "2026-02-04"),
            ("0001-01-01", "0001-12-31"),
            ("9998-11-27", "9999-12-31"),
        ],
    )
    @each_row("address", [INSURANCE, COMPLIANCE])
    def test_one_day_400_days_and_the_ends_of_the_calendar(self, alice, gap, address, first, last):
        """These periods are answered."""
        period = got(alice, f"{address}?from={first}&to={last}&details=true")["period"]
        assert (period["firstDay"], period["lastDay"]) == (first, last)

    @pytest.mark.parametrize(("number", "reason"), [(1, "cancelled"), (2, "expired")])
    def test_a_policy_cancelled_before_its_first_day(self, alice, world, number, reason):
        """It never covers a day, alone or beside another one, which ends later."""
        cancelled = LATER | {"validFrom": FRIDAY, "cancelledOn": "2025-06-01"}
        world.load([VEHICLE])
        world.load([cancelled, POLICY][:number])
        answer = got(alice, f"{INSURANCE}?{WEEKEND}&policies=all&details=true")
        failing = (FRIDAY, SUNDAY)[number - 1]
        assert answer["period"]["firstFailingDay"] == failing
        assert answer["period"]["reasons"] == {"insuranceValid": reason}
        assert [each["number"] for each in answer["policies"]] == ["P-1"] * (number - 1)

    def test_the_first_mot_can_be_what_fails(self, world):
        """The first MOT is due on the anniversary; that of 29 February is on 1 March."""
        new = {"firstRegistered": "2024-02-29", "insured": True, "motExpiry": None}
        world.load([VEHICLE | new])
        client = world.client(world.alice_key, mot_first_years={"*": 3})
        answer = got(client, f"{COMPLIANCE}?from=2027-02-20&to=2027-03-10&details=true")
        assert answer["period"]["firstFailingDay"] == "2027-03-01"
        assert answer["period"]["reasons"]["motValid"] == "unknown"
        assert answer["compliantUntil"] == "2027-02-28"
        assert answer["insuredUntil"] is None


class TestUnknown:
    """`unknown` of a period names it if no day fails for certain, and one is not known (D198)."""

    def period(self, client, first, last, plate=PLATE):
        return got(client, f"/v1/vehicle/{plate}/insurance?from={first}&to={last}")["period"]

    @SHARED
    def test_a_gap_is_not_known_unless_a_register_is_complete(self, telling, gap):
        """It is the same day with the same reason; only `unknown` tells them apart."""
        told = {
            "firstDay": FRIDAY,
            "lastDay": MONDAY,
            "validThroughout": False,
            "firstFailingDay": SUNDAY,
            "reasons": {"insuranceValid": "future"},
        }
        for settings, unknown in (({}, {"unknown": ["validThroughout"]}), (COMPLETE, {})):
            client = telling.client(telling.alice_key, **settings)
            assert self.period(client, FRIDAY, MONDAY) == told | unknown

    @SHARED
    def test_a_failure_stands_before_a_day_that_is_not_known(self, alice, telling, gap):
        """The answer has the first day that fails for certain, also after one that is not known."""
        address = f"{COMPLIANCE}?from=2025-07-06&to=2025-08-31"
        period = got(alice, address)["period"]
        assert (period["firstFailingDay"], "unknown" in period) == ("2025-08-01", False)
        assert period["reasons"]["motValid"] == "expired"

    @SHARED
    def test_a_flag_covers_the_days_for_which_it_was_known(self, alice, telling):
        """From its row's time until today; other days of a period are not known."""
        telling.load([FLAGGED])
        plate = FLAGGED["registration"]
        period = self.period(alice, FLAG_BEGINS, "2025-06-30", plate)
        assert (period["validThroughout"], "unknown" in period) == (True, False)
        for first, last, day in (
            ("2025-05-30", "2025-06-30", "2025-05-30"),
            (tomorrow(), tomorrow(), tomorrow()),
        ):
            period = self.period(alice, first, last, plate)
            assert (period["firstFailingDay"], period["unknown"]) == (day, ["validThroughout"])
            assert period["reasons"] == {"insuranceValid": "not_known_then"}

    @SHARED
    def test_items_have_it_too(self, alice, telling, gap):
        """The period of an item names it, beside the `unknown` of its first day."""
        for bulk in BULKS:
            (item,) = items(alice, bulk, PLATE, **{"from": SUNDAY, "to": MONDAY})
            assert item["period"]["unknown"] == ["validThroughout"]
            assert {"insured", "compliant"} & set(item["unknown"])
        set_tells_unknown(telling.engine, False)
        for bulk in BULKS:
            (item,) = items(alice, bulk, PLATE, **{"from": SUNDAY, "to": MONDAY})
            assert "unknown" not in item | item["period"]


class TestDetails:
    @SHARED
    def test_insurance_says_until_when(self, alice, gap):
        """`insuredUntil` is the last day of the cover that includes the day, if any does."""
        assert got(alice, f"{INSURANCE}?asOf={FRIDAY}&details=true")["insuredUntil"] == "2025-07-05"
        assert got(alice, f"{INSURANCE}?asOf={MONDAY}&details=true")["insuredUntil"] == "2025-12-31"
        assert "insuredUntil" not in got(alice, f"{INSURANCE}?asOf={SUNDAY}&details=true")

    @STORAGE
    def test_a_known_cancellation_is_told(self, alice, world):
        """It ends a policy, and is beside `validTo` with `details` and `policies=all` only."""
        cancelled = POLICY | {"validTo": "2027-12-31", "cancelledOn": MONDAY}
        lasting = POLICY | {"number": "P-0", "validTo": "2025-12-31"}
        world.load([cancelled])
        world.load([VEHICLE | {"registration": "OTHER"}, VEHICLE])
        days = {"validFrom": "2025-01-01", "validTo": "2027-12-31"}
        plain = {"number": "P-1", "insurer": "Northgate", **days, "type": None}
        told = plain | {"cancelledOn": MONDAY}
        address = f"{INSURANCE}?asOf={FRIDAY}"
        assert got(alice, address)["policy"] == plain
        assert got(alice, f"{INSURANCE}?{WEEKEND}")["policy"] == plain
        for option in ("details=true", "policies=all"):
            assert got(alice, f"{address}&{option}")["policy"] == told
        assert got(alice, f"{address}&details=true")["insuredUntil"] == SUNDAY
        asked = {"asOf": FRIDAY, "details": True}
        assert items(alice, BULKS[0], PLATE, "OTHER", **asked)[0]["policy"] == told
        assert items(alice, BULKS[0], PLATE, asOf=FRIDAY)[0]["policy"] == plain
        world.load([lasting])
        answer = got(alice, f"{address}&policies=all")
        assert answer["policy"] == answer["policies"][0]
        assert [(each["number"], each["cancelledOn"]) for each in answer["policies"]] == [
            ("P-0", None),
            ("P-1", MONDAY),
        ]

    @SHARED
    def test_compliance_says_until_when_and_why(self, alice, gap):
        """The dates of all papers are added."""
        answer = got(alice, f"{COMPLIANCE}?asOf={MONDAY}&details=true")
        assert {name: answer[name] for name in list(answer)[5:] if name != "loaded"} == {
            "insuredUntil": "2025-12-31",
            "compliantUntil": "2025-07-31",
            "motExpiry": "2025-07-31",
            "motExempt": None,
            "firstRegistered": None,
            "taxStatus": "exempt",
            "taxDue": None,
            "finesOutstanding": 0,
        }

    def test_no_end_is_known(self, alice, world):
        """A flag, an exemption and a policy to 9999-12-31 have no end: the dates are null."""
        forever = {"registration": "X1", "motExempt": True, "taxStatus": "exempt"}
        world.load([forever, forever | {"registration": "X2", "insured": True}])
        world.load([POLICY | {"registration": "X1", "validTo": "9999-12-31"}])
        for plate in ("X1", "X2"):
            answer = got(alice, f"/v1/compliance/{plate}?asOf={FRIDAY}&details=true")
            assert (answer["insuredUntil"], answer["compliantUntil"]) == (None, None)

    @STORAGE
    def test_a_fine_in_two_registers_counts_once(self, alice, world):
        """Unsettled fines are counted by reference, at most 100."""
        fine = {"registration": PLATE, "amount": "5"}
        world.load([fine | {"reference": "F1"}, fine | {"reference": "F2", "settledOn": FRIDAY}])
        world.load([fine | {"reference": "F1"}, fine | {"reference": "F3"}], register="second")
        assert got(alice, f"{COMPLIANCE}?details=true")["finesOutstanding"] == 2
        world.load([fine | {"reference": f"G{n}"} for n in range(150)], register="second")
        assert got(alice, f"{COMPLIANCE}?details=true")["finesOutstanding"] == 100

    @SHARED
    @each_row("address", [INSURANCE, COMPLIANCE])
    def test_nothing_is_added_that_was_not_asked_for(self, alice, gap, address):
        """`details=false` is like no parameter."""
        without, refused = (
            got(alice, f"{address}?asOf={FRIDAY}{more}") for more in ("", "&details=false")
        )
        assert refused | {"lastChecked": None} == without | {"lastChecked": None}


class TestPolicies:
    def test_double_insurance_is_seen(self, alice, world):
        """All policies in force are listed; one that two registers know is listed once."""
        world.load([POLICY, POLICY | {"number": "P-0", "validTo": "2025-07-04"}])
        other = POLICY | {"type": "other", "validTo": "2025-07-04"}
        world.load([other, other | {"insurer": "Zenith"}, LATER], register="second")
        answer = got(alice, f"{INSURANCE}?asOf={FRIDAY}&policies=all")
        assert answer["policies"][0] == answer["policy"]
        assert [(each["insurer"], each["number"], each["type"]) for each in answer["policies"]] == [
            ("Northgate", "P-1", None),
            ("Zenith", "P-1", "other"),
            ("Northgate", "P-0", None),
        ]
        assert "policiesTruncated" not in answer

    @SHARED
    def test_there_may_be_none(self, alice, gap):
        """The list is empty if no policy is in force."""
        answer = got(alice, f"{INSURANCE}?asOf={SUNDAY}&policies=all")
        assert answer["policy"]["number"] == "P-2"
        assert answer["policies"] == []

    def test_one_policy_is_the_answered_one(self, alice, world):
        """The list has the policy that is answered."""
        world.load([POLICY])
        answer = got(alice, f"{INSURANCE}?asOf={FRIDAY}&policies=all")
        assert answer["policies"] == [answer["policy"]]

    @STORAGE
    @pytest.mark.parametrize(
        ("number", "is_cut", "is_too_many"),
        [
            (20, False, False),
            (21, True, False),
            (100, True, False),
            (101, True, True),
            (1000, True, True),
        ],
    )
    def test_many_policies(self, alice, world, number, is_cut, is_too_many):
        """At most 20 are listed; with more than 100, the answer has no period and no dates."""
        old = POLICY | {"number": "OLD", "validTo": "2025-07-03"}
        many = [
            POLICY | {"number": f"P-{n:04}", "validTo": LATER["validTo"]} for n in range(number)
        ]
        world.load([VEHICLE])
        world.load([old, *many])
        query = f"{WEEKEND}&details=true"
        insurance = got(alice, f"{INSURANCE}?{query}&policies=all")
        assert len(insurance["policies"]) == 20
        assert insurance["policies"][0] == insurance["policy"]
        assert insurance["policy"]["number"] == f"P-{number - 1:04}"
        assert insurance.get("policiesTruncated", False) == is_cut
        for answer in (insurance, got(alice, f"{COMPLIANCE}?{query}")):
            period = {"firstDay": FRIDAY, "lastDay": MONDAY}
            told = {"tooManyPolicies": True} if is_too_many else {"validThroughout": True}
            assert answer["period"] == period | told
            assert answer.get("tooManyPolicies", False) == is_too_many
            assert ("insuredUntil" in answer) == (not is_too_many)
        assert ("compliantUntil" in answer) == (not is_too_many)
        assert answer["motExpiry"] == "2025-07-31"


class TestBulk:
    @STORAGE
    def test_an_item_says_what_the_single_look_up_says(self, alice, world):
        """For random vehicles, all members of an item are those of the single answer.

        So they are under both rules (D198).
        """
        plates = [f"AB{n}" for n in range(60)]
        registers, periods = random_vehicles(("native", "second"), plates, seed=1)
        for name, rows in registers.items():
            world.load([native(row) for row in rows["v"]], register=name)
            world.load([native(row) for row in rows["p"]], register=name)
        first, last = periods["AB0"]
        asked = {"from": first, "to": last, "details": True}
        query = f"from={first}&to={last}&details=true"
        paths = ("vehicle/{}/insurance", "compliance/{}")
        for tells, (path, bulk) in product((False, True), zip(paths, BULKS, strict=True)):
            set_tells_unknown(world.engine, tells)
            for item in items(alice, bulk, *plates, "NONE1", **asked):
                response = alice.get(f"/v1/{path.format(item['registration'])}?{query}")
                if response.status_int == 404:
                    assert item.keys() - {"insured", "compliant"} == FAILED
                    continue
                single = response.json
                for member in {"vehicle", "lastUpdated"} - single.keys():
                    del item[member]
                single.pop("lastChecked", None)
                assert item == single

    @SHARED
    def test_one_statement_however_many_plates(self, alice, gap, statements):
        """A period and dates take no other statement, for one plate and for many.

        The times of the loads are read every ten seconds (D199).
        """
        members = {"from": FRIDAY, "to": MONDAY, "details": True}
        items(alice, BULKS[1], PLATE, "NONE1", **members)
        got(alice, f"{INSURANCE}?{WEEKEND}&policies=all")
        for ask in (
            lambda: items(alice, BULKS[1], PLATE, "NONE1", **members),
            lambda: got(alice, f"{INSURANCE}?{WEEKEND}&policies=all"),
        ):
            with statements() as seen:
                ask()
            others = ('"api_key"', '"register_load"')
            look_ups = [each for each in seen if not any(name in each for name in others)]
            assert len(look_ups) == 1


@engine_independent
class Test400:
    @each_row(("sent", "name", "fault"), BAD_PERIODS.values(), ids=BAD_PERIODS)
    @each_row("address", [INSURANCE, COMPLIANCE])
    def test_days_that_make_no_period(self, alice, address, sent, name, fault):
        """The parameter at fault is named, with what is wrong."""
        query = "&".join(f"{key}={value}" for key, value in sent.items())
        response = alice.get(f"{address}?{query}")
        assert (response.status_int, response.json["code"]) == (400, "invalid_parameter")
        assert response.json["detail"] == f"The parameter {name} {fault}."

    @each_row(("sent", "name", "fault"), BAD_PERIODS.values(), ids=BAD_PERIODS)
    @each_row("bulk", BULKS)
    def test_days_that_make_no_period_in_a_body(self, alice, bulk, sent, name, fault):
        """The member at fault is named, with a pointer to it."""
        response = alice.post(bulk, {"registrations": [PLATE], **sent})
        assert (response.status_int, response.json["code"]) == (400, "invalid_body")
        assert response.json["detail"] == f"The member {name} {fault}."
        assert response.json["errors"][0]["pointer"] == f"/{name}"

    @each_row(
        ("query", "detail"),
        [
            (f"{WEEKEND}&from={FRIDAY}", "The parameter from is given more than once."),
            (f"{WEEKEND}&to={FRIDAY}", "The parameter to is given more than once."),
            ("details=true&details=true", "The parameter details is given more than once."),
            ("details=maybe", "The parameter details must be true or false."),
            ("details=", "The parameter details must be true or false."),
        ],
    )
    @each_row("address", [INSURANCE, COMPLIANCE])
    def test_parameters_given_twice_or_of_a_wrong_type(self, alice, address, query, detail):
        """Each parameter is given once, and has its type."""
        response = alice.get(f"{address}?{query}")
        assert (response.status_int, response.json["detail"]) == (400, detail)

    @each_row(
        ("query", "detail"),
        [
            ("policies=all&policies=all", "The parameter policies is given more than once."),
            ("policies=some", "The parameter policies must be all."),
            ("policies=", "The parameter policies must be all."),
        ],
    )
    def test_wrong_policies(self, alice, query, detail):
        """`policies` is `all`, and belongs to insurance only."""
        response = alice.get(f"{INSURANCE}?{query}")
        assert (response.status_int, response.json["detail"]) == (400, detail)
        assert alice.get(f"{COMPLIANCE}?{query}").json["code"] == "unknown_parameter"

    @each_row(
        ("body", "pointer"),
        [
            (b'{"registrations":["A"],"from":20250704,"to":"2025-07-07"}', "/from"),
            (b'{"registrations":["A"],"from":"2025-07-04","to":true}', "/to"),
            (b'{"registrations":["A"],"from":"2025-07-04","to":null}', "/from"),
            (
                b'{"registrations":["A"],"from":null,"from":"2025-07-04","to":"2025-07-04"}',
                "/from",
            ),
            (b'{"registrations":["A"],"details":"true"}', "/details"),
            (b'{"registrations":["A"],"policies":"all"}', "/policies"),
        ],
    )
    @each_row("bulk", BULKS)
    def test_members_given_twice_or_of_a_wrong_type(self, alice, bulk, body, pointer):
        """Each member is given once, has its type, and belongs to the operation."""
        response = alice.post(bulk, body)
        assert response.status_int == 400
        assert response.json["errors"][0]["pointer"] == pointer

    @each_row("bulk", BULKS)
    def test_a_period_of_a_bulk_is_in_its_body(self, alice, bulk):
        """In the query it is refused, with the place where it belongs."""
        response = alice.post(f"{bulk}?{WEEKEND}", {"registrations": [PLATE]})
        assert (
            response.json["detail"]
            == "The parameter from is unknown; send it as a member of the body."
        )

    def test_null_is_no_period(self, alice):
        """Null members of a body are like absent ones."""
        body = {"registrations": ["NONE1"], "from": None, "to": None, "details": None}
        assert alice.post(BULKS[0], body).status_int == 200
