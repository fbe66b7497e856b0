"""The audit trail of look-ups over HTTP: what is recorded, and before which answers (D125)."""

import shutil

import msgspec
import pytest

from app import clock
from app.accounts.administration import create_key
from app.accounts.restrictions import Restrictions
from app.accounts.tokens import parse_token
from app.audit.export import COLUMNS, csv_lines
from app.audit.record import find_record, row_of
from app.audit.seal import seal
from app.storage.registers import list_entries
from tests.api.rate_limits import plan
from tests.conftest import ON_SQLITE
from tests.enquiry import set_enquiry
from tests.rows import each_row
from tests.unit.audit_trails import lines, names, until

DAY = "2025-07-01"
CAR = {
    "registration": "AB12CDE",
    "make": "CANARYMAKE",
    "model": "CANARYMODEL",
    "color": "CANARYRED",
}
POLICY = {
    "registration": "AB12CDE",
    "number": "CANARY-POLICY",
    "insurer": "CANARY INSURER",
    "validFrom": "2025-01-01",
    "validTo": "2025-12-31",
}
LAPSED = {"registration": "LP63SED", "make": "CANARYMAKE", "insured": False}
BULK = {"registrations": ["ab12 cde", "LP63SED", "ZZ99ZZZ", "!?"]}
INSURANCE = f"/v1/vehicle/ab12cde/insurance?asOf={DAY}"
TOO_MANY = b'{"registrations": ["A"%s]}' % (b',"A"' * 1_000)
REFUSED = {
    "no registration": ("GET", "/v1/vehicle/!!/insurance", b"", 400),
    "wrong parameter": ("GET", "/v1/compliance/AB12CDE?asof=2025-01-01", b"", 400),
    "wrong day": ("GET", "/v1/compliance/AB12CDE?asOf=x", b"", 400),
    "no JSON": ("POST", "/v1/vehicle/bulk-insurance", b"{", 400),
    "too many": ("POST", "/v1/compliance/bulk", TOO_MANY, 400),
    "wrong method": ("DELETE", "/v1/compliance/AB12CDE", b"", 405),
    "no path": ("GET", "/v1/vehicle/AB12CDE", b"", 404),
    "options": ("OPTIONS", "/v1/compliance/AB12CDE", b"", 204),
    "no look-up": ("GET", "/api/domains", b"", 200),
    "an account": ("GET", "/v1/account", b"", 200),
}


@pytest.fixture
def trail(world):
    """The directory of the trail."""
    return world.directory / "audit"


@pytest.fixture
def audited(world, trail):
    """A client of a service that records its look-ups, with two registers."""
    world.load([CAR, LAPSED])
    world.load([POLICY])
    world.load([{"registration": "OTHER1"}], register="other")
    return world.client(world.alice_key, audit=True, audit_dir=trail)


def last(trail):
    """Return the last record, without what differs each time."""
    record = list(lines(trail))[-1]
    del record["time"], record["request_id"]
    return record


def unrecorded(client, method="GET", path=INSURANCE):
    """Return the first answer that is refused: that a trail was moved is seen within 100 ms."""
    return until(lambda: refused if (refused := ask(client, method, path)).status_int == 503 else 0)


def ask(client, method, path):
    """Send a look-up, with the plates of a bulk."""
    if method == "POST":
        return client.post(path, BULK)
    return client.request(method, path)


def expected(world, operation, *plates, **members):
    """Return the record of a look-up of alice."""
    token = parse_token(world.alice_key)
    registers = {each.name: each.generation for each in list_entries(world.engine)}
    assert token is not None
    who = {"account": "alice", "key": token.key_id, "operation": operation}
    return who | members | {"plates": list(plates), "registers": registers}


