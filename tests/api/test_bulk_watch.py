"""POST /v1/watches/bulk (D183)."""

import pytest

from tests.api.watches import ITEM, PATH, PLATE, cancel, in_days, load_policy, put, refusal, sweep
from tests.conftest import ON_SQLITE, engine_independent
from tests.enquiry import set_enquiry, set_watches_max
from tests.rows import each_row
from tests.unit.audit_trails import lines

BULK = f"{PATH}/bulk"


@pytest.fixture
def alice(world):
    """A client whose plan allows five watches."""
    set_watches_max(world.engine, "standard", 5)
    return world.client(world.alice_key)


def added(*plates, **members):
    return [{"registration": plate, **members} for plate in plates]


def outcomes(answer):
    """Return plate, status and code of each item, and check the numbers."""
    assert answer.status_int == 200
    told = answer.json
    failed = sum("error" in each for each in told["results"])
    assert (told["processed"], told["failed"]) == (len(told["results"]), failed)
    assert told["successful"] == told["processed"] - failed
    return [(each["registration"], each["status"], each.get("code")) for each in told["results"]]


class Test200:
    def test_each_plate_has_a_result_in_its_order(self, alice, world):
        """Created, replaced, removed, and each way to fail."""
        load_policy(world)
        put(alice, f"{PATH}/OLD1")
        put(alice, f"{PATH}/OLD2")
        sent = {
            "add": [
                *added("ab12 cde", leadDays=[7, 28.0], reference="R", until=in_days(9, world)),
                *added("OLD1", leadDays=[1]),
                *added("!!", "AB12CDE"),
                *added("BAD1", leadDays=[0]),
            ],
            "remove": ["old-2", "NONE1", "?", "OLD1", "BAD1"],
        }
        answer = alice.post(BULK, sent)
        assert outcomes(answer) == [
            (PLATE, "created", None),
            ("OLD1", "replaced", None),
            ("!!", "failed", "invalid_registration"),
            (PLATE, "failed", "invalid_body"),
            ("BAD1", "failed", "invalid_body"),
            ("OLD2", "removed", None),
            ("NONE1", "failed", "watch_not_found"),
            ("?", "failed", "invalid_registration"),
            ("OLD1", "failed", "invalid_body"),
            ("BAD1", "failed", "invalid_body"),
        ]
        first, second = answer.json["results"][:2]
        assert first.pop("status") == "created"
        assert first == alice.get(ITEM).json
        assert second["leadDays"] == [1]
        assert "leadDays" in answer.json["results"][4]["error"]
        assert [e["registration"] for e in alice.get(PATH).json["watches"]] == [PLATE, "OLD1"]

    @each_row(
        "members",
        [{"leadDays": [401]}, {"leadDays": [1.5]}, {"reference": ""}, {"until": "2020-01-01"}],
    )
    def test_a_wrong_value_fails_alone(self, alice, members):
        """The error names the member; the other watches are set."""
        answer = alice.post(BULK, {"add": [*added("BAD1", **members), *added("GOOD1")]})
        first, second = outcomes(answer)
        assert (first, second[2]) == (("BAD1", "failed", "invalid_body"), None)
        assert next(iter(members)) in answer.json["results"][0]["error"]

    def test_a_list_can_be_sent_every_night(self, alice, world):
        """Replaced watches keep the state that was told last."""
        load_policy(world)
        sent = {"add": added(PLATE, "ZZ99ZZZ")}
        first = alice.post(BULK, sent).json["results"]
        cancel(world)
        again = alice.post(BULK, sent).json["results"]
        assert [each.pop("status") for each in again] == ["replaced"] * 2
        assert [each.pop("status") for each in first] == ["created"] * 2
        assert again == first
        sweep(world)
        assert alice.get(ITEM).json["checks"]["insurance"]["valid"] is False

    def test_watches_beyond_the_plan_fail(self, alice):
        """The first ones are created, also in place of those that are removed."""
        put(alice, f"{PATH}/OLD1")
        put(alice, f"{PATH}/OLD2")
        sent = {"add": added("N1", "N2", "OLD2", "N3", "N4", "N5"), "remove": ["OLD1"]}
        answer = alice.post(BULK, sent)
        assert outcomes(answer) == [
            ("N1", "created", None),
            ("N2", "created", None),
            ("OLD2", "replaced", None),
            ("N3", "created", None),
            ("N4", "created", None),
            ("N5", "failed", "watch_quota_reached"),
            ("OLD1", "removed", None),
        ]
        assert "all 5 watches" in answer.json["results"][5]["error"]

    def test_watches_of_others_stay(self, alice, bob):
        """They are not found."""
        put(alice)
        assert outcomes(bob.post(BULK, {"remove": [PLATE]})) == [
            (PLATE, "failed", "watch_not_found")
        ]
        assert alice.get(ITEM).status_int == 200

    def test_it_takes_as_many_statements_for_one_as_for_many(self, alice, world, statements):
        """A thousand watches take no longer than they must."""
        set_watches_max(world.engine, "standard", 10_000)
        counts = []
        for number in (1, 500):
            with statements() as seen:
                alice.post(BULK, {"add": added(*(f"{number}X{each}" for each in range(number)))})
            counts.append(len(seen))
        assert counts[0] == counts[1]


