"""GET /metrics: access and content (D2)."""

import re

import pytest
from prometheus_client.parser import text_string_to_metric_families

from app import clock
from app.accounts.administration import set_plan
from app.alerts.nightly import JobRun, Run, record
from app.errors import OperatorError
from app.registers.generations import locked
from app.registers.history import insert_line, note_refused
from app.registers.reading.rejects import RejectLimit
from app.registers.undo import drop_register, purge_register, roll_back
from app.routes import ENDPOINTS
from app.serve.http.metrics import ANONYMOUS, NO_ROUTE
from app.version import VERSION
from app.watches.tables import Watch, WatchFeed
from tests.system.nginx import make_certificate
from tests.unit.held import held_load

METRICS = "/metrics"
DOMAINS = "/api/domains"
LOCAL = {"REMOTE_ADDR": "127.0.0.1"}


def read(client, **options):
    """Return the samples that a local caller gets, by name and labels."""
    response = client.get(METRICS, environ=LOCAL, **options)
    assert response.status_int == 200
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(response.text)
        for sample in family.samples
    }


def counted(samples, name, **labels):
    return samples.get((f"verifyd_{name}", *sorted(labels.items())), 0)


@pytest.fixture
def prometheus(world):
    """A client on another machine, with a key of an account that can read the metrics."""
    return world.client(world.alice_key, metrics_accounts=["other", "alice"])


class TestWhoMayRead:
    @pytest.mark.parametrize("peer", ["127.0.0.1", "::1", ""])
    def test_a_local_caller_needs_no_key(self, stranger, peer):
        """Loopback and Unix-socket peers can read the metrics, with or without a key."""
        assert stranger.get(METRICS, environ={"REMOTE_ADDR": peer}).status_int == 200
        headers = {"X-API-Key": "nonsense"}
        response = stranger.get(METRICS, headers=headers, environ={"REMOTE_ADDR": peer})
        assert response.status_int == 200

    @pytest.mark.parametrize("header", ["X-Real-IP", "X-Forwarded-For", "Forwarded"])
    @pytest.mark.parametrize("peer", ["127.0.0.1", ""])
    def test_a_request_through_a_local_proxy_needs_a_key(self, stranger, peer, header):
        """A request through nginx is not local, whatever address it names."""
        environ = {"REMOTE_ADDR": peer}
        response = stranger.get(METRICS, headers={header: "127.0.0.1"}, environ=environ)
        assert (response.status_int, response.json["code"]) == (401, "unauthorized")

    def test_a_key_of_a_listed_account_opens_it(self, prometheus):
        """Elsewhere all keys of the accounts in `VERIFYD_METRICS_ACCOUNTS` work (D80)."""
        response = prometheus.get(METRICS)
        assert response.status_int == 200
        assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"

    def test_any_other_key_does_not(self, world, alice, bob):
        """Another key gets 403; a local peer can send any key."""
        for client in (alice, world.client(world.bob_key, metrics_accounts=["Bob", "bo"])):
            response = client.get(METRICS)
            assert (response.status_int, response.json["code"]) == (403, "forbidden")
            assert client.request("HEAD", METRICS).status_int == 403
            assert client.get(METRICS, environ=LOCAL).status_int == 200

    def test_an_invalid_key_gets_401(self, world, stranger):
        """Without a valid key the answer is 401 (D2)."""
        headers = {"X-API-Key": "nonsense"}
        client = world.client(None, metrics_accounts=["alice"])
        assert client.get(METRICS, headers=headers).json["code"] == "unauthorized"

    def test_a_stranger_is_refused_and_charged(self, stranger, stopped_clock):
        """Without a key the answer is the usual 401 (D10)."""
        answers = [stranger.get(METRICS) for _ in range(2)]
        assert [each.status_int for each in answers] == [401, 401]
        assert [each.headers["X-RateLimit-Limit"] for each in answers] == ["60", "60"]
        assert "58" in answers[1].headers["X-RateLimit-Remaining"]

    def test_an_account_is_charged(self, world):
        """A reading takes a token, even one that is refused (D80)."""
        set_plan(
            world.engine,
            "two",
            {"requests": 2, "window_seconds": 3600, "bulk_max": 1, "domains_max": 1},
        )
        key = world.key_of("carol", "two")
        for accounts, status in ((["carol"], 200), ([], 403), ([], 429)):
            client = world.client(key, metrics_accounts=accounts)
            assert client.get(METRICS).status_int == status

    def test_a_local_peer_is_not_charged(self, stranger, world):
        """The headers show the bucket of the local address, even if a key is sent."""
        for _ in range(3):
            response = stranger.get(METRICS, environ=LOCAL)
            assert response.headers["X-RateLimit-Remaining"] == "60"

    def test_other_methods(self, prometheus):
        """HEAD has no body; other methods get 405."""
        assert prometheus.request("HEAD", METRICS).status_int == 200
        assert prometheus.request("POST", METRICS).status_int == 405


