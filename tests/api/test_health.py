"""GET /healthz and GET /readyz (D2, D29)."""

import ipaddress
import os
from time import monotonic
from typing import Any

import pytest

from app import clock
from app.accounts.administration import set_plan
from app.accounts.tokens import Token
from app.alerts.nightly import Run, record
from app.errors import OperatorError
from app.registers.generations import Generations
from app.registers.reading.rejects import RejectLimit
from app.registers.undo import purge_register
from app.storage.registers import Register
from app.storage.sqlite import BUSY_TIMEOUT_SECONDS
from app.storage.versions import Installation, program_schema
from tests.conftest import ON_POSTGRES, ON_SQLITE, STORAGE

SCHEMA = program_schema()
DETAILED = {
    "status": "ready",
    "checks": {
        "database": "reachable",
        "schema": f"{SCHEMA}, program {SCHEMA}",
        "limits": "kept",
        "audit": "off",
    },
    "registers": [],
    "warnings": [],
}
BRIEF = {"status": "ready"}
CAR = {"registration": "AB12CDE", "make": "FORD"}
PATH = "/v1/vehicle/AB12CDE/insurance"
LOADED = 1_900_000_000
LOCAL = ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1", ""]
HERE = {"REMOTE_ADDR": "127.0.0.1"}
UNKNOWN_KEY = Token("abcdef", "nothere1", "x" * 43).text
FORWARDED = ["X-Real-IP", "X-Forwarded-For", "Forwarded"]


def at_schema(world, schema_version, oldest_program):
    """Set the database to the schema of another program."""
    update = Installation.update(schema_version=schema_version, oldest_program=oldest_program)
    update.execute(world.engine)


class TestHealthz:
    def test_a_process_that_answers_is_healthy(self, stranger):
        """The answer is 200 without a key, and has no other information."""
        response = stranger.get("/healthz")
        assert (response.status_int, response.json) == (200, {"status": "ok"})

    def test_nothing_is_asked(self, alice, statements):
        """No statement runs, even if a key is sent."""
        with statements() as seen:
            alice.get("/healthz")
        assert seen == []

    def test_a_lost_database_does_not_matter(self, world):
        """A process without its database is alive: restarting it would not help."""
        world.store.lose()
        assert world.client(None).get("/healthz").status_int == 200


class TestReadyz200:
    def test_a_stranger_learns_that_it_is_ready_and_no_more(self, stranger):
        """Without a key another machine gets no details."""
        response = stranger.get("/readyz")
        assert (response.status_int, response.json) == (200, BRIEF)

    @pytest.mark.parametrize("peer", LOCAL)
    def test_a_local_peer_sees_details(self, stranger, peer):
        """A loopback or Unix-socket peer sees the checks without a key."""
        assert stranger.get("/readyz", environ={"REMOTE_ADDR": peer}).json == DETAILED

    @pytest.mark.parametrize("peer", ["127.0.0.1", ""])
    @pytest.mark.parametrize("header", FORWARDED)
    def test_a_local_proxy_does_not_make_its_client_local(self, stranger, peer, header):
        """A request that a local peer forwards, even for loopback, gets no details."""
        response = stranger.get(
            "/readyz", headers={header: "127.0.0.1"}, environ={"REMOTE_ADDR": peer}
        )
        assert response.json == BRIEF

    def test_a_far_peer_cannot_claim_to_be_local(self, world):
        """No header makes a remote client or a trusted proxy local."""
        proxies = (ipaddress.ip_network("192.0.2.0/24"),)
        for settings in ({}, {"trusted_proxies": proxies}):
            response = world.client(None, **settings).get(
                "/readyz", headers={"X-Real-IP": "127.0.0.1"}
            )
            assert response.json == BRIEF

    @pytest.mark.parametrize("headers", [{}, {"X-Real-IP": "198.51.100.7"}])
    def test_the_key_of_monitoring_shows_details(self, world, headers):
        """A key of an account in `VERIFYD_METRICS_ACCOUNTS` does, from any address (D80)."""
        monitoring = world.client(world.alice_key, metrics_accounts=["other", "alice"])
        assert monitoring.get("/readyz", headers=headers).json == DETAILED

    @pytest.mark.parametrize("accounts", [[], ["Alice", "alic", "bob"]])
    def test_the_key_of_a_client_shows_no_details(self, world, accounts):
        """The warnings can name other accounts, destinations of alerts, and paths."""
        client = world.client(world.alice_key, metrics_accounts=accounts)
        response = client.get("/readyz")
        assert (response.status_int, response.json) == (200, BRIEF)
        assert client.get("/readyz", environ=HERE).json == DETAILED

    def test_a_key_of_a_sandbox_shows_no_details(self, world):
        """Programmers who only test get the same answer as everybody (D180)."""
        limits = {"requests": 9, "window_seconds": 60, "bulk_max": 1, "domains_max": 1}
        set_plan(world.engine, "testing", limits, sandbox="on")
        assert world.client(world.key_of("tester", "testing")).get("/readyz").json == BRIEF

    @pytest.mark.parametrize("key", ["", "nonsense", UNKNOWN_KEY])
    def test_an_invalid_key_is_no_key(self, stranger, key):
        """An open path does not refuse a wrong key; it only shows no details."""
        response = stranger.get("/readyz", headers={"X-API-Key": key})
        assert (response.status_int, response.json) == (200, BRIEF)

    def test_two_different_keys_are_no_key(self, world):
        """Two different valid keys show no details either (D2)."""
        client = world.client(world.alice_key, metrics_accounts=["alice", "bob"])
        assert client.get("/readyz", headers={"X-API-Key": world.bob_key}).json == BRIEF

    def test_head_is_get_without_a_body(self, stranger):
        """HEAD gives a load balancer the same status."""
        assert stranger.request("HEAD", "/readyz").status_int == 200

    def test_a_newer_database_that_still_takes_this_program_is_ready(self, stranger, world):
        """During an upgrade the old program keeps serving: M <= P <= N (D29)."""
        at_schema(world, SCHEMA + 1, SCHEMA)
        assert stranger.get("/readyz").status_int == 200