class Test400:
    @engine_independent
    @each_row(
        ("sent", "code", "pointer"),
        [
            ({}, "invalid_body", ""),
            ({"add": [], "remove": []}, "invalid_body", ""),
            ({"add": {}}, "invalid_body", "/add"),
            ({"add": None}, "invalid_body", "/add"),
            ({"add": ["A1"]}, "invalid_body", "/add/0"),
            ({"add": [{}]}, "invalid_body", "/add/0/registration"),
            ({"add": [{"registration": 7}]}, "invalid_body", "/add/0/registration"),
            ({"add": [*added("A1"), *added("A2", leadDays=7)]}, "invalid_body", "/add/1/leadDays"),
            ({"add": added("A1", leadDays=["7"])}, "invalid_body", "/add/0/leadDays/0"),
            ({"add": added("A1", leaddays=[7])}, "unknown_member", "/add/0/leaddays"),
            ({"remove": "A1"}, "invalid_body", "/remove"),
            ({"remove": [{"registration": "A1"}]}, "invalid_body", "/remove/0"),
            ({"delete": ["A1"]}, "unknown_member", "/delete"),
        ],
    )
    def test_a_body_of_another_form_is_refused(self, alice, sent, code, pointer):
        """The whole request is, and the error names the place."""
        assert refusal(alice.post(BULK, sent)) == (400, code, pointer)

    @engine_independent
    @each_row(
        ("body", "pointer"),
        [
            (b'{"add": [{"registration": 7, "registration": "A1"}]}', "/add/0/registration"),
            (b'{"add": [{"registration": "A1", "registration": "A2"}]}', "/add/0/registration"),
            (b'{"add": [{"registration": "A1", "registration": "A1"}]}', "/add/0/registration"),
            (
                b'{"add": [{"registration": "A1"}, {"registration": "A2", "until": null, '
                b'"unt\\u0069l": null}]}',
                "/add/1/until",
            ),
            (b'{"remove": ["A1"], "remove": ["A2"]}', "/remove"),
            (b'{"\\u0072emove": ["A1"], "remove": ["A2"]}', "/remove"),
            (b'{"add": [{"registration": "A", "registration": "B"}], "add": []}', "/add"),
        ],
    )
    def test_a_member_that_is_given_twice_is_refused(self, alice, body, pointer):
        """In the body or in an item of it, or a plate would go unwatched."""
        assert refusal(alice.post(BULK, body)) == (400, "invalid_body", pointer)
        assert alice.get(PATH).json["watches"] == []

    @engine_independent
    def test_the_place_of_a_member_that_is_given_twice_is_said(self, alice):
        """With the position of its item."""
        body = b'{"add": [{"registration": "A1"}, {"registration": "A2", "registration": "A3"}]}'
        told = alice.post(BULK, body).json["detail"]
        assert told == "The member add[1].registration is given more than once."

    @engine_independent
    def test_the_plan_sets_how_many(self, alice):
        """Those to add and those to remove count together."""
        plates = [f"A{number}" for number in range(1_001)]
        sent = {"add": added(*plates[:1]), "remove": plates[1:]}
        assert refusal(alice.post(BULK, sent)) == (400, "too_many_registrations", "/add")
        sent = {"remove": plates}
        assert refusal(alice.post(BULK, sent)) == (400, "too_many_registrations", "/remove")
        assert alice.post(BULK, {"remove": plates[1:]}).json["failed"] == 1_000

    def test_a_plan_can_need_a_reason_and_an_end(self, alice, world):
        """The reason is that of all new watches; none is needed to remove some."""
        put(alice, f"{PATH}/OLD1")
        set_enquiry(world.engine, "standard", "required")
        sent = {"add": [*added("A1"), *added("A2", until=in_days(400, world))]}
        assert alice.post(BULK, sent).json["code"] == "enquiry_reason_required"
        answer = alice.post(BULK, sent, headers={"Enquiry-Reason": "THEFT"})
        assert outcomes(answer) == [("A1", "failed", "invalid_body"), ("A2", "created", None)]
        assert outcomes(alice.post(BULK, {"remove": ["OLD1"]})) == [("OLD1", "removed", None)]