class TestRequests:
    def test_they_are_counted_by_route_and_status(self, alice):
        """Each answer is one observation, under the template of its path."""
        for path in (DOMAINS, DOMAINS, f"{DOMAINS}/a.example", f"{DOMAINS}/b.example"):
            alice.get(path)
        samples = read(alice)
        name = "request_seconds_count"
        assert counted(samples, name, route=DOMAINS, status="200") == 2
        assert counted(samples, name, route=f"{DOMAINS}/{{domain}}", status="404") == 2

    def test_durations_are_metrics(self, alice):
        """The buckets of a route add up to its requests, and the sum is positive."""
        for _ in range(3):
            alice.get(DOMAINS)
        samples = read(alice)
        labels = {"route": DOMAINS, "status": "200"}
        assert counted(samples, "request_seconds_bucket", le="+Inf", **labels) == 3
        assert 0 < counted(samples, "request_seconds_sum", **labels) < 30

    def test_unknown_paths_are_one_route(self, alice):
        """An unknown path never becomes a label."""
        for number in range(5):
            alice.get(f"/nothing/{number}")
        samples = read(alice)
        assert counted(samples, "request_seconds_count", route=NO_ROUTE, status="404") == 5

    def test_refusals_before_the_route_are_counted(self, world, stranger):
        """A 401, which has no route yet, is counted, too."""
        stranger.get(DOMAINS)
        samples = read(stranger)
        assert counted(samples, "request_seconds_count", route=NO_ROUTE, status="401") == 1

    def test_every_route_is_there_from_the_start(self, alice):
        """Every route has the value 0 at first, so that alerts can use it."""
        samples = read(alice)
        for endpoint in ENDPOINTS:
            labels = {"route": endpoint.path, "status": "200"}
            assert ("verifyd_request_seconds_count", *sorted(labels.items())) in samples


class TestLimits:
    def test_admitted_and_refused_by_plan(self, world, alice):
        """Charged requests are counted by plan and outcome; open paths and readings are not."""
        set_plan(
            world.engine,
            "two",
            {"requests": 2, "window_seconds": 3600, "bulk_max": 1, "domains_max": 1},
        )
        carol = world.key_of("carol", "two")
        for _ in range(5):
            alice.get(DOMAINS, headers={"Authorization": f"Bearer {carol}"})
        alice.get(DOMAINS)
        alice.get("/healthz")
        samples = read(alice)
        name = "limited_requests_total"
        assert counted(samples, name, plan="two", outcome="admitted") == 2
        assert counted(samples, name, plan="two", outcome="refused") == 3
        assert counted(samples, name, plan="standard", outcome="admitted") == 1
        assert counted(samples, name, plan=ANONYMOUS, outcome="admitted") == 0

    def test_strangers_are_counted_too(self, world):
        """A request without a valid key has no plan, and counts as a failed authentication."""
        client = world.client(None, anonymous_limit=3)
        for _ in range(5):
            client.get(DOMAINS)
        samples = read(client)
        name = "limited_requests_total"
        assert counted(samples, name, plan=ANONYMOUS, outcome="admitted") == 3
        assert counted(samples, name, plan=ANONYMOUS, outcome="refused") == 2
        assert counted(samples, "authentication_failures_total") == 5

    def test_a_valid_key_is_no_failure(self, alice):
        """Requests with a valid key, and to open paths, are no failed authentications."""
        for path in (DOMAINS, "/nothing", "/healthz"):
            alice.get(path)
        assert counted(read(alice), "authentication_failures_total") == 0


