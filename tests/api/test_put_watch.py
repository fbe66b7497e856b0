"""PUT /v1/watches/{registration} (D183)."""

import json
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import unquote

import jsonschema_rs
import pytest

from tests.api.watches import ITEM, PATH, PLATE, cancel, in_days, load_policy, put, refusal, sweep
from tests.conftest import ON_SQLITE, engine_independent
from tests.contract.answers import document
from tests.enquiry import set_enquiry, set_watches_max
from tests.rows import each_row
from tests.unit.audit_trails import lines

UNKNOWN = f"{PATH}/ZZ99ZZZ"
VALID = {"valid": True, "reason": "valid", "lastDay": "2999-12-31"}
JSON = {"Content-Type": "application/json"}
NOTHING = {"valid": False, "reason": "unknown", "lastDay": None}


@pytest.fixture
def alice(world):
    """A client whose plan allows three watches."""
    set_watches_max(world.engine, "standard", 3)
    return world.client(world.alice_key)


class Test201:
    def test_a_new_watch_has_the_state_of_now(self, alice, world):
        """The answer has what was sent, in its order, and the verdicts of a look-up."""
        load_policy(world)
        until = in_days(30, world)
        answer = put(alice, leadDays=[7, 28], reference="FLEET 7", until=until)
        assert answer.status_int == 201
        assert answer.headers["Location"].endswith(ITEM)
        assert answer.json == {
            "registration": PLATE,
            "leadDays": [28, 7],
            "reference": "FLEET 7",
            "until": until,
            "created": answer.json["created"],
            "asOf": in_days(0, world),
            "known": True,
            "checks": {
                "insurance": VALID,
                "mot": NOTHING,
                "tax": NOTHING,
                "fines": {"valid": True, "reason": "none", "lastDay": None},
            },
        }
        assert alice.get(ITEM).json == answer.json

    def test_an_unknown_vehicle_can_be_watched(self, alice):
        """It has no checks."""
        answer = put(alice, UNKNOWN)
        assert (answer.status_int, answer.json["known"], answer.json["checks"]) == (
            201,
            False,
            None,
        )

    def test_the_state_is_that_of_compliance(self, alice, world):
        """Verdicts and reasons are those that a look-up gives (D184)."""
        load_policy(world)
        cancel(world)
        checks = put(alice).json["checks"]
        told = alice.get(f"/v1/compliance/{PLATE}?explain=true").json
        assert [each["valid"] for each in checks.values()] == list(told["checks"].values())
        assert [each["reason"] for each in checks.values()] == list(told["reasons"].values())

    @each_row("sent", ["ab12-cde", "AB12%20CDE", "ab12cde"])
    def test_a_plate_is_watched_in_its_canonical_form(self, alice, sent):
        """Every form of a plate names the same watch (D19)."""
        assert put(alice, f"{PATH}/{sent}").json["registration"] == PLATE
        assert put(alice).status_int == 200

    def test_a_plate_of_another_script_has_a_location(self, alice):
        """The header has only ASCII."""
        location = put(alice, f"{PATH}/%D0%96777%D0%96").headers["Location"]
        assert location.isascii()
        assert unquote(location).endswith("/Ж777Ж")

    def test_the_plate_bulk_can_be_watched(self, alice):
        """Its path takes POST, too, but all other methods are about the plate (D92)."""
        assert put(alice, f"{PATH}/bulk").json["registration"] == "BULK"
        assert alice.get(f"{PATH}/bulk").json["registration"] == "BULK"
        assert alice.request("DELETE", f"{PATH}/bulk").status_int == 204

    def test_a_watch_can_end_today(self, alice, world):
        """The last day is included."""
        assert put(alice, until=in_days(0, world)).status_int == 201

    @each_row(
        "sent",
        ["7", "7.0", "70e-1", "28, 2.80", "28.0, 7", "7, 7", "7, 7.0", "7.5", "0", "400.0", "401"],
    )
    def test_lead_days_are_what_the_document_says(self, alice, sent):
        """Whole numbers may be written with a fraction, as JSON Schema has it; none may repeat."""
        numbers = json.loads(f"[{sent}]")
        schema = document()["components"]["schemas"]["WatchRequest"]
        is_valid = jsonschema_rs.is_valid(schema["properties"]["leadDays"], numbers)
        answer = alice.request("PUT", ITEM, body=f'{{"leadDays": [{sent}]}}', headers=JSON)
        assert (answer.status_int != 400) == is_valid
        if is_valid:
            told = answer.json["leadDays"]
            assert told == sorted(numbers, reverse=True)
            assert {type(each) for each in told} == {int}

    def test_both_accounts_can_watch_a_vehicle(self, alice, bob):
        """Watches belong to one account."""
        assert put(alice, reference="A").status_int == 201
        assert put(bob, reference="B").status_int == 201
        assert alice.get(ITEM).json["reference"] == "A"

    def test_new_watches_count_as_vehicles(self, alice, world):
        """Usage counts each state that is stored, and no replacement (D187)."""
        counted = [put(alice).status_int, put(alice).status_int, put(alice, UNKNOWN).status_int]
        alice.application.usage.flush()
        (item,) = [e for e in alice.get("/v1/usage").json["usage"] if e["operation"] == "put_watch"]
        assert counted == [201, 200, 201]
        assert (item["answers"], item["vehicles"]) == (3, 2)


