"""Sandbox plans: keys, vehicles, errors, and what their answers are not part of (D180 to D182)."""

import re
import sys
from datetime import UTC, date, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from app import clock
from app.accounts.administration import create_key, require_account, rotate_key, set_plan
from app.accounts.models import Account, ApiKey, Plan
from app.accounts.restrictions import Restrictions
from app.accounts.tokens import parse_token
from app.registers.undo import drop_register
from app.routes import OPERATIONS
from app.serve.sandbox_errors import ERRORS
from app.storage.versions import set_tells_unknown, tells_unknown
from app.vehicles.sandbox import VEHICLES, VEHICLES_UNKNOWN
from tests.api.test_metrics import read
from tests.api.test_usage import used
from tests.api.watches import put, sweep
from tests.conftest import ON_SQLITE, SHARED, STORAGE
from tests.contract.answers import document, resolved
from tests.enquiry import set_enquiry, set_suggest, set_watches_max
from tests.rows import each_row
from tests.unit.audit_trails import lines

LIMITS = {"requests": 1_000_000, "window_seconds": 60, "bulk_max": 1_000, "domains_max": 2}
INSURANCE, COMPLIANCE = "/v1/vehicle/{}/insurance", "/v1/compliance/{}"
BULKS = {"bulk_insurance": "/v1/vehicle/bulk-insurance", "bulk_compliance": "/v1/compliance/bulk"}
DOMAINS, WATCHES = "/api/domains", "/v1/watches"
PAGE = {
    "TESTOK": "valid valid valid none",
    "TESTLAPSED": "expired valid valid none",
    "TESTFUTURE": "future valid valid none",
    "TESTCANCEL": "cancelled valid valid none",
    "TESTTWO": "valid valid valid none",
    "TESTGAP": "valid valid valid none",
    "TESTMANY": "valid valid valid none",
    "TESTFLAG": "flag valid valid none",
    "TESTNONE": "none valid valid none",
    "TESTBLANK": "unknown unknown unknown none",
    "TESTPOLICY": "valid unknown unknown none",
    "TESTNOMOT": "valid expired valid none",
    "TESTEXEMPT": "valid exempt exempt none",
    "TESTYOUNG": "valid not_due valid none",
    "TESTSORN": "valid valid sorn none",
    "TESTUNTAXED": "valid valid untaxed none",
    "TESTTAXDUE": "valid valid expired none",
    "TESTFINE": "valid valid valid outstanding",
    "TESTPAID": "valid valid valid none",
}
"""The reasons of each known plate: insurance, MOT, road tax and fines."""
GOOD = {"valid", "flag", "exempt", "not_due"}
NOT_KNOWN = {
    "TESTBLANK": ("unknown unknown unknown none", "insuranceValid motValid roadTaxPaid compliant"),
    "TESTPOLICY": ("valid unknown unknown none", "motValid roadTaxPaid compliant"),
    "TESTUNKINS": ("unknown valid valid none", "insuranceValid compliant"),
    "TESTUNKMOT": ("valid unknown valid none", "motValid compliant"),
    "TESTUNKTAX": ("valid valid unknown none", "roadTaxPaid compliant"),
    "TESTUNKFINE": ("valid valid valid unknown", "noOutstandingFines"),
    "TESTPARTIAL": ("expired valid valid none", "insuranceValid compliant"),
    "TESTNOPOLICY": ("no_policy valid valid none", ""),
    "TESTTHEN": ("flag exempt valid none", ""),
}
"""The reasons of plates by the other rule (D198), and what is not known."""
UNKNOWN = ("TEST404", "TEST0K", "AB12CDE", "TEST409")


@pytest.fixture
def key(world):
    """A key of an account on the plan `sandbox`, or the one that a test before has made."""
    if not Plan.select().where(Plan.name == "sandbox").exists(world.engine):
        set_plan(world.engine, "sandbox", LIMITS, sandbox="on")
        return world.key_of("tester", "sandbox")
    return create_key(world.engine, "tester")[1].text


@pytest.fixture
def tester(world, key):
    """A client with that key."""
    return world.client(key)