class TestDatabase:
    def test_its_errors_are_counted(self, world, alice, caplog):
        """Each request that the database fails counts; the metrics need no database."""
        alice.get(DOMAINS)
        world.store.lose()
        alice.get(DOMAINS)
        alice.get("/readyz")
        samples = read(alice)
        assert counted(samples, "database_errors_total") == 2
        assert counted(samples, "database_up") == 0
        assert not [key for key in samples if key[0].startswith("verifyd_register")]
        world.store.give_back()
        assert counted(read(alice), "database_up") == 1

    def test_the_freshness_of_each_register_is_a_metric(self, world, alice):
        """Each register has the time of its last load, and its number of rows."""
        row = {"registration": "AB12CDE", "make": "FORD"}
        assert not [key for key in read(alice) if key[0].startswith("verifyd_register_")]
        world.load([row], register="first")
        world.load([row, {**row, "registration": "AB12CDF"}], register="second")
        samples = read(alice)
        assert counted(samples, "register_loaded_timestamp_seconds", register="first") > 1.7e9
        assert counted(samples, "register_rows", register="second", kind="vehicles") == 2
        assert counted(samples, "register_rows", register="second", kind="fines") == 0

    def test_a_stale_register_is_a_metric(self, world, monkeypatch):
        """The value is 1 or 0 for each register with a limit in `VERIFYD_STALE_AFTER` (D51)."""
        for register in ("a", "b", "c"):
            world.load([{"registration": "AB12CDE"}], register=register)
        client = world.client(world.alice_key, stale_after={"a": 3600, "b": 60})
        loaded_at = clock.now()
        monkeypatch.setattr(clock, "now", lambda: loaded_at + 100)
        samples = read(client)
        assert {key: value for key, value in samples.items() if key[0].endswith("_stale")} == {
            ("verifyd_register_stale", ("register", "a")): 0,
            ("verifyd_register_stale", ("register", "b")): 1,
        }