class TestFreshness:
    """The age of each register (D51)."""

    @pytest.fixture
    def aged(self, world, monkeypatch):
        """Two registers, loaded two days and an hour ago, and just now."""
        for name, time in (("rdw", LOADED), ("mid", LOADED + 176_400)):
            monkeypatch.setattr(clock, "now", lambda time=time: time)
            world.load([CAR], register=name)
        return world

    def test_the_age_of_each_register_is_shown(self, aged):
        """The age is shown by name, with or without a limit."""
        assert aged.client(None).get("/readyz", environ=HERE).json == DETAILED | {
            "registers": [
                {
                    "name": "mid",
                    "loaded_at": "2030-03-19T18:46:40Z",
                    "unchanged_since": "2030-03-19T18:46:40Z",
                    "age_seconds": 0,
                    "stale": False,
                },
                {
                    "name": "rdw",
                    "loaded_at": "2030-03-17T17:46:40Z",
                    "unchanged_since": "2030-03-17T17:46:40Z",
                    "age_seconds": 176_400,
                    "stale": False,
                },
            ]
        }

    @pytest.mark.parametrize(
        ("stale_after", "stale"),
        [
            ({"rdw": 172_800}, ["rdw"]),
            ({"rdw": 176_400}, []),
            ({"*": 172_800}, ["rdw"]),
            ({"*": 1, "rdw": 10**9}, []),
            ({"mid": 1}, []),
        ],
    )
    def test_a_register_older_than_the_setting_is_a_warning(self, aged, stale_after, stale):
        """The service stays ready; a register's own limit precedes the general one."""
        client = aged.client(None, stale_after=stale_after)
        response = client.get("/readyz", environ=HERE)
        assert (response.status_int, response.json["status"]) == (200, "ready")
        assert [each["name"] for each in response.json["registers"] if each["stale"]] == stale
        assert len(response.json["warnings"]) == len(stale)

    def test_the_warning_is_a_sentence(self, aged):
        """The warning has the register, its age and its limit."""
        client = aged.client(None, stale_after={"rdw": 172_800})
        response = client.get("/readyz", environ=HERE)
        assert response.json["warnings"] == [
            "The register rdw was last loaded 2 d 1 h ago; VERIFYD_STALE_AFTER allows 2 d."
        ]

    def test_a_client_learns_nothing_of_it(self, aged):
        """The names of registers are the operator's business."""
        for key in (None, aged.alice_key):
            assert aged.client(key, stale_after={"*": 1}).get("/readyz").json == BRIEF

    def test_a_register_that_was_never_loaded_has_no_age(self, world, stranger):
        """A register whose first load still runs has no age."""
        Generations(world.engine, "rdw").add(1)
        assert stranger.get("/readyz", environ=HERE).json == DETAILED