class Test200:
    def test_a_replaced_watch_keeps_its_state(self, alice, world):
        """It keeps what was told last until the next sweep, and when it was created."""
        load_policy(world)
        first = put(alice, leadDays=[28], reference="A").json
        cancel(world)
        again = put(alice, leadDays=[7])
        assert again.status_int == 200
        assert again.json == first | {"leadDays": [7], "reference": None}
        sweep(world)
        assert alice.get(ITEM).json["checks"]["insurance"]["reason"] == "cancelled"

    def test_it_is_allowed_when_the_quota_is_full(self, alice, world):
        """Nor does a smaller plan keep anybody from changing what there is."""
        put(alice)
        set_watches_max(world.engine, "standard", 0)
        assert put(alice, leadDays=[1]).status_int == 200


class Test400:
    @engine_independent
    @each_row(
        ("members", "pointer"),
        [
            ({"leadDays": "28"}, "/leadDays"),
            ({"leadDays": None}, "/leadDays"),
            ({"leadDays": [28, "14"]}, "/leadDays/1"),
            ({"leadDays": [1.5]}, "/leadDays"),
            ({"leadDays": [7, 7.0]}, "/leadDays"),
            ({"leadDays": [10**30]}, "/leadDays"),
            ({"leadDays": [0]}, "/leadDays"),
            ({"leadDays": [-1]}, "/leadDays"),
            ({"leadDays": [401]}, "/leadDays"),
            ({"leadDays": [7, 7]}, "/leadDays"),
            ({"leadDays": list(range(1, 12))}, "/leadDays"),
            ({"leadDays": [7] * 100_000}, "/leadDays"),
            ({"reference": ""}, "/reference"),
            ({"reference": "a" * 65}, "/reference"),
            ({"reference": "é"}, "/reference"),
            ({"reference": 7}, "/reference"),
            ({"until": "2020-01-01"}, "/until"),
            ({"until": "2099-02-30"}, "/until"),
            ({"until": "tomorrow"}, "/until"),
            ({"until": ""}, "/until"),
            ({"until": 7}, "/until"),
        ],
    )
    def test_a_wrong_member_is_named(self, alice, members, pointer):
        """Nothing is watched then."""
        assert refusal(put(alice, **members)) == (400, "invalid_body", pointer)
        assert alice.get(ITEM).status_int == 404

    @engine_independent
    def test_an_unknown_member_is_refused(self, alice):
        """A misspelt one would go unnoticed."""
        assert refusal(put(alice, leaddays=[7])) == (400, "unknown_member", "/leaddays")
        answer = put(alice, f"{ITEM}?leadDays=7")
        assert answer.json["code"] == "unknown_parameter"
        assert "member of the body" in answer.json["detail"]

    @engine_independent
    @each_row("body", [b"", b"[]", b"{", b'"a"'])
    def test_a_body_that_is_no_object_is_refused(self, alice, body):
        """A watch without members is sent as an empty object."""
        headers = {"Content-Type": "application/json"}
        assert alice.request("PUT", ITEM, body=body, headers=headers).status_int == 400

    @engine_independent
    @each_row("text", ["!!", "A" * 13, "%20"])
    def test_a_text_that_is_no_plate_is_refused(self, alice, text):
        """As in a look-up."""
        assert put(alice, f"{PATH}/{text}").json["code"] == "invalid_registration"

    def test_a_plan_can_need_a_reason_and_an_end(self, alice, world):
        """Then nobody watches for ever, or without saying why."""
        set_enquiry(world.engine, "standard", "required", "THEFT")
        why = {"Enquiry-Reason": "THEFT"}
        end = in_days(400, world)
        assert put(alice, until=end).json["code"] == "enquiry_reason_required"
        assert put(alice, headers={"Enquiry-Reason": "X"}, until=end).json["code"] == (
            "invalid_enquiry"
        )
        assert refusal(put(alice, headers=why)) == (400, "invalid_body", "/until")
        late = put(alice, headers=why, until=in_days(401, world))
        assert refusal(late) == (400, "invalid_body", "/until")
        assert put(alice, headers=why, until=end).status_int == 201


