"""`verifyd keys`: create, list, rotate and revoke keys (D3)."""

from datetime import UTC, datetime

import pytest

from app import clock
from app.accounts.authentication import Authenticator
from app.accounts.restrictions import NO_ADDRESS
from app.accounts.tokens import parse_token
from app.storage.engine import close_quietly, open_engine
from tests.conftest import ON_SQLITE

DAY_SECONDS = 86_400


@pytest.fixture
def acme(cli):
    """The command line on a database with an account."""
    cli.run("accounts", "create", "acme")
    return cli


def works(cli, key: str) -> bool:
    """Tell whether the service would accept a key now."""
    engine = open_engine(cli.database_url)
    try:
        return Authenticator(engine).find_caller(key) is not None
    finally:
        close_quietly(engine)


def seconds(time: str) -> int:
    """Return the Unix seconds of a printed time."""
    return int(datetime.strptime(time, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp())


def test_create_shows_the_key(acme):
    """The document begins with id and key, and the key works."""
    made = acme.json("keys", "create", "acme", "--label", "production")
    assert list(made)[:2] == ["id", "key"]
    assert (made["account"], made["label"], made["status"]) == ("acme", "production", "active")
    assert works(acme, made["key"])


def test_a_key_is_stored_nowhere(acme, store):
    """No file of the installation holds the key or its secret, and no command shows it again."""
    made = acme.json("keys", "create", "acme")
    token = parse_token(made["key"])
    assert token
    secret = token.secret
    files = [path for path in acme.directory.rglob("*") if path.is_file()]
    assert made["id"].encode() in store.content()
    assert secret.encode() not in store.content()
    assert [path for path in files if secret.encode() in path.read_bytes()] == []
    for words in (("keys", "list"), ("keys", "revoke", made["id"]), ("keys", "list", "--json")):
        assert secret not in acme.run(*words).stdout


def test_a_key_needs_an_account(acme):
    """The refusal repeats the account's name, and no key is created."""
    assert (
        acme.refusal("keys", "create", "nobody")
        == 'there is no account named nobody; see "verifyd accounts list"\n'
    )
    assert acme.json("keys", "list") == []


def test_expires_includes_the_day(acme):
    """`--expires DATE` ends the key at the end of that day in UTC."""
    made = acme.json("keys", "create", "acme", "--expires", "2999-12-31")
    assert made["expires_at"] == "3000-01-01T00:00:00Z"


@ON_SQLITE
@pytest.mark.parametrize(
    ("text", "fault"),
    [
        *((each, "must be a day as YYYY-MM-DD") for each in ("tomorrow", "20300131", "2030-1-31")),
        *((each, "names a day that does not exist") for each in ("2030-02-30", "2030-13-01")),
        ("9999-12-31", "must be before 9999-12-31"),
    ],
)
def test_expires_takes_one_form_of_date(acme, text, fault):
    """Anything but an existing day as YYYY-MM-DD is a usage error, and no key is created."""
    told = acme.misuse("keys", "create", "acme", "--expires", text)
    assert f"argument --expires: {fault}" in told
    assert acme.json("keys", "list") == []


RESTRICTED = ("--only", "vehicles", "--network", "203.0.113.7", "--network", "2001:DB8::/32")


def test_a_key_can_be_restricted(acme):
    """Commands show its restrictions, and say that an address that is not known is refused."""
    made = acme.json("keys", "create", "acme", *RESTRICTED)
    assert (made["only"], made["networks"]) == ("vehicles", ["203.0.113.7/32", "2001:db8::/32"])
    assert made["notes"] == [NO_ADDRESS]
    assert works(acme, made["key"])
    listed = acme.json("keys", "list")
    assert listed == acme.json("accounts", "show", "acme")["keys"]
    assert (listed[0]["only"], listed[0]["networks"]) == (made["only"], made["networks"])
    for words in (("keys", "list"), ("accounts", "show", "acme")):
        assert "  vehicles  203.0.113.7/32; 2001:db8::/32  active" in acme.run(*words).stdout


def test_a_key_without_restrictions_says_nothing_of_them(acme):
    """Nor does one that is restricted to operations only speak of addresses."""
    plain = acme.json("keys", "create", "acme")
    assert (plain["only"], plain["networks"], "notes" in plain) == (None, [], False)
    assert NO_ADDRESS not in acme.run("keys", "create", "acme", "--only", "domains").stdout
    assert NO_ADDRESS in acme.run("keys", "create", "acme", "--network", "::/0").stdout


def test_a_rotation_keeps_restrictions(acme):
    """The successor has those of the old key, and says so."""
    old = acme.json("keys", "create", "acme", *RESTRICTED)
    new = acme.json("keys", "rotate", old["id"])
    for member in ("only", "networks", "notes"):
        assert new[member] == old[member]
    assert works(acme, new["key"])


@ON_SQLITE
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--only", "vehicle"), "must be domains or vehicles, not 'vehicle'; did you mean"),
        (("--only", ""), "must be domains or vehicles"),
        (("--network", "localhost"), "argument --network: must be an address or network such as"),
        (("--network", "10.0.0.1/8"), "argument --network: has bits after its prefix; write 10.0"),
        (("--network", "::/0", "--network", ""), "argument --network: must be an address or"),
    ],
)
def test_a_wrong_restriction_is_a_usage_error(acme, words, told):
    """It names the option, and no key is made."""
    assert told in acme.misuse("keys", "create", "acme", *words)
    assert acme.json("keys", "list") == []