class TestWritable:
    """Functions that fail while look-ups work are warnings."""

    @ON_SQLITE
    def test_a_database_that_takes_no_writes_is_a_warning(self, world):
        """Look-ups work, so the service is ready."""
        world.load([CAR])
        client = world.client(world.alice_key)
        read_only = "PRAGMA query_only = 1"
        world.app_engine.execute_sql(read_only)
        assert client.post("/api/domains", {"name": "example.com"}).status_int == 503
        world.app_engine.execute_sql(read_only)  # The former connection was closed.
        response = client.get("/readyz", environ=HERE)
        assert (response.status_int, response.json["status"]) == (200, "ready")
        assert response.json["warnings"] == [
            "The database cannot be written to: attempt to write a readonly database."
        ]
        assert client.get(PATH).status_int == 200

    @ON_POSTGRES
    def test_a_server_that_may_only_be_read_is_a_warning(self, world):
        """A standby that was not promoted yet is such a server."""
        client = world.client(None)
        world.app_engine.execute_sql("SET default_transaction_read_only = on")
        response = client.get("/readyz", environ=HERE)
        assert (response.status_int, response.json["warnings"]) == (
            200,
            ["The database cannot be written to: the server is read-only."],
        )

    @ON_SQLITE
    def test_a_full_disk_is_a_warning(self, world, stranger, monkeypatch):
        """The warning has the disk and its free space."""
        free = os.statvfs_result((4096, 4096, 1000, 100, 100, 9, 9, 9, 0, 255))
        monkeypatch.setattr(os, "statvfs", lambda _: free)
        assert stranger.get("/readyz", environ=HERE).json["warnings"] == [
            f"The disk of {world.directory} is full: 410 kB are free."
        ]

    @ON_SQLITE
    def test_another_write_is_not_waited_for(self, world, stranger):
        """The check does not wait: a load balancer removes a service that answers too late."""
        with world.engine.atomic():
            started = monotonic()
            assert stranger.get("/readyz", environ=HERE).json == DETAILED
            assert monotonic() - started < BUSY_TIMEOUT_SECONDS / 2
        (timeout_ms,) = world.app_engine.execute_sql("PRAGMA busy_timeout").fetchone()
        assert timeout_ms == BUSY_TIMEOUT_SECONDS * 1000

    def test_a_client_learns_nothing_of_it(self, stranger, alice, statements):
        """No client can make the service take the write lock."""
        with statements() as seen:
            assert stranger.get("/readyz").json == BRIEF
            assert alice.get("/readyz").json == BRIEF
        assert not [sql for sql in seen if "BEGIN" in sql or "read_only" in sql]


class TestConditions:
    """Faults that an operator must fix are warnings while look-ups work."""

    @pytest.fixture
    def troubled(self, world):
        """A register whose last load failed, a failed backup, and a load that did not run."""
        world.load([CAR])
        file = world.directory / "secret.csv"
        file.write_text("registration\n!\n")
        with pytest.raises(OperatorError):
            world.load_files(file, max_rejects=RejectLimit.parse("0"))
        record(world.engine, world.config.data_dir, Run("backup", True, clock.now(), ("secret",)))
        record(world.engine, world.config.data_dir, Run("import", True, clock.now() - 30 * 3600))
        return world

    def test_each_is_a_sentence(self, troubled, monkeypatch):
        """Each warning is a sentence without file names; the status is 200 all the same."""
        monkeypatch.setattr(clock, "boot_id", lambda: "another one")
        monkeypatch.setattr(clock, "monotonic_ns", lambda: 10**18)
        client = troubled.client(troubled.alice_key)
        response = client.get("/readyz", environ=HERE)
        assert (response.status_int, response.json["status"]) == (200, "ready")
        assert [warning.split(" 20")[0][:28] for warning in response.json["warnings"]] == [
            "The last load of the registe",
            "The nightly load did not run",
            "The nightly backup of",
        ]
        assert "secret" not in response.text
        assert client.get(PATH).status_int == 200

    def test_a_client_learns_nothing_of_it(self, troubled):
        """The conditions are not even looked for."""
        for key in (None, troubled.alice_key):
            assert troubled.client(key).get("/readyz").json == BRIEF