class TestRecords:
    def test_insurance(self, world, audited, trail):
        """The plate in its canonical form, and whether it is insured on the day."""
        assert audited.get(INSURANCE).json["insured"] is True
        plate = {"plate": "AB12CDE", "found": True, "insured": True}
        assert last(trail) == expected(world, "insurance", plate, as_of=DAY)
        assert audited.get("/v1/vehicle/AB12CDE/insurance").json["insured"] is False
        assert last(trail) == expected(world, "insurance", plate | {"insured": False})

    def test_compliance(self, world, audited, trail):
        """Whether it is compliant; the reasons are not recorded."""
        audited.get(f"/v1/compliance/LP63SED?explain=true&asOf={DAY}")
        plate = {"plate": "LP63SED", "found": True, "compliant": False}
        assert last(trail) == expected(world, "compliance", plate, as_of=DAY)

    @pytest.mark.parametrize("path", ["/v1/vehicle/ZZ99ZZZ/insurance", "/v1/compliance/zz99zzz"])
    def test_an_unknown_plate_is_an_answer(self, world, audited, trail, path):
        """That nothing is known was told."""
        assert audited.get(path).status_int == 404
        operation = "insurance" if "insurance" in path else "compliance"
        assert last(trail) == expected(world, operation, {"plate": "ZZ99ZZZ", "found": False})

    def test_head(self, world, audited, trail):
        """Its status tells whether the plate is known."""
        for plate, status in (("AB12CDE", 200), ("ZZ99ZZZ", 404)):
            head = audited.request("HEAD", f"/v1/vehicle/{plate}/insurance")
            assert head.status_int == status
            assert last(trail)["plates"][0]["plate"] == plate
        assert len(list(lines(trail))) == 2

    def test_the_plate_bulk(self, world, audited, trail):
        """GET /v1/compliance/bulk is the look-up of one plate."""
        assert audited.get("/v1/compliance/bulk").status_int == 404
        assert last(trail) == expected(world, "compliance", {"plate": "BULK", "found": False})

    @pytest.mark.parametrize(
        ("path", "operation", "member"),
        [
            ("/v1/vehicle/bulk-insurance", "bulk_insurance", "insured"),
            ("/v1/compliance/bulk", "bulk_compliance", "compliant"),
        ],
    )
    def test_bulk(self, world, audited, trail, path, operation, member):
        """One record with all plates in the order sent; texts that are none by their beginning."""
        sent = {"registrations": [*BULK["registrations"], "X" * 40], "asOf": DAY, "details": True}
        told = audited.post(path, sent).json["results"]
        assert last(trail) == expected(
            world,
            operation,
            {"plate": "AB12CDE", "found": True, member: told[0][member]},
            {"plate": "LP63SED", "found": True, member: False},
            {"plate": "ZZ99ZZZ", "found": False},
            {"plate": "!?", "invalid": True},
            {"plate": "X" * 32, "invalid": True},
            as_of=DAY,
        )
        assert told[0][member] is (member == "insured")
        assert len(list(lines(trail))) == 1

    @pytest.mark.parametrize("last_day", ["2025-12-31", "2026-01-01"])
    def test_a_period(self, world, audited, trail, last_day):
        """Both days, and whether the vehicle passes on each of them, not only on the first."""
        days = {"first_day": DAY, "last_day": last_day}
        query = f"from={DAY}&to={last_day}"
        insured = last_day == "2025-12-31"
        assert audited.get(f"/v1/vehicle/AB12CDE/insurance?{query}").json["insured"] is True
        plate = {"plate": "AB12CDE", "found": True}
        assert last(trail) == expected(world, "insurance", plate | {"insured": insured}, **days)
        audited.get(f"/v1/compliance/AB12CDE?{query}")
        assert last(trail) == expected(world, "compliance", plate | {"compliant": False}, **days)
        sent = {"registrations": ["AB12CDE", "ZZ99ZZZ"], "from": DAY, "to": last_day}
        audited.post("/v1/vehicle/bulk-insurance", sent)
        unknown = {"plate": "ZZ99ZZZ", "found": False}
        told = [plate | {"insured": insured}, unknown]
        assert last(trail) == expected(world, "bulk_insurance", *told, **days)
        audited.post("/v1/compliance/bulk", sent)
        told = [plate | {"compliant": False}, unknown]
        assert last(trail) == expected(world, "bulk_compliance", *told, **days)

    def test_a_period_that_is_not_judged_has_no_verdict(self, world, audited, trail):
        """With too many policies, neither yes nor no was told about the period."""
        world.load([POLICY | {"number": f"{n:03}"} for n in range(100)])
        audited.get(f"/v1/vehicle/AB12CDE/insurance?from={DAY}&to={DAY}")
        plate = {"plate": "AB12CDE", "found": True}
        assert last(trail) == expected(world, "insurance", plate, first_day=DAY, last_day=DAY)

    def test_request_id_and_time(self, world, audited, trail, monkeypatch):
        """The id of the answer, and the time with microseconds."""
        monkeypatch.setattr(clock, "now_ns", lambda: 1_793_600_000_123_456_789)
        answer = audited.get(INSURANCE)
        (record,) = lines(trail)
        assert record["request_id"] == answer.headers["X-Request-ID"]
        assert record["time"] == "2026-11-02T06:13:20.123456Z"

    def test_what_the_client_said(self, world, audited, trail):
        """The headers, as far as the plan does not ignore them."""
        said = {"Enquiry-Reason": "THEFT", "Enquiry-Reference": "C-1", "Enquiry-User": "Doe, J"}
        audited.get(INSURANCE, headers=said)
        assert "reason" not in last(trail)
        set_enquiry(world.engine, "standard", "optional", None)
        plate = {"plate": "AB12CDE", "found": True, "insured": True}
        for names_sent in (said, {"Enquiry-User": "Doe, J"}):
            audited.get(INSURANCE, headers=names_sent)
            kept = {name.removeprefix("Enquiry-").lower(): v for name, v in names_sent.items()}
            assert last(trail) == expected(world, "insurance", plate, as_of=DAY, **kept)

    def test_what_the_key_is_restricted_to(self, world, audited, trail):
        """Its area and its networks; a key without restrictions has neither (D178)."""
        restrictions = Restrictions("vehicles", ["192.0.2.0/24"])
        _, token = create_key(world.engine, "alice", restrictions=restrictions)
        audited.get(INSURANCE, headers={"Authorization": f"Bearer {token.text}"})
        plate = {"plate": "AB12CDE", "found": True, "insured": True}
        members = {"key": token.key_id, "only": "vehicles", "networks": ["192.0.2.0/24"]}
        assert last(trail) == expected(world, "insurance", plate, as_of=DAY, **members)
        record = find_record(msgspec.json.encode(list(lines(trail))[-1]))
        assert record
        assert row_of(record).key == f"{token.key_id} (only vehicles, from 192.0.2.0/24)"
        exported = csv_lines(record).decode().splitlines()[0].split(",")
        assert exported[COLUMNS.index("networks")] == "192.0.2.0/24"

    def test_registers_are_those_of_the_answer(self, world, audited, trail):
        """After a replace the next generation is named; without a plate, none was read."""
        audited.get("/v1/compliance/AB12CDE")
        former = last(trail)["registers"]
        path = world.directory / "again.csv"
        path.write_text("registration,make\nAB12CDE,SEAT\n")
        world.load_files(path, mode="replace", allow_shrink=True)
        audited.get("/v1/compliance/AB12CDE")
        changed = last(trail)["registers"]
        assert changed["native"] > former["native"]
        assert (changed["other"], len(changed)) == (former["other"], 2)
        audited.post("/v1/compliance/bulk", {"registrations": ["!"]})
        assert "registers" not in last(trail)