@engine_independent
def test_a_key_is_needed(stranger):
    """Without a key nothing is changed."""
    assert stranger.post(BULK, {"add": added("A1")}).status_int == 401


class TestTrail:
    @pytest.fixture
    def trail(self, world):
        return world.directory / "audit"

    def test_new_states_of_a_reference_are_one_record(self, alice, world, trail):
        """Replaced and removed watches tell nothing, unless the trail was off when they began."""
        put(alice, f"{PATH}/OLD1")
        client = world.client(world.alice_key, audit=True, audit_dir=trail)
        headers = {"Enquiry-Reference": "NIGHT"}
        set_enquiry(world.engine, "standard", "optional")
        client.post(BULK, {"add": added("N1", "OLD1", "N2")}, headers=headers)
        client.post(BULK, {"add": added("N1", "OLD1"), "remove": ["N2"]})
        (record,) = lines(trail)
        assert (record["operation"], record["reference"]) == ("bulk_watch", "NIGHT")
        assert [each["plate"] for each in record["plates"]] == ["N1", "N2", "OLD1"]

    def test_states_are_recorded_with_the_references_of_their_watches(self, world, trail):
        """One record for each reference; that of the header is for watches without their own."""
        set_watches_max(world.engine, "standard", 5)
        set_enquiry(world.engine, "standard", "optional")
        client = world.client(world.alice_key, audit=True, audit_dir=trail)
        sent = [*added("A1", "A2", reference="R1"), *added("A3"), *added("A4", reference="R2")]
        client.post(BULK, {"add": sent}, headers={"Enquiry-Reference": "NIGHT"})
        assert [
            (each["reference"], [plate["plate"] for plate in each["plates"]])
            for each in lines(trail)
        ] == [("R1", ["A1", "A2"]), ("NIGHT", ["A3"]), ("R2", ["A4"])]

    @ON_SQLITE
    def test_what_cannot_be_recorded_is_not_done(self, alice, world, trail):
        """Nothing is added or removed."""
        put(alice, f"{PATH}/OLD1")
        trail.write_text("")
        client = world.client(world.alice_key, audit=True, audit_dir=trail)
        answer = client.post(BULK, {"add": added("N1"), "remove": ["OLD1"]})
        assert answer.json["code"] == "service_unavailable"
        assert [each["registration"] for each in alice.get(PATH).json["watches"]] == ["OLD1"]