@ON_SQLITE
def test_a_key_has_at_most_20_networks(acme):
    """More are refused, and no key is made."""
    words = [word for number in range(21) for word in ("--network", f"10.0.0.{number}")]
    refusal = acme.refusal("keys", "create", "acme", *words)
    assert refusal == "a key has at most 20 networks, not 21\n"
    assert acme.json("keys", "list") == []


@ON_SQLITE
def test_an_expiry_in_the_past_is_refused(acme):
    """A key that would never work is refused."""
    refusal = acme.refusal("keys", "create", "acme", "--expires", "2020-01-31")
    assert refusal == "a key must expire in the future\n"


def test_a_key_ends_with_its_last_day(acme, monkeypatch):
    """A key works until the last second of its day, and not longer."""
    made = acme.json("keys", "create", "acme", "--expires", "2999-12-31")
    ends_at = seconds(made["expires_at"])
    monkeypatch.setattr(clock, "now", lambda: ends_at - 1)
    assert works(acme, made["key"])
    monkeypatch.setattr(clock, "now", lambda: ends_at)
    assert not works(acme, made["key"])
    assert acme.json("keys", "list")[0]["status"] == "expired"


@ON_SQLITE
@pytest.mark.parametrize(
    ("label", "fault"), [("x" * 101, "it has 101"), ("a\tb", "character 2 is not printable")]
)
def test_a_label_that_cannot_be_shown_is_refused(acme, label, fault):
    """Labels are at most 100 printable characters; the refusal says what is wrong with it."""
    told = acme.refusal("keys", "create", "acme", "--label", label)
    assert f"must have 1 to 100 printable characters; {fault}" in told


def test_keys_are_listed_with_their_state(acme):
    """`list` shows the keys of one account, or of all, the oldest first."""
    acme.run("accounts", "create", "other")
    first, other = (acme.json("keys", "create", name) for name in ("acme", "other"))
    acme.run("keys", "revoke", first["id"])
    assert {key["id"]: key["status"] for key in acme.json("keys", "list")} == {
        first["id"]: "revoked",
        other["id"]: "active",
    }
    assert [key["id"] for key in acme.json("keys", "list", "other")] == [other["id"]]
    assert "there is no account" in acme.refusal("keys", "list", "nobody")


def test_a_revoked_key_ends_for_good(acme, monkeypatch):
    """Revoking prints the time; revoking again keeps it."""
    made = acme.json("keys", "create", "acme")
    revoked = acme.json("keys", "revoke", made["id"])
    assert revoked["status"] == "revoked"
    assert not works(acme, made["key"])
    monkeypatch.setattr(clock, "now", lambda: seconds(revoked["revoked_at"]) + 100)
    assert acme.json("keys", "revoke", made["id"]) == revoked