@ON_SQLITE
class TestNoRecords:
    @each_row("request_", REFUSED.values(), ids=REFUSED)
    def test_of_what_tells_nothing(self, audited, trail, request_):
        """Refused requests and other operations are not recorded."""
        method, path, body, status = request_
        kind = {"Content-Type": "application/json"} if body else {}
        assert audited.request(method, path, body=body, headers=kind).status_int == status
        assert not trail.exists()

    def test_of_refused_keys_and_limits(self, world, audited, trail):
        """401 and 429 tell nothing about a vehicle."""
        settings = {"audit": True, "audit_dir": trail}
        assert world.client(None, **settings).get(INSURANCE).status_int == 401
        plan(world, requests=1)
        carol = world.client(world.key_of("carol", "tiny"), **settings)
        assert [carol.get(INSURANCE).status_int for _ in range(2)] == [200, 429]
        assert len(list(lines(trail))) == 1

    def test_of_refused_enquiries(self, world, audited, trail):
        """A look-up without its reason is not answered."""
        set_enquiry(world.engine, "standard", "required", None)
        assert audited.get(INSURANCE).status_int == 400
        assert not trail.exists()

    def test_if_it_is_off(self, world, audited, trail):
        """Without VERIFYD_AUDIT=on there is no trail."""
        assert world.client(world.alice_key, audit_dir=trail).get(INSURANCE).status_int == 200
        assert not trail.exists()

    def test_when_the_database_fails(self, world, audited, trail):
        """Nothing was told."""
        audited.get(INSURANCE)
        world.store.lose()
        assert audited.get(INSURANCE).status_int == 503
        assert len(list(lines(trail))) == 1