def is_good(reasons):
    insurance, *papers, fines = reasons.split()
    insured = insurance in GOOD
    return insured, insured and GOOD.issuperset(papers) and fines == "none"


def reasons_of(answer):
    return " ".join(answer["reasons"].values())


class TestVehicles:
    @SHARED
    @each_row(("plate", "reasons"), PAGE.items())
    def test_each_plate_shows_what_the_page_says(self, tester, plate, reasons):
        """A plate has its reasons, and the verdicts that follow from them."""
        compliance = tester.get(f"{COMPLIANCE.format(plate)}?explain=true").json
        insurance = tester.get(INSURANCE.format(plate)).json
        assert reasons_of(compliance) == reasons
        assert (insurance["insured"], compliance["compliant"]) == is_good(reasons)
        assert (insurance["policy"] is None) == (reasons.split()[0] in ("flag", "none", "unknown"))

    @SHARED
    @each_row("path", [INSURANCE, COMPLIANCE])
    @each_row("plate", UNKNOWN)
    def test_every_other_plate_is_unknown(self, tester, plate, path):
        """So is a plate whose error the operation cannot give."""
        answer = tester.get(path.format(plate))
        assert (answer.status_int, answer.json["code"]) == (404, "vehicle_not_found")

    @SHARED
    def test_a_bulk_says_the_same(self, tester):
        """Items equal the single answers, in the order sent, also for what is not known."""
        plates = [*PAGE, *UNKNOWN]
        sent = {"registrations": plates, "explain": True}
        answer = tester.post(BULKS["bulk_compliance"], sent).json
        assert [each["registration"] for each in answer["results"]] == plates
        assert (answer["successful"], answer["failed"]) == (len(PAGE), len(UNKNOWN))
        told = dict(zip(plates, answer["results"], strict=True))
        assert {plate: reasons_of(told[plate]) for plate in PAGE} == PAGE
        answer = tester.post(BULKS["bulk_insurance"], {"registrations": plates, "details": True})
        for plate, item in zip(plates, answer.json["results"], strict=True):
            if plate in PAGE:
                assert item == tester.get(f"{INSURANCE.format(plate)}?details=true").json
            else:
                assert item["code"] == "vehicle_not_found"

    @SHARED
    def test_a_plate_is_found_in_every_form(self, tester):
        """Plates are compared in their canonical form, errors too (D19)."""
        assert tester.get(INSURANCE.format("test-ok")).json["registration"] == "TESTOK"
        assert tester.get(INSURANCE.format("test%20429")).status_int == 429
        assert tester.get(INSURANCE.format("TEST_429")).json["code"] == "invalid_registration"

    @SHARED
    def test_what_is_not_known_is_null(self, tester):
        """A plate of a policy alone has neither vehicle nor insurer."""
        answer = tester.get(INSURANCE.format("TESTPOLICY")).json
        assert set(answer["vehicle"].values()) == {None}
        assert (answer["policy"]["insurer"], answer["policy"]["type"]) == (None, None)

    @SHARED
    def test_days_count_from_today(self, tester, monkeypatch):
        """A plate shows the same on each day; on another day that is asked for it does not."""
        for day in (date(2024, 2, 29), date(2026, 12, 31), date(2030, 1, 1)):
            monkeypatch.setattr(clock, "today", lambda zone, day=day: day)
            found = {
                plate: tester.get(f"{COMPLIANCE.format(plate)}?explain=true").json for plate in PAGE
            }
            assert {plate: reasons_of(each) for plate, each in found.items()} == PAGE
            lapsed = INSURANCE.format("TESTLAPSED")
            last = (day - timedelta(1)).isoformat()
            assert tester.get(lapsed).json["policy"]["validTo"] == last
            assert tester.get(f"{lapsed}?asOf={last}").json["insured"] is True
            assert tester.get(lapsed).json["lastUpdated"] == f"{last}T00:00:00Z"

    @SHARED
    def test_the_policy_is_chosen_as_in_registers(self, tester):
        """The one in force that ends last is answered (D20)."""
        two = tester.get(INSURANCE.format("TESTTWO")).json
        assert two["policy"]["number"] == "TESTTWO-2"
        today = clock.today(UTC)
        gap = {
            days: tester.get(f"{INSURANCE.format('TESTGAP')}?asOf={today + timedelta(days)}").json
            for days in (5, 15, 25)
        }
        assert [each["insured"] for each in gap.values()] == [True, False, True]

    @SHARED
    def test_a_plate_shows_periods_dates_and_all_policies(self, tester):
        """They are judged as in registers (D172)."""
        today = clock.today(UTC)
        gap = INSURANCE.format("TESTGAP")
        period = tester.get(f"{gap}?from={today}&to={today + timedelta(30)}").json["period"]
        assert period["validThroughout"] is False
        assert period["firstFailingDay"] == str(today + timedelta(11))
        assert tester.get(f"{gap}?details=true").json["insuredUntil"] == str(today + timedelta(10))
        flag = tester.get(f"{INSURANCE.format('TESTFLAG')}?details=true").json
        assert flag["insuredUntil"] is None
        many = tester.get(f"{INSURANCE.format('TESTMANY')}?details=true&policies=all").json
        assert (many["tooManyPolicies"], many["policiesTruncated"]) == (True, True)
        two = tester.get(f"{INSURANCE.format('TESTTWO')}?policies=all").json["policies"]
        assert [each["number"] for each in two] == ["TESTTWO-2", "TESTTWO-1"]
        fined = tester.get(f"{COMPLIANCE.format('TESTFINE')}?details=true").json
        assert fined["finesOutstanding"] == 1

    @SHARED
    def test_a_misread_plate_has_suggestions(self, world, tester):
        """If the plan has them; they are plates of the table (D175)."""
        set_suggest(world.engine, "sandbox", "on")
        for path in (INSURANCE, COMPLIANCE):
            answer = tester.get(path.format("TEST0K")).json
            assert [each["registration"] for each in answer["suggestions"]] == ["TESTOK"]
            assert tester.get(path.format("TEST404")).json["suggestions"] == []
        set_suggest(world.engine, "sandbox", "off")
        assert "suggestions" not in tester.get(INSURANCE.format("TEST0K")).json

    def test_no_register_is_read(self, world, tester, statements):
        """A look-up needs no register, not even the one that other accounts read."""
        world.load([{"registration": "TESTOK", "make": "CANARY"}])
        with statements() as seen:
            answer = tester.get(INSURANCE.format("TESTOK"))
        assert answer.json["vehicle"]["make"] == "Ford"
        assert not [each for each in seen if "register_native" in each]
        drop_register(world.engine, "native")
        assert tester.get(INSURANCE.format("TESTOK")).json["insured"] is True

    def test_other_accounts_get_their_registers(self, world, alice):
        """With other keys, the plates and names of the table are nothing special."""
        for plate in ("TESTOK", "TEST500", "TEST429"):
            assert alice.get(INSURANCE.format(plate)).json["code"] == "vehicle_not_found"
        world.load([{"registration": "TEST500", "make": "FORD"}])
        assert alice.get(INSURANCE.format("TEST500")).json["vehicle"]["make"] == "FORD"
        assert alice.post(DOMAINS, {"name": "500.test"}).status_int == 201