class TestReadyz503:
    @pytest.fixture
    def without_register(self, world):
        """A register of which only the entry exists."""
        world.load([CAR], register="rdw")
        entry: Any = Register.select().dicts().get(world.engine)
        purge_register(world.engine, "rdw")
        Register.insert(**entry).execute(world.engine)
        return world

    def test_a_register_that_is_gone_makes_it_unready(self, without_register):
        """Look-ups answer 503, too; the details have the register and the remedy."""
        client = without_register.client(without_register.alice_key)
        assert client.get(PATH).status_int == 503
        response = client.get("/readyz", environ=HERE)
        assert (response.status_int, response.json["code"]) == (503, "not_ready")
        assert response.json["detail"].startswith("The register rdw cannot be read: restore it")
        for key in (None, without_register.alice_key):
            response = without_register.client(key).get("/readyz")
            assert response.json["detail"] == "A register cannot be read."

    @ON_SQLITE
    def test_a_register_whose_file_is_removed_makes_it_unready(self, world, alice):
        """Also a worker that still has the removed file open becomes unready."""
        world.load([CAR], register="rdw")
        world.load([CAR])
        assert alice.get(PATH).status_int == 200
        (file,) = world.directory.glob("verifyd.register_rdw.*.db")
        file.rename(file.with_suffix(".away"))
        assert "rdw" in alice.get("/readyz", environ=HERE).json["detail"]
        file.with_suffix(".away").rename(file)
        assert alice.get("/readyz").status_int == 200

    def test_a_register_without_rows_yet_does_not_matter(self, world, stranger):
        """The entry of a new register precedes its file."""
        Generations(world.engine, "rdw").add(1)
        assert stranger.get("/readyz").status_int == 200

    @STORAGE
    def test_a_lost_database_makes_it_unready(self, world):
        """Without a database the answer is 503 with Retry-After."""
        world.store.lose()
        response = world.client(world.alice_key).get("/readyz")
        assert (response.status_int, response.json["code"]) == (503, "not_ready")
        assert int(response.headers["Retry-After"]) >= 1
        assert str(world.directory) not in response.text

    @STORAGE
    def test_a_database_that_comes_back_makes_it_ready(self, world):
        """The service becomes ready again without a restart."""
        client = world.client(None)
        world.store.lose()
        assert client.get("/readyz").status_int == 503
        world.store.give_back()
        assert client.get("/readyz").status_int == 200

    @STORAGE
    @pytest.mark.parametrize(("schema", "oldest"), [(0, 0), (SCHEMA + 2, SCHEMA + 1)])
    def test_a_schema_of_another_program_makes_it_unready(self, stranger, world, schema, oldest):
        """A database that is too old or too new is not served (D29)."""
        at_schema(world, schema, oldest)
        response = stranger.get("/readyz")
        assert (response.status_int, response.json["code"]) == (503, "not_ready")
        assert "schema" in response.json["detail"]
        assert "verifyd" not in response.json["detail"]

    def test_details_say_what_to_do(self, alice, world):
        """The details have the remedy, for local peers and monitoring, not for clients."""
        at_schema(world, SCHEMA + 2, SCHEMA + 1)
        monitoring = world.client(world.alice_key, metrics_accounts=["alice"])
        for response in (alice.get("/readyz", environ=HERE), monitoring.get("/readyz")):
            assert "upgrade verifyd" in response.json["detail"]
        assert alice.get("/readyz").json["detail"] == "The database schema cannot be used."

    @ON_SQLITE
    def test_an_empty_database_is_not_ready(self, world):
        """The details differ between a file without our tables and an unreachable database."""
        world.database.write_bytes(b"")
        client = world.client(None)
        response = client.get("/readyz", environ=HERE)
        assert (response.status_int, response.json["code"]) == (503, "not_ready")
        assert "verifyd migrate" in response.json["detail"]
        assert "schema" in client.get("/readyz").json["detail"]

    def test_head_has_the_same_status(self, world):
        """HEAD has the status of GET."""
        world.store.lose()
        response = world.client(None).request("HEAD", "/readyz")
        assert (response.status_int, response.body) == (503, b"")