PATHS = (
    ("GET", "/v1/vehicle/AB12CDE/insurance"),
    ("HEAD", "/v1/vehicle/AB12CDE/insurance"),
    ("GET", "/v1/vehicle/ZZ99ZZZ/insurance"),
    ("GET", "/v1/compliance/AB12CDE"),
    ("GET", "/v1/compliance/bulk"),
    ("POST", "/v1/vehicle/bulk-insurance"),
    ("POST", "/v1/compliance/bulk"),
)


@ON_SQLITE
class TestFailsClosed:
    @pytest.mark.parametrize(("method", "path"), PATHS)
    def test_every_operation(self, audited, trail, method, path):
        """What cannot be recorded is answered 503 and tells nothing; everything else works."""
        answered = ask(audited, method, path).status_int
        (record,) = lines(trail)
        away = trail.rename(trail.with_name("away"))
        refused = unrecorded(audited, method, path)
        assert (refused.status_int, refused.headers["Retry-After"]) == (503, "2")
        if method != "HEAD":
            assert refused.json["code"] == "service_unavailable"
            assert refused.json["detail"] == "The look-up cannot be recorded now. Retry in 2 s."
        assert audited.get("/api/domains").status_int == 200
        assert not trail.exists()
        away.rename(trail)
        assert ask(audited, method, path).status_int == answered
        again = list(lines(trail))[-1]
        assert again["plates"] == record["plates"]
        assert again["request_id"] != record["request_id"]

    def test_the_log_says_why_once(self, audited, trail, caplog):
        """And when it works again. It names no plate."""
        caplog.set_level("INFO", "verifyd.audit")
        audited.get(INSURANCE)
        away = trail.rename(trail.with_name("away"))
        unrecorded(audited)
        assert {audited.get(INSURANCE).status_int for _ in range(5)} == {503}
        away.rename(trail)
        audited.get(INSURANCE)
        told = [each.getMessage() for each in caplog.records if each.name == "verifyd.audit"]
        assert told == [
            f"audit trail: the audit trail in {trail} is gone; put it back, or restart the service "
            "to begin another one",
            "audit trail: look-ups can be recorded again",
        ]

    def test_a_refused_answer_takes_a_token(self, world, audited, trail, stopped_clock):
        """The rate limit counts as it always does, and its headers are right."""
        plan(world, requests=3)
        carol = world.client(world.key_of("carol", "tiny"), audit=True, audit_dir=trail)
        carol.get(INSURANCE)
        shutil.rmtree(trail)
        answers = [carol.get(INSURANCE) for _ in range(3)]
        assert [answer.status_int for answer in answers] == [503, 503, 429]
        assert [answer.headers["X-RateLimit-Remaining"] for answer in answers] == ["1", "0", "0"]

    def test_usage_counts_no_vehicles_of_it(self, world, audited, trail):
        """Nobody was told anything: unknown plates and bulks, too, are answers without vehicles."""
        trail.write_text("a file")
        for method, path in PATHS:
            assert ask(audited, method, path).status_int == 503
        audited.application.usage.flush()
        usage = audited.get("/v1/usage").json["usage"]
        assert {item["operation"] for item in usage} >= {"insurance", "bulk_compliance"}
        assert [item["vehicles"] for item in usage if item["status5xx"]] == [0] * len(usage)

    def test_a_directory_that_cannot_be_created(self, world, audited, trail):
        """Requests are refused until it can be."""
        trail.write_text("a file")
        assert audited.get(INSURANCE).status_int == 503
        trail.unlink()
        assert audited.get(INSURANCE).status_int == 200

    def test_another_trail_in_its_place(self, world, audited, trail):
        """It is not written to, even if it is one of this host."""
        audited.get(INSURANCE)
        trail.rename(trail.with_name("away"))
        other = world.client(world.alice_key, audit=True, audit_dir=trail.with_name("other"))
        other.get(INSURANCE)
        trail.with_name("other").rename(trail)
        unrecorded(audited)
        assert len(list(lines(trail))) == 1

    @pytest.mark.parametrize("member", ["machine", "database"])
    def test_a_trail_of_another_host_or_database(self, world, audited, trail, member, caplog):
        """Two hosts cannot share a directory, and neither can two databases."""
        audited.get(INSURANCE)
        owner = trail / "owner.json"
        foreign = owner.read_text().replace(f'{member}":"', f'{member}":"0')
        moved = shutil.copytree(trail, trail.with_name("moved"))
        (moved / "owner.json").write_text(foreign)
        client = world.client(world.alice_key, audit=True, audit_dir=moved)
        assert client.get(INSURANCE).status_int == 503
        assert "the audit trail of another" in caplog.text
        assert len(list(lines(moved))) == 1

    def test_a_segment_that_is_removed(self, audited, trail):
        """The next record begins another one, so the hole is seen."""
        audited.get(INSURANCE)
        (segment,) = trail.glob("*-*.ndjson")
        segment.unlink()
        assert audited.get(INSURANCE).status_int == 200
        assert [name[:8] for name in names(trail)] == ["00000002"]

    def test_a_clock_set_back_by_an_hour(self, audited, trail, monkeypatch):
        """Look-ups go on, in the newest segment."""
        now_ns = clock.now_ns()
        for hours in (0, -1, 0, 1, 0):
            monkeypatch.setattr(clock, "now_ns", lambda: now_ns + hours * 3600 * 10**9)  # noqa: B023
            assert audited.get(INSURANCE).status_int == 200
        assert len(list(lines(trail))) == 5
        assert len(names(trail)) == 2