class TestUnknown:
    """The sandbox follows the rule in force (D198)."""

    @SHARED
    @each_row("plate", [*PAGE, *(each.plate for each in VEHICLES_UNKNOWN)])
    def test_each_plate_shows_what_the_page_says(self, telling, tester, plate):
        """What is known stays as it is; the others name what is not."""
        reasons, unknown = NOT_KNOWN[plate] if plate in NOT_KNOWN else (PAGE[plate], "")
        compliance = tester.get(f"{COMPLIANCE.format(plate)}?explain=true").json
        insurance = tester.get(INSURANCE.format(plate)).json
        assert reasons_of(compliance) == reasons
        assert compliance.get("unknown", []) == unknown.split()
        is_not_known = "insuranceValid" in unknown
        assert insurance.get("unknown", []) == (["insured"] if is_not_known else [])
        fails = not GOOD.issuperset(reasons.split()[:3]) or reasons.endswith("outstanding")
        assert compliance["compliant"] == (not fails)

    @SHARED
    @each_row("bulk_path", BULKS.values())
    def test_a_bulk_says_the_same(self, telling, tester, bulk_path):
        """Each item has the `unknown` of the single answer."""
        single = COMPLIANCE if "compliance" in bulk_path else INSURANCE
        items = tester.post(bulk_path, {"registrations": list(NOT_KNOWN)}).json["results"]
        for plate, item in zip(NOT_KNOWN, items, strict=True):
            assert item.get("unknown") == tester.get(single.format(plate)).json.get("unknown")

    @SHARED
    @each_row("plate", [each.plate for each in VEHICLES_UNKNOWN])
    def test_by_the_former_rule_these_plates_are_unknown(self, tester, plate):
        """So a program can see by them which rule holds."""
        assert tester.get(INSURANCE.format(plate)).json["code"] == "vehicle_not_found"

    @SHARED
    def test_other_days_are_known_except_of_one_plate(self, telling, tester):
        """Rows are old enough for a year; those of one plate changed yesterday."""
        today = clock.today(UTC)
        for plate, days, unknown in (
            ("TESTLAPSED", -1, None),
            ("TESTFLAG", -300, None),
            ("TESTTHEN", -1, None),
            ("TESTTHEN", -2, ["insuranceValid", "motValid", "roadTaxPaid", "compliant"]),
            ("TESTTHEN", 1, ["insuranceValid", "motValid", "roadTaxPaid", "compliant"]),
        ):
            day = today + timedelta(days)
            answer = tester.get(f"{COMPLIANCE.format(plate)}?asOf={day}&explain=true").json
            assert answer.get("unknown") == unknown, (plate, days)
        period = f"from={today - timedelta(2)}&to={today}"
        told = tester.get(f"{INSURANCE.format('TESTTHEN')}?{period}").json["period"]
        assert told["unknown"] == ["validThroughout"]
        assert told["reasons"] == {"insuranceValid": "not_known_then"}

    @SHARED
    def test_loads_are_told(self, telling, tester):
        """A check that is not known has no time, and the others that of today (D199)."""
        midnight = f"{clock.today(UTC)}T00:00:00Z"
        for plate, unknown in (
            ("TESTOK", ()),
            ("TESTNOPOLICY", ()),
            ("TESTUNKINS", ("insuranceValid",)),
            ("TESTUNKFINE", ("noOutstandingFines",)),
        ):
            loaded = tester.get(f"{COMPLIANCE.format(plate)}?details=true").json["loaded"]
            assert loaded == {each: None if each in unknown else midnight for each in loaded}

    @SHARED
    def test_a_program_with_only_the_page_tells_the_outcomes_apart(self, telling, tester):
        """The table on /docs names a plate for each, and the library downloaded has the verdict."""
        library: dict[str, Any] = {"__name__": "verifyd"}
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(sys.modules, "verifyd", SimpleNamespace(**library))
            exec(tester.get("/docs/verifyd.py").text, library)
        page = tester.get("/docs").text
        section = page.partition('<section id="unknown">')[2].partition("</table>")[0]
        rows = re.findall(r"<tr><td>(.+?)</td>.*<code>(\w+)</code></td></tr>", section)
        outcomes = {"Yes": True, "No, for certain": False, "Not known": None}
        *judged, (_, lost) = rows
        assert [outcome for outcome, _ in judged] == list(outcomes)
        items = tester.post(BULKS["bulk_insurance"], {"registrations": [lost, "?"]}).json["results"]
        codes = ["vehicle_not_found", "invalid_registration"]
        assert [(item["insured"], item["code"]) for item in items] == [(False, c) for c in codes]
        for outcome, plate in judged:
            (item,) = tester.post(BULKS["bulk_insurance"], {"registrations": [plate]}).json[
                "results"
            ]
            for answer in (item, tester.get(INSURANCE.format(plate)).json):
                assert library["verdict"](answer, "insured") is outcomes[outcome]
            today = clock.today(UTC)
            asked = f"{INSURANCE.format(plate)}?from={today}&to={today}"
            period = tester.get(asked).json["period"]
            assert library["verdict"](period, "validThroughout") is outcomes[outcome]
            checks = tester.get(COMPLIANCE.format(plate)).json
            for name in ("insuranceValid", "compliant"):
                assert library["verdict"](checks, name) is outcomes[outcome]

    @SHARED
    @each_row("path", ["/docs", "/docs.md"])
    def test_the_page_says_which_rule_holds(self, world, tester, path):
        """It follows the database at once."""
        told = tells_unknown(world.engine)
        try:
            for tells, said in ((True, "tells what"), (False, "does not tell what")):
                set_tells_unknown(world.engine, tells)
                assert f"This service {said} is not known" in tester.get(path).text
        finally:
            set_tells_unknown(world.engine, told)


