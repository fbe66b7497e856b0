"""API keys on every path (D2, D3)."""

import pytest

from app import clock
from app.accounts.administration import (
    create_key,
    delete_account,
    list_keys,
    resume_account,
    revoke_key,
    rotate_key,
    suspend_account,
)
from app.accounts.models import ApiKey
from app.accounts.tokens import new_token, parse_token
from tests.api.rate_limits import OPEN
from tests.conftest import SHARED, engine_independent
from tests.contract.answers import SAME_ID, lasting_headers
from tests.rows import each_row

DOMAINS = "/api/domains"
KEYED = [
    ("GET", "/api/domains"),
    ("POST", "/api/domains"),
    ("GET", "/api/domains/a.example"),
    ("GET", "/v1/vehicle/AB12CDE/insurance"),
    ("POST", "/v1/vehicle/bulk-insurance"),
    ("GET", "/v1/compliance/AB12CDE"),
    ("GET", "//"),
    ("GET", "/nothing/here"),
    ("GET", "/metrics"),
    ("GET", "/healthz/"),
    ("GET", "/docs2"),
    ("GET", "/DOCS"),
    ("DELETE", "/api/domains"),
    ("OPTIONS", "/api/domains"),
    ("HEAD", "/api/domains"),
]


def is_refused(response):
    """Tell whether a response refuses a missing or invalid key."""
    challenge = response.headers.get("WWW-Authenticate")
    return (response.status_int, challenge) == (401, "Bearer")


def bearer(key):
    return {"Authorization": f"Bearer {key}"}


def parts(key):
    """Return the parts of a valid key."""
    token = parse_token(key)
    assert token
    return token


def mistyped(key):
    """Return a key with one letter of its secret changed."""
    return key[:30] + ("a" if key[30] != "a" else "b") + key[31:]


@engine_independent
@each_row(("method", "path"), KEYED)
def test_spec_5_1_all_requests_require_a_key(stranger, method, path):
    """Without a key every path but the open ones gets 401, even an unknown path."""
    response = stranger.request(method, path)
    assert is_refused(response)
    assert method == "HEAD" or response.json["code"] == "unauthorized"


@engine_independent
@each_row("path", OPEN)
def test_open_paths_need_no_key(stranger, path):
    """Health and documentation need no key, and a wrong one does no harm (D2)."""
    assert stranger.get(path).status_int in (200, 404)
    assert stranger.get(path, headers=bearer("nonsense")).status_int in (200, 404)


class Test200:
    @SHARED
    @each_row("scheme", ["Bearer", "bearer", "BEARER", "bEaReR"])
    def test_spec_5_2_key_is_sent_as_authorization_bearer(self, stranger, world, scheme):
        """`Authorization: Bearer KEY` gives access, with the scheme in any case."""
        headers = {"Authorization": f"{scheme} {world.alice_key}"}
        assert stranger.get(DOMAINS, headers=headers).status_int == 200

    @SHARED
    def test_spec_5_3_key_in_x_api_key_is_accepted_too(self, stranger, world):
        """`X-API-Key: KEY` gives access, too."""
        assert stranger.get(DOMAINS, headers={"X-API-Key": world.alice_key}).status_int == 200

    @SHARED
    def test_both_headers_may_carry_the_same_key(self, alice, world):
        """The same key in both headers is accepted."""
        assert alice.get(DOMAINS, headers={"X-API-Key": world.alice_key}).status_int == 200

    @SHARED
    @each_row("authorization", ["", "Basic YTpi", 'Digest a="b", c="d"', "Token KEY"])
    def test_other_schemes_do_not_matter_beside_x_api_key(self, alice, world, authorization):
        """Clients add credentials from `.netrc` or for a proxy by themselves (D2)."""
        headers = {
            "Authorization": authorization.replace("KEY", world.alice_key),
            "X-API-Key": world.alice_key,
        }
        assert alice.get(DOMAINS, headers=headers).status_int == 200

    @SHARED
    @pytest.mark.parametrize("value", ["Bearer  KEY", "Bearer KEY ", " Bearer KEY"])
    def test_spaces_around_a_key_do_not_matter(self, stranger, world, value):
        """Extra spaces between scheme and key are accepted."""
        headers = {"Authorization": value.replace("KEY", world.alice_key)}
        assert stranger.get(DOMAINS, headers=headers).status_int == 200

    def test_a_key_opens_its_own_account(self, alice, bob):
        """One account's domain is invisible with another account's key (D4)."""
        alice.post(DOMAINS, {"name": "a.example"})
        assert bob.get(DOMAINS).json == {"domains": []}
        assert len(alice.get(DOMAINS).json["domains"]) == 1

    def test_all_keys_of_an_account_open_it(self, alice, stranger, world):
        """All keys of an account see the same."""
        alice.post(DOMAINS, {"name": "a.example"})
        other = create_key(world.engine, "alice", "second")[1].text
        assert stranger.get(DOMAINS, headers=bearer(other)).json == alice.get(DOMAINS).json

    def test_a_rotated_key_lives_on_for_its_grace(self, alice, stranger, world):
        """Both keys work until the grace period of the old one ends (D3)."""
        old = parts(world.alice_key)
        new = rotate_key(world.engine, old.key_id, grace_seconds=60)[1].text
        assert alice.get(DOMAINS).status_int == 200
        assert stranger.get(DOMAINS, headers=bearer(new)).status_int == 200
        ApiKey.update(expires_at=clock.now()).where(ApiKey.id == old.key_id).execute(world.engine)
        assert is_refused(alice.get(DOMAINS))
        assert stranger.get(DOMAINS, headers=bearer(new)).status_int == 200

    def test_a_key_works_until_it_expires(self, stranger, world):
        """A key with an expiry in the future works."""
        key = create_key(world.engine, "alice", expires_at=clock.now() + 3_600)[1].text
        assert stranger.get(DOMAINS, headers=bearer(key)).status_int == 200

    def test_a_key_that_is_made_counts_from_the_next_request(self, stranger, alice, world):
        """No worker caches keys, not even that one was unknown."""
        alice.get(DOMAINS)
        key = world.key_of("carol")
        assert stranger.get(DOMAINS, headers=bearer(key)).status_int == 200