class TestInstallation:
    """Metrics for watching the nightly jobs."""

    def test_the_last_loads_of_a_register_are_metrics(self, world, alice, monkeypatch):
        """They are the last success, the last failure, and the last load's rejects."""
        row = {"registration": "AB12CDE", "make": "FORD"}
        started_at = clock.now()
        monkeypatch.setattr(clock, "now", lambda: started_at)
        world.load([row, {"registration": "!"}])
        samples = read(alice)
        assert counted(samples, "register_last_success_timestamp_seconds", register="native") == (
            started_at
        )
        assert counted(samples, "register_rejected_rows", register="native") == 1
        name = "register_last_failure_timestamp_seconds"
        assert ("verifyd_" + name, ("register", "native")) not in samples
        monkeypatch.setattr(clock, "now", lambda: started_at + 100)
        file = world.directory / "bad.csv"
        file.write_text("registration\n!\n?\n")
        with pytest.raises(OperatorError):
            world.load_files(file, max_rejects=RejectLimit.parse("0"))
        samples = read(alice)
        assert counted(samples, name, register="native") == started_at + 100
        assert counted(samples, "register_last_success_timestamp_seconds", register="native") == (
            started_at
        )

    def test_only_loads_are_loads(self, world, alice, monkeypatch):
        """A rollback, drop or purge is no success, but can end a failure."""
        started_at = clock.now()
        monkeypatch.setattr(clock, "now", lambda: started_at)
        success, failure = (
            f"register_last_{each}_timestamp_seconds" for each in ("success", "failure")
        )
        rows = world.directory / "rows.csv"
        rows.write_text("registration\nAB12CDE\n!\n")
        world.load_files(rows, mode="replace")
        world.load_files(rows, mode="replace")
        with pytest.raises(OperatorError):
            world.load_files(rows, max_rejects=RejectLimit.parse("0"))
        assert counted(read(alice), failure, register="native") == started_at
        monkeypatch.setattr(clock, "now", lambda: started_at + 100)
        roll_back(world.engine, "native", None)
        for take_away in (drop_register, purge_register):
            samples = read(alice)
            assert counted(samples, success, register="native") == started_at
            assert counted(samples, "register_rejected_rows", register="native") == 1
            assert ("verifyd_" + failure, ("register", "native")) not in samples
            take_away(world.engine, "native")

    def test_a_killed_load_is_a_failure(self, world, alice):
        """A killed load counts as in `/readyz`, `check` and the alerts."""
        with locked(world.engine, "rdw"):
            line = {"register": "rdw", "kind": "vehicles", "mode": "merge", "format": "rdw-csv"}
            insert_line(world.engine, files="a.csv", status="running", **line)
        name = "register_last_failure_timestamp_seconds"
        assert counted(read(alice), name, register="rdw") > 1.7e9
        (warning,) = alice.get("/readyz", environ=LOCAL).json["warnings"]
        assert warning.startswith("The last load of the register rdw failed")

    def test_a_held_load_is_a_failure_that_waits(self, world, alice):
        """It is counted, and its condition has names of rules and counts (D158)."""
        file = held_load(world)
        samples = read(alice)
        assert counted(samples, "register_held_loads", register="fleet") == 1
        assert counted(samples, "register_last_failure_timestamp_seconds", register="fleet") > 1.7e9
        (warning,) = alice.get("/readyz", environ=LOCAL).json["warnings"]
        assert "breaks rules (rows, insurers, insured) and waits for a decision" in warning
        file.unlink()
        assert counted(read(alice), "register_held_loads", register="fleet") == 0

    def test_a_failure_of_an_unknown_register_is_a_metric(self, world, alice):
        """The label is a name that no register can have."""
        note_refused(world.engine, "unknown", mode="merge", files="a.csv")
        name = "register_last_failure_timestamp_seconds"
        assert counted(read(alice), name, register="?") > 1.7e9

    def test_the_last_backup_is_a_metric(self, world, alice):
        """They are the last successful backup's end and size; before the first there are none."""
        assert not [key for key in read(alice) if key[0].startswith("verifyd_backup")]
        record(world.engine, world.config.data_dir, Run("backup", False, 1_000, (), 4321))
        at = counted(read(alice), "backup_last_success_timestamp_seconds")
        record(
            world.engine, world.config.data_dir, Run("backup", True, 2_000, ("It failed.",), None)
        )
        samples = read(alice)
        assert counted(samples, "backup_size_bytes") == 4321
        assert counted(samples, "backup_last_success_timestamp_seconds") == at > 1.7e9

    def test_watches_and_their_sweeps_are_metrics(self, world, alice):
        """How many there are, how many are held back, and when the last sweep ended well."""
        samples = read(alice)
        assert counted(samples, "watches") == counted(samples, "watches_held") == 0
        assert ("verifyd_sweep_last_success_timestamp_seconds",) not in samples
        WatchFeed.insert(account=1, feed="0123abcd", held=30, held_at=1).execute(world.engine)
        about = {"account": 1, "registration": "AB12CDE", "lead_days": "", "told": "null"}
        Watch.insert(**about, created_at=1, day="2026-11-25").execute(world.engine)
        record(world.engine, world.config.data_dir, Run("sweep", True, 1))
        record(world.engine, world.config.data_dir, Run("sweep", True, 2, ("It failed.",)))
        samples = read(alice)
        assert counted(samples, "watches") == 1
        assert counted(samples, "watches_held") == 30
        (ended,) = [
            run.finished_at for run in JobRun.select().where(JobRun.is_done).execute(world.engine)
        ]
        assert counted(samples, "sweep_last_success_timestamp_seconds") == ended

    def test_certificate_disk_and_build_need_no_database(self, world):
        """These metrics do not depend on the database."""
        make_certificate(world.directory)
        certificate = world.directory / "fullchain.pem"
        client = world.client(None, certificate=certificate)
        world.store.lose()
        samples = read(client)
        expiry = counted(samples, "certificate_expiry_timestamp_seconds")
        assert 29 * 86_400 < expiry - clock.now() <= 30 * 86_400
        assert counted(samples, "certificate_late_timestamp_seconds") == expiry - 5 * 86_400
        assert counted(samples, "disk_free_bytes", directory=str(world.directory)) > 0
        (build,) = [key for key in samples if key[0] == "verifyd_build_info"]
        assert dict(build[1:])["version"] == VERSION


def test_the_metrics_hold_nothing_private(world, alice, stranger):
    """The metrics have no account, key, domain, registration, address or path."""
    alice.post(DOMAINS, {"name": "private.example"})
    for path in ("/v1/compliance/PR1VATE", "/v1/vehicle/PR1VATE/insurance", "/private"):
        alice.get(path)
        stranger.get(path)
    text = alice.get(METRICS, environ=LOCAL).text
    # This installation's directories are named after this test.
    text = text.replace(str(world.directory), "")
    words = ["alice", "private", "pr1vate", "192.0.2", "127.0.0", world.alice_key[4:18]]
    assert not re.search("|".join(map(re.escape, words)), text, re.IGNORECASE)