@pytest.mark.parametrize("command", ["revoke", "rotate"])
def test_an_unknown_key_is_refused(acme, command):
    """A mistyped key id must not look like success."""
    assert (
        acme.refusal("keys", command, "nosuchid")
        == 'there is no key nosuchid; see "verifyd keys list"\n'
    )


def test_a_rotated_key_lives_on_for_a_day(acme, monkeypatch):
    """Both keys work during the grace period; afterwards only the new one does (D3)."""
    old = acme.json("keys", "create", "acme", "--label", "production")
    new = acme.json("keys", "rotate", old["id"])
    assert (new["replaces"], new["label"]) == (old["id"], "production")
    assert new["key"] != old["key"]
    ends_at = seconds(new["replaced_until"])
    assert ends_at - seconds(new["created_at"]) == DAY_SECONDS
    assert works(acme, old["key"])
    monkeypatch.setattr(clock, "now", lambda: ends_at)
    assert (works(acme, old["key"]), works(acme, new["key"])) == (False, True)


def test_a_rotation_without_grace_ends_the_old_key_at_once(acme):
    """`--grace 0`, for a leaked key, ends the old key at once."""
    old = acme.json("keys", "create", "acme")
    new = acme.json("keys", "rotate", old["id"], "--grace", 0)
    assert (works(acme, old["key"]), works(acme, new["key"])) == (False, True)


def test_a_rotation_prolongs_nothing(acme):
    """The new key keeps the old expiry, and the grace period does not exceed it."""
    last_day = datetime.fromtimestamp(clock.now(), UTC).date().isoformat()
    old = acme.json("keys", "create", "acme", "--expires", last_day)
    new = acme.json("keys", "rotate", old["id"], "--grace", 30 * DAY_SECONDS)
    assert new["expires_at"] == new["replaced_until"] == old["expires_at"]


@ON_SQLITE
@pytest.mark.parametrize("grace", [-1, 366 * DAY_SECONDS + 1, 10**18])
def test_grace_has_limits(acme, grace):
    """The grace period is 0 seconds to a year; otherwise nothing is rotated."""
    made = acme.json("keys", "create", "acme")
    assert "--grace must be from 0 to" in acme.refusal(
        "keys", "rotate", made["id"], f"--grace={grace}"
    )
    assert len(acme.json("keys", "list")) == 1


def test_a_key_that_no_longer_works_is_not_rotated(acme):
    """Rotating must not give a revoked key access again."""
    made = acme.json("keys", "create", "acme")
    acme.run("keys", "revoke", made["id"])
    assert "no longer works" in acme.refusal("keys", "rotate", made["id"])
    assert len(acme.json("keys", "list")) == 1


def test_a_whole_key_is_revoked(acme):
    """Its id is contained in it; no output repeats the secret."""
    made = acme.json("keys", "create", "acme")
    token = parse_token(made["key"])
    assert token
    ended = acme.run("keys", "revoke", made["key"])
    assert ended.status == 0
    assert ended.stdout.splitlines()[-1].startswith(f"key {made['id']} is revoked since ")
    assert not works(acme, made["key"])
    assert token.secret not in ended.stdout + ended.stderr
    again = acme.run("keys", "rotate", made["key"], "--json")
    assert (again.status, made["id"] in again.stderr) == (1, True)
    assert token.secret not in again.stdout + again.stderr


def test_a_whole_key_is_rotated(acme):
    """As by its id."""
    old = acme.json("keys", "create", "acme")
    new = acme.json("keys", "rotate", old["key"], "--grace", 0)
    assert (new["replaces"], works(acme, new["key"])) == (old["id"], True)


@pytest.mark.parametrize(
    "words", [("accounts", "show"), ("keys", "list"), ("keys", "create"), ("plans", "delete")]
)
def test_no_error_repeats_a_key(acme, words):
    """Also where a key is given in place of a name, and in the document of `--json`."""
    made = acme.json("keys", "create", "acme")
    ended = acme.run(*words, made["key"], "--json")
    assert ended.status == 1
    assert "vfd_..." in ended.stderr
    assert made["key"][4:] not in ended.stdout + ended.stderr