class Test401:
    @engine_independent
    @each_row(
        "headers",
        [
            {"Authorization": ""},
            {"Authorization": "Bearer"},
            {"Authorization": "Bearer "},
            {"Authorization": "KEY"},
            {"Authorization": "Basic KEY"},
            {"Authorization": "Token KEY"},
            {"Authorization": "BearerKEY"},
            {"Authorization": "Bearer\tKEY"},
            {"Authorization": "Bearer: KEY"},
            {"Authorization": "Bearer KEY KEY"},
            {"Authorization": "Bearer KEY,Bearer KEY"},
            {"Authorization": "Bearer KEY, Bearer KEY"},
            {"Authorization": 'Bearer "KEY"'},
            {"Authorization": "Bearer Bearer KEY"},
            {"X-API-Key": ""},
            {"X-API-Key": "Bearer KEY"},
            {"X-API-Key": "KEY,KEY"},
            {"X-API-Key": "KEY, KEY"},
            {"Authorization": "Basic OTHER", "X-API-Key": "KEY"},
            {"Authorization": "OTHER", "X-API-Key": "KEY"},
            {"Authorization": "Basic YTpi, Bearer OTHER", "X-API-Key": "KEY"},
            {"Authorization": "Basic YTpi", "X-API-Key": "nonsense"},
            {"Authorization": "Bearer", "X-API-Key": "KEY"},
            {"Authorization": "Bearer KEY", "X-API-Key": ""},
            {"Authorization": "Bearer KEY", "X-API-Key": "OTHER"},
            {"Authorization": "Bearer KEY", "X-API-Key": "nonsense"},
            {"Authorization": "Bearer nonsense", "X-API-Key": "KEY"},
            {"Proxy-Authorization": "Bearer KEY"},
            {"Cookie": "api_key=KEY"},
        ],
    )
    def test_spec_5_4_missing_or_invalid_key_yields_401(self, stranger, world, headers):
        """A key in another form, a repeated one, or two different ones get 401 (D2)."""
        sent = {
            name: value.replace("KEY", world.alice_key).replace("OTHER", world.bob_key)
            for name, value in headers.items()
        }
        assert is_refused(stranger.get(DOMAINS, headers=sent))

    @each_row("headers", [{}, {"Authorization": "Basic YTpi"}, {"X-API-Key": "nonsense"}])
    @each_row("address", ["?api_key=KEY&access_token=KEY", "/KEY"])
    def test_a_key_in_the_address_is_no_key(self, stranger, world, address, headers):
        """A key in the address is ignored, because it would get into logs; the answer says so."""
        response = stranger.get(DOMAINS + address.replace("KEY", world.alice_key), headers=headers)
        assert is_refused(response)
        assert "in the address does not count" in response.json["detail"]

    @engine_independent
    @pytest.mark.parametrize(
        "spoil",
        [
            lambda key: "nonsense",
            lambda key: "\u00fc" * 64,
            lambda key: key[:-1],
            lambda key: key + "0",
            lambda key: key.swapcase(),
            lambda key: key.replace("vfd_", "vfx_"),
            lambda key: "x" * 100_000,
            mistyped,
        ],
    )
    def test_a_malformed_key_is_refused_before_any_look_up(
        self, stranger, world, statements, spoil
    ):
        """A mistyped key is refused without a query (D3)."""
        with statements() as seen:
            assert is_refused(stranger.get(DOMAINS, headers={"X-API-Key": spoil(world.alice_key)}))
        assert seen == []

    def test_an_unknown_key_is_refused(self, stranger):
        """A well-formed key that was never created is refused."""
        assert is_refused(stranger.get(DOMAINS, headers=bearer(new_token("abcdef").text)))

    def test_the_secret_must_be_the_keys_own(self, stranger, world):
        """The id of one key with the secret of another is refused."""
        alice, bob = parts(world.alice_key), parts(world.bob_key)
        forged = alice._replace(secret=bob.secret).text
        assert is_refused(stranger.get(DOMAINS, headers=bearer(forged)))

    def test_the_tag_must_be_the_accounts_own(self, stranger, world):
        """A key with another account's tag is refused: nginx routes by the tag."""
        alice, bob = parts(world.alice_key), parts(world.bob_key)
        forged = alice._replace(account_tag=bob.account_tag).text
        assert is_refused(stranger.get(DOMAINS, headers=bearer(forged)))

    def test_spec_5_6_a_key_is_issued_and_revoked_by_the_operator(self, alice, stranger, world):
        """A revoked key is refused from the next request on; other keys of the account work."""
        second = create_key(world.engine, "alice")[1].text
        assert alice.get(DOMAINS).status_int == 200
        revoke_key(world.engine, parts(world.alice_key).key_id)
        assert is_refused(alice.get(DOMAINS))
        assert stranger.get(DOMAINS, headers=bearer(second)).status_int == 200

    def test_an_expired_key_is_refused(self, alice, world):
        """A key is refused from the second of its expiry on."""
        ApiKey.update(expires_at=clock.now()).execute(world.engine)
        assert is_refused(alice.get(DOMAINS))

    def test_all_invalid_keys_are_refused_alike(self, stranger, world):
        """The answers to unknown, expired, revoked and suspended keys are equal (D2)."""
        keys = [create_key(world.engine, "alice")[1] for _ in range(2)]
        suspended = world.key_of("carol")
        suspend_account(world.engine, "carol")
        ApiKey.update(expires_at=1).where(ApiKey.id == keys[0].key_id).execute(world.engine)
        revoke_key(world.engine, keys[1].key_id)
        texts = [new_token("abcdef").text, *(key.text for key in keys), suspended]
        answers = [
            stranger.get(DOMAINS, **SAME_ID | {"headers": SAME_ID["headers"] | bearer(text)})
            for text in texts
        ]
        assert all(is_refused(answer) for answer in answers)
        assert len({answer.body for answer in answers}) == 1
        assert len({str(sorted(lasting_headers(answer).items())) for answer in answers}) == 1

    def test_a_suspended_account_is_refused_from_the_next_request(
        self, alice, bob, stranger, world
    ):
        """All its keys, also new ones, are refused until the account is resumed (D81)."""
        alice.post(DOMAINS, {"name": "a.example"})
        suspend_account(world.engine, "alice")
        made_meanwhile = bearer(create_key(world.engine, "alice")[1].text)
        assert is_refused(alice.get(DOMAINS))
        assert is_refused(stranger.get(DOMAINS, headers=made_meanwhile))
        assert bob.get(DOMAINS).status_int == 200
        resume_account(world.engine, "alice")
        assert len(alice.get(DOMAINS).json["domains"]) == 1
        assert stranger.get(DOMAINS, headers=made_meanwhile).status_int == 200

    def test_the_keys_of_a_deleted_account_are_refused(self, alice, bob, world):
        """They get the same answer as unknown keys, from the next request on."""
        assert alice.get(DOMAINS).status_int == 200
        delete_account(world.engine, "alice", lambda _: 0)
        assert is_refused(alice.get(DOMAINS))
        assert bob.get(DOMAINS).status_int == 200

    def test_the_refusal_of_a_missing_key_says_how_to_send_one(self, stranger):
        """Only the answer to a missing key says how to send one."""
        detail = stranger.get(DOMAINS).json["detail"]
        assert "Authorization: Bearer" in detail
        assert "X-API-Key" in detail

    def test_a_refused_creation_stores_nothing(self, stranger, alice):
        """Without a key nothing is stored."""
        assert is_refused(stranger.post(DOMAINS, {"name": "a.example"}))
        assert alice.get(DOMAINS).json == {"domains": []}