def request(client, operation, sent):
    """Send a plate or a domain name to an operation."""
    return {
        "insurance": lambda: client.get(INSURANCE.format(sent)),
        "compliance": lambda: client.get(COMPLIANCE.format(sent)),
        "bulk_insurance": lambda: bulk(client, operation, sent),
        "bulk_compliance": lambda: bulk(client, operation, sent),
        "put_watch": lambda: put(client, f"{WATCHES}/{sent}"),
        "get_watch": lambda: client.get(f"{WATCHES}/{sent}"),
        "delete_watch": lambda: client.request("DELETE", f"{WATCHES}/{sent}"),
        "bulk_watch": lambda: client.post(f"{WATCHES}/bulk", {"add": [{"registration": sent}]}),
        "list_domains": lambda: client.get(f"{DOMAINS}?after={sent}"),
        "create_domain": lambda: client.post(DOMAINS, {"name": sent}),
        "get_domain": lambda: client.get(f"{DOMAINS}/{sent}"),
        "delete_domain": lambda: client.request("DELETE", f"{DOMAINS}/{sent}"),
    }[operation]()


def bulk(client, operation, *plates):
    return client.post(BULKS[operation], {"registrations": ["TESTOK", *plates]})


def of_operation(operation):
    """Return the path, the method and the documented errors of an operation."""
    (path, method), *_ = [key for key, name in OPERATIONS.items() if name == operation]
    node = document()["paths"][path][method.lower()]
    return {
        (int(status), resolved(example)["value"]["code"])
        for status, answer in node["responses"].items()
        for content in resolved(answer).get("content", {}).values()
        for example in content["examples"].values()
        if int(status) >= 400
    }