@engine_independent
def test_a_key_is_needed(stranger):
    """Without a key nothing is watched."""
    assert put(stranger).status_int == 401


class Test403:
    def test_the_plan_sets_how_many(self, alice, world):
        """By default it allows none; what there is can be replaced."""
        for plate in ("A1", "A2", "A3"):
            assert put(alice, f"{PATH}/{plate}").status_int == 201
        assert put(alice).json["code"] == "watch_quota_reached"
        alice.request("DELETE", f"{PATH}/A1")
        assert put(alice).status_int == 201
        set_watches_max(world.engine, "standard", 0)
        assert "all 0 watches" in put(alice, UNKNOWN).json["detail"]

    def test_requests_at_once_do_not_exceed_it(self, alice, world):
        """Of many requests, as many succeed as the plan allows."""
        clients = [world.client(world.alice_key) for _ in range(6)]

        def watch(number):
            return put(clients[number], f"{PATH}/A{number}").status_int

        with ThreadPoolExecutor(len(clients)) as threads:
            answers = sorted(threads.map(watch, range(len(clients))))
        assert answers == [201] * 3 + [403] * 3
        assert len(alice.get(PATH).json["watches"]) == 3


class TestAtOnce:
    def test_of_many_requests_for_a_plate_one_creates_the_watch(self, alice, world):
        """The others replace it."""
        clients = [world.client(world.alice_key) for _ in range(4)]
        with ThreadPoolExecutor(len(clients)) as threads:
            answers = sorted(each.status_int for each in threads.map(put, clients))
        assert answers == [200, 200, 200, 201]


class TestTrail:
    """What is stored is recorded before it can be read (D187)."""

    @pytest.fixture
    def trail(self, world):
        return world.directory / "audit"

    @pytest.fixture
    def audited(self, alice, world, trail):
        return world.client(world.alice_key, audit=True, audit_dir=trail)

    def test_a_new_state_is_recorded(self, audited, world, trail):
        """With the reason and the reference of the watch, and each verdict; no replacement is."""
        set_enquiry(world.engine, "standard", "optional")
        load_policy(world)
        headers = {"Enquiry-Reason": "THEFT", "Enquiry-User": "jane"}
        assert put(audited, headers=headers, reference="CASE 1").status_int == 201
        assert put(audited, headers=headers).status_int == 200
        put(audited, UNKNOWN)
        audited.get(ITEM)
        first, second = lines(trail)
        assert first["operation"] == "put_watch"
        assert first["account"] == "alice"
        assert (first["reason"], first["reference"], first["user"]) == ("THEFT", "CASE 1", "jane")
        assert first["plates"] == [
            {
                "plate": PLATE,
                "found": True,
                "checks": {"insurance": True, "mot": False, "tax": False, "fines": True},
            }
        ]
        assert list(first["registers"]) == ["native"]
        assert second["plates"] == [{"plate": "ZZ99ZZZ", "found": False}]

    @ON_SQLITE
    def test_what_cannot_be_recorded_is_not_watched(self, alice, world, trail):
        """The answer is 503, and nothing is stored."""
        trail.write_text("")
        client = world.client(world.alice_key, audit=True, audit_dir=trail)
        assert put(client).json["code"] == "service_unavailable"
        assert alice.get(ITEM).status_int == 404