def test_nothing_else_is_recorded(world, audited, trail, caplog, capfd):
    """No policy, no vehicle data, no key is in any file of the trail; no plate in the log."""
    world.client(world.alice_key, audit=True, audit_dir=trail, access_log=True).get(INSURANCE)
    for method, path in PATHS:
        ask(audited, method, path)
    audited.post("/v1/compliance/bulk", BULK | {"details": True, "explain": True})
    seal(trail, current=True)
    trail.rename(trail.with_name("away"))
    unrecorded(audited)
    files = [path for path in trail.with_name("away").rglob("*") if path.is_file()]
    assert {"chain.ndjson", "index", "owner.json"} <= {
        path.name for path in (trail.parent / "away").iterdir()
    }
    written = b"".join(path.read_bytes() for path in files)
    assert written.count(b"AB12CDE") > 5
    secret = world.alice_key.rpartition("_")[2]
    for canary in ("CANARY", world.alice_key, secret):
        assert canary.encode() not in written
    logged = caplog.text + "".join(capfd.readouterr())
    assert "verifyd" in logged
    for canary in ("CANARY", "AB12CDE", "ab12cde", "LP63SED", "ZZ99ZZZ", secret):
        assert canary not in logged
    assert {path.stat().st_mode & 0o077 for path in files} == {0}