OPERATIONS_WITH_ERRORS = sorted({name for each in ERRORS for name in each.operations.names})
NATURAL = {(404, f"{each}_not_found") for each in ("vehicle", "watch", "domain")}
"""Errors that every other plate and name provoke."""


@SHARED
class TestErrors:
    def provoked(self, operation):
        is_look_up = "domain" not in operation
        return [
            (each, each.plate if is_look_up else each.domain)
            for each in ERRORS
            if operation in each.operations.names
        ]

    @each_row("operation", OPERATIONS_WITH_ERRORS)
    def test_each_error_of_an_operation_is_provoked(self, tester, operation):
        """Each documented error of an operation has a plate or a name, and there are no others."""
        told = set()
        for each, sent in self.provoked(operation):
            answer = request(tester, operation, sent)
            assert (answer.status_int, answer.json["code"]) == (each.answer, each.code)
            assert answer.json["status"] == answer.status_int
            assert answer.json["detail"].startswith("The sandbox acts as if ")
            told.add((answer.status_int, answer.json["code"]))
        assert told == of_operation(operation) - NATURAL

    @each_row("operation", OPERATIONS_WITH_ERRORS)
    def test_errors_come_with_their_headers(self, tester, operation):
        """A client sees how long to wait, and which kind of key is needed."""
        for each, sent in self.provoked(operation):
            headers = request(tester, operation, sent).headers
            assert ("Retry-After" in headers) == (each.answer in (429, 502, 503, 504))
            assert ("WWW-Authenticate" in headers) == (each.answer == 401)
            assert ("Allow" in headers) == (each.answer == 405)

    @each_row("operation", BULKS)
    def test_the_first_error_decides_a_bulk(self, tester, operation):
        """The whole request gets it, and a fault of a member names the plate."""
        answer = bulk(tester, operation, "nothing!", "test 503", "TEST429")
        assert (answer.status_int, answer.headers["Retry-After"]) == (503, "2")
        answer = bulk(tester, operation, "TEST404", "TEST400MANY", "TEST503")
        (fault,) = answer.json["errors"]
        assert fault["pointer"] == "/registrations/2"

    def test_what_is_wrong_with_a_request_comes_first(self, tester):
        """A plate is looked at when the rest of the request is right."""
        assert tester.get(f"{INSURANCE.format('TEST500')}?asof=x").status_int == 400
        too_many = {"registrations": ["TEST500"] * 1_001}
        answer = tester.post(BULKS["bulk_insurance"], too_many)
        assert answer.json["code"] == "too_many_registrations"

    def test_head_has_the_status(self, tester):
        """HEAD answers like GET, without a body."""
        answer = tester.request("HEAD", INSURANCE.format("TEST503"))
        assert (answer.status_int, answer.body) == (503, b"")