class Test503:
    def test_keys_cannot_be_checked_without_a_database(self, world, caplog):
        """If the database is unavailable, a valid key gets 503, not 401."""
        client = world.client(world.alice_key)
        world.store.lose()
        assert client.get("/nothing/here").json["code"] == "database_unavailable"


def test_spec_5_5_keys_are_kept_secret(alice, stranger, world, caplog, capfd):
    """No answer, log or file has a key; only the hash of its secret is stored."""
    client = world.client(world.alice_key, access_log=True)
    secret = parts(world.alice_key).secret
    answers = [client.get(path).text for path in (DOMAINS, "/nothing", "/readyz")]
    answers.append(stranger.get(DOMAINS, headers={"X-API-Key": mistyped(world.alice_key)}).text)
    world.store.lose()
    answers.append(world.client(world.alice_key).get(DOMAINS).text)
    assert secret not in "".join(answers)
    assert secret not in caplog.text + "".join(capfd.readouterr())
    files = [path for path in world.directory.rglob("*") if path.is_file()]
    assert all(secret.encode() not in path.read_bytes() for path in files)


def test_a_stored_key_is_a_hash(world):
    """A key is stored as its id, its account and 256 bits of SHA-256 (D3)."""
    for key in list_keys(world.engine):
        assert len(key.secret_hash) == 64
        assert world.alice_key not in str(key.__data__)
    assert parts(world.alice_key).secret.encode() not in world.store.content()