class TestWatches:
    @pytest.fixture
    def tester(self, world, tester):
        set_watches_max(world.engine, "sandbox", 5)
        return tester

    def test_a_watch_has_the_state_of_the_table(self, tester):
        """The verdicts and reasons of its plate."""
        for plate, reasons in [("TESTLAPSED", PAGE["TESTLAPSED"]), ("TESTFINE", PAGE["TESTFINE"])]:
            checks = put(tester, f"{WATCHES}/{plate}").json["checks"]
            assert " ".join(each["reason"] for each in checks.values()) == reasons
        assert put(tester, f"{WATCHES}/TEST404").json["known"] is False

    def test_what_is_not_known_fails_in_a_watch(self, telling, tester):
        """As in watches of registers, a check that look-ups do not know has failed."""
        checks = put(tester, f"{WATCHES}/TESTUNKINS").json["checks"]
        assert checks["insurance"]["valid"] is False
        assert checks["insurance"]["reason"] == "unknown"

    def test_a_lead_day_brings_an_event_every_night(self, world, tester, monkeypatch):
        """The last day moves with today, so that each night it is a new one."""
        put(tester, f"{WATCHES}/TESTGAP", leadDays=[14])
        today = clock.today(UTC)
        for days in range(3):
            monkeypatch.setattr(clock, "today", lambda zone, days=days: today + timedelta(days))
            sweep(world)
        events = tester.get("/v1/events").json["events"]
        assert [each["type"] for each in events] == ["insurance.ending"] * 3

    def test_a_fault_of_a_bulk_names_the_plate(self, tester):
        """Those to add and those to remove."""
        added = [{"registration": "TESTOK"}, {"registration": "TEST400BODY"}]
        answer = tester.post(f"{WATCHES}/bulk", {"add": added})
        assert answer.json["errors"][0]["pointer"] == "/add/1/registration"
        answer = tester.post(f"{WATCHES}/bulk", {"remove": ["TESTOK", "TEST400BODY"]})
        assert answer.json["errors"][0]["pointer"] == "/remove/1"
        assert tester.get(WATCHES).json["watches"] == []


class TestDomains:
    def test_they_are_rows_of_the_account(self, tester, alice):
        """A sandbox creates, lists, gets and deletes domains of its own."""
        assert tester.post(DOMAINS, {"name": "a.example"}).status_int == 201
        assert tester.post(DOMAINS, {"name": "A.example"}).json["code"] == "domain_already_exists"
        assert tester.get(f"{DOMAINS}/a.example").json["status"] == "active"
        assert [each["name"] for each in tester.get(DOMAINS).json["domains"]] == ["a.example"]
        assert alice.get(f"{DOMAINS}/a.example").status_int == 404
        assert tester.request("DELETE", f"{DOMAINS}/a.example").status_int == 204

    def test_the_quota_of_the_plan_holds(self, tester):
        """The third domain of two is refused for real."""
        for name in ("a.example", "b.example", "c.example"):
            answer = tester.post(DOMAINS, {"name": name})
        assert answer.json["code"] == "domain_quota_reached"
        assert "all 2 domains" in answer.json["detail"]

    @each_row("name", [each.domain for each in ERRORS if each.domain])
    def test_what_is_created_can_be_read_and_deleted(self, tester, name):
        """No name of the table is stuck in the account."""
        if tester.post(DOMAINS, {"name": name}).status_int == 201:
            assert tester.get(f"{DOMAINS}/{name}").status_int == 200
            assert tester.request("DELETE", f"{DOMAINS}/{name}").status_int == 204

    def test_a_name_with_an_error_is_never_created(self, tester):
        """Also in another case; 409 for a creation says nothing of a deletion."""
        assert tester.post(DOMAINS, {"name": "500.TEST."}).status_int == 500
        assert tester.post(DOMAINS, {"name": "409.test"}).json["code"] == "domain_already_exists"
        deletion = tester.request("DELETE", f"{DOMAINS}/409.test")
        assert deletion.json["code"] == "domain_suspended"
        assert tester.get(f"{DOMAINS}/409.test").json["code"] == "domain_not_found"
        assert tester.get(DOMAINS).json == {"domains": []}


class TestKeys:
    def test_they_begin_with_their_own_prefix(self, key, tester):
        """The account says that it is a sandbox."""
        assert key.startswith("vfd_test_")
        assert len(key) == 73
        assert tester.get("/v1/account").json["plan"]["sandbox"] is True

    def test_both_work_during_a_rotation(self, world, key, tester):
        """The successor of a key has its prefix."""
        token = parse_token(key)
        assert token
        successor = rotate_key(world.engine, token.key_id)[1].text
        assert successor.startswith("vfd_test_")
        for each in (key, successor):
            headers = {"Authorization": f"Bearer {each}"}
            assert tester.get(INSURANCE.format("TESTOK"), headers=headers).status_int == 200

    def test_they_can_be_restricted(self, world, tester):
        """A restricted key gets its refusal for real, whatever the plate (D178)."""
        restricted = create_key(world.engine, "tester", restrictions=Restrictions("domains", []))
        headers = {"Authorization": f"Bearer {restricted[1].text}"}
        answer = tester.get(INSURANCE.format("TEST500"), headers=headers)
        assert (answer.status_int, answer.json["code"]) == (403, "operation_forbidden")
        assert tester.get(f"{DOMAINS}/500.test", headers=headers).status_int == 500

    @STORAGE
    @pytest.mark.parametrize("plan", ["standard", "sandbox"])
    def test_a_key_must_fit_the_plan_of_its_account(self, world, key, alice, tester, plan):
        """A plan or account that was changed past the program makes 401 from the next request."""
        if plan == "sandbox":
            Plan.update(sandbox="off").where(Plan.name == plan).execute(world.engine)
            client = tester
        else:
            Account.update(plan="sandbox").where(Account.name == "alice").execute(world.engine)
            client = alice
        answer = client.get("/v1/account")
        assert (answer.status_int, answer.json["code"]) == (401, "unauthorized")
        if plan == "sandbox":
            Plan.update(sandbox="on").where(Plan.name == plan).execute(world.engine)
        else:
            Account.update(plan="standard").where(Account.name == "alice").execute(world.engine)
        assert client.get("/v1/account").status_int == 200

    def test_another_prefix_makes_no_key(self, world, key, stranger):
        """Neither a key without its prefix works, nor one of the release before."""
        token = parse_token(key)
        assert token
        account = require_account(world.engine, "tester")
        former = token._replace(is_sandbox=False, key_id="former00")
        row = {"account": account, "label": "", "created_at": clock.now()}
        ApiKey.insert(id="former00", secret_hash=former.secret_hash, **row).execute(world.engine)
        for each in (former.text, token._replace(is_sandbox=False).text, key.replace("test_", "")):
            answer = stranger.get(INSURANCE.format("TESTOK"), headers={"X-API-Key": each})
            assert answer.status_int == 401

    @SHARED
    @ON_SQLITE
    def test_a_wrong_length_is_told(self, stranger, key):
        """Keys of a sandbox are longer than others."""
        for wrong, fault in ((key[:-1], "not complete"), (f"{key}x", "too long")):
            answer = stranger.get("/v1/account", headers={"X-API-Key": wrong})
            assert f"{fault}: such keys have 73 characters" in answer.json["detail"]

    def test_the_rate_limit_holds(self, world, key, tester):
        """A sandbox has the ordinary limit, and a provoked error takes a token."""
        set_plan(world.engine, "sandbox", {**LIMITS, "requests": 2, "window_seconds": 3_600})
        assert tester.get(INSURANCE.format("TEST500")).headers["X-RateLimit-Remaining"] == "1"
        assert tester.get(INSURANCE.format("TEST429")).headers["X-RateLimit-Remaining"] == "0"
        answer = tester.get(INSURANCE.format("TESTOK"))
        assert answer.status_int == 429
        assert int(answer.headers["Retry-After"]) > 1_000

    def test_the_enquiry_holds(self, world, tester):
        """A sandbox plan can ask for reasons like any other, before a plate is looked at."""
        set_enquiry(world.engine, "sandbox", "required")
        answer = tester.get(INSURANCE.format("TEST500"))
        assert answer.json["code"] == "enquiry_reason_required"
        headers = {"Enquiry-Reason": "THEFT"}
        assert tester.get(INSURANCE.format("TEST500"), headers=headers).status_int == 500


class TestOutside:
    """What answers of a sandbox are not part of (D182)."""

    PATHS = (
        *(
            path.format(plate)
            for path in (INSURANCE, COMPLIANCE)
            for plate in ("TESTOK", "TEST500")
        ),
        *(COMPLIANCE.format("TEST404"), DOMAINS, f"{DOMAINS}/503.test", "/v1/nothing"),
    )

    def ask(self, tester):
        statuses = [tester.get(path).status_int for path in self.PATHS]
        assert statuses == [200, 500, 200, 500, 404, 200, 503, 404]
        assert bulk(tester, "bulk_insurance").status_int == 200

    def test_usage(self, tester):
        """Nothing is counted, whatever was asked."""
        self.ask(tester)
        assert used(tester) == {}

    def test_metrics(self, tester):
        """Neither answers nor errors are counted, nor what was charged."""
        before = read(tester)
        self.ask(tester)
        counted = [
            name
            for name, value in read(tester).items()
            if name[0].startswith(("verifyd_request_", "verifyd_limited_", "verifyd_auth"))
            and value != before.get(name)
            and ("route", "/metrics") not in name
        ]
        assert counted == []

    @ON_SQLITE
    def test_a_failure_of_the_database_is_counted(self, world, tester):
        """It is real, whoever met it."""
        world.engine.execute_sql("DROP TABLE domain")
        assert tester.get(DOMAINS).json["code"] == "database_unavailable"
        assert read(tester)[("verifyd_database_errors_total",)] == 1

    def test_the_trail(self, world, key, alice):
        """Only look-ups of other accounts are recorded."""
        trail = world.directory / "audit"
        client = world.client(key, audit=True, audit_dir=trail)
        self.ask(client)
        client.get(INSURANCE.format("AB12CDE"), headers=alice.headers)
        assert [each["account"] for each in lines(trail)] == ["alice"]

    def test_a_trail_that_cannot_be_written(self, world, key):
        """Look-ups are answered: nothing of them is recorded."""
        trail = world.directory / "audit"
        client = world.client(key, audit=True, audit_dir=trail)
        trail.write_text("")
        assert client.get(INSURANCE.format("TESTOK")).status_int == 200


def test_each_row_of_the_table_is_tested():
    """A plate that is added must say here what it shows."""
    known = {each.plate for each in VEHICLES if each.car is not None}
    assert known == PAGE.keys()
    assert {each.plate for each in VEHICLES} - known <= set(UNKNOWN)
