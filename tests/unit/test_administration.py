"""Accounts, plans and keys as operators manage them (D3, D12)."""

from datetime import date

import pytest

from app import clock
from app.accounts.administration import (
    create_account,
    create_key,
    end_of_day,
    list_accounts,
    list_keys,
    list_plans,
    require_account,
    require_key,
    revoke_key,
    rotate_key,
    set_account_plan,
    set_plan,
)
from app.accounts.authentication import Authenticator
from app.accounts.models import ACCOUNTS_MAX, Account, ApiKey
from app.errors import OperatorError
from app.storage.postgres import PostgresEngine
from tests.conftest import ON_SQLITE, STORAGE
from tests.rows import each_row

pytestmark = STORAGE

LIMITS = {"requests": 10, "window_seconds": 60, "bulk_max": 5, "domains_max": 3}


@pytest.fixture
def engine(world):
    """The database of an installation with the accounts alice and bob."""
    return world.engine


@pytest.fixture
def find_caller(engine):
    """Return the function that finds the caller of a key."""
    return Authenticator(engine).find_caller


class TestAccounts:
    def test_an_account_is_on_the_standard_plan_by_default(self, engine):
        """A new account is on the plan `standard` by default (D12)."""
        assert create_account(engine, "carol").plan_id == "standard"
        assert create_account(engine, "dave", "free").plan_id == "free"

    def test_accounts_are_listed_by_name(self, engine):
        """Accounts are listed in the order of their names."""
        create_account(engine, "aaron")
        assert [account.name for account in list_accounts(engine)] == ["aaron", "alice", "bob"]

    def test_an_account_beyond_the_last_bucket_is_refused(self, engine):
        """An account needs a slot in the limiter's file, so numbers have an upper limit (D11)."""
        last = {"id": ACCOUNTS_MAX, "tag": "zzzzzz", "name": "last", "created_at": 0}
        Account.insert(plan="free", **last).execute(engine)
        if isinstance(engine, PostgresEngine):
            engine.execute_sql("SELECT setval('account_id_seq', %s)", (ACCOUNTS_MAX,))
        with pytest.raises(OperatorError, match="all 1,048,576 account numbers are used"):
            create_account(engine, "carol")
        assert [account.name for account in list_accounts(engine)] == ["alice", "bob", "last"]

    def test_each_account_has_a_tag_of_its_own(self, engine):
        """The tag is six characters of base62, the public part of the account's keys."""
        tags = {account.tag for account in list_accounts(engine)}
        assert len(tags) == 2
        assert all(len(tag) == 6 and tag.isalnum() for tag in tags)

    def test_a_name_is_taken_once(self, engine):
        """No two accounts have one name, and none that of people in usage; spaces are cut off."""
        with pytest.raises(OperatorError, match="already an account named alice"):
            create_account(engine, " alice ")
        with pytest.raises(OperatorError, match="the name console is reserved"):
            create_account(engine, " console ")
        assert len(list_accounts(engine)) == 2

    @each_row("name", ["", " ", "x" * 101, "a\nb", "a\x00b", "a\x1b[31m"])
    def test_a_name_is_short_printable_text(self, engine, name):
        """Only short printable names get into listings and logs."""
        with pytest.raises(OperatorError, match="1 to 100 printable characters"):
            create_account(engine, name)

    def test_an_unknown_plan_is_refused_with_those_there_are(self, engine):
        """The refusal lists the existing plans, and nothing is stored."""
        with pytest.raises(OperatorError, match="free, standard, enterprise"):
            create_account(engine, "carol", "gold")
        with pytest.raises(OperatorError, match="no plan named gold"):
            set_account_plan(engine, "alice", "gold")
        assert len(list_accounts(engine)) == 2
        assert require_account(engine, "alice").plan_id == "standard"

    def test_an_unknown_account_is_refused(self, engine):
        """A mistyped account name never creates an account."""
        for action in (require_account, create_key, list_keys):
            with pytest.raises(OperatorError, match="no account named carol"):
                action(engine, "carol")

    def test_a_changed_plan_is_the_callers_plan(self, engine, world, find_caller):
        """The account's next request is under its new plan; other accounts keep theirs."""
        assert find_caller(world.alice_key).bulk_max == 1_000
        set_account_plan(engine, "alice", "enterprise")
        assert find_caller(world.alice_key).bulk_max == 10_000
        assert find_caller(world.bob_key).bulk_max == 1_000


class TestPlans:
    def test_the_three_plans_of_the_design_are_there(self, engine):
        """The plans `free`, `standard` and `enterprise` have the numbers of D12."""
        assert [tuple(plan.__data__.values()) for plan in list_plans(engine)] == [
            ("free", 60, 60, 100, 100, 0, "off", "", "off", "off"),
            ("standard", 600, 60, 1_000, 1_000, 0, "off", "", "off", "off"),
            ("enterprise", 6_000, 60, 10_000, 10_000, 0, "off", "", "off", "off"),
        ]

    def test_a_plan_can_be_added_and_changed(self, engine):
        """Setting an existing plan changes it in place."""
        set_plan(engine, "tiny", LIMITS)
        changed = set_plan(engine, "tiny", {**LIMITS, "bulk_max": 7})
        assert (changed.requests, changed.bulk_max) == (10, 7)
        assert len(list_plans(engine)) == 4

    @ON_SQLITE
    @each_row(
        "limit",
        [
            {"requests": 0},
            {"requests": 10**9 + 1},
            {"window_seconds": 0},
            {"window_seconds": 366 * 86_400 + 1},
            {"bulk_max": 0},
            {"bulk_max": 10_001},
            {"domains_max": -1},
            {"domains_max": 1_000_001},
            {"watches_max": -1},
            {"watches_max": 1_000_001},
        ],
    )
    def test_numbers_out_of_range_are_refused_by_name(self, engine, limit):
        """The refusal names the number that is out of range; nothing is stored."""
        option = next(iter(limit)).replace("window_seconds", "window").replace("_", "-")
        with pytest.raises(OperatorError, match=f"--{option} must be from"):
            set_plan(engine, "tiny", {**LIMITS, **limit})
        assert len(list_plans(engine)) == 3


class TestKeys:
    def test_a_key_has_label_account_and_time(self, engine):
        """A key is stored with its label, account and creation time."""
        before = clock.now()
        key, token = create_key(engine, "alice", " build server ")
        assert (key.id, key.label, key.account.name) == (token.key_id, "build server", "alice")
        assert before <= key.created_at <= clock.now()
        assert (key.expires_at, key.revoked_at) == (None, None)

    def test_keys_are_listed_for_an_account_or_all(self, engine):
        """Each listed key has its account."""
        create_key(engine, "alice", "second")
        assert [key.account.name for key in list_keys(engine, "alice")] == ["alice", "alice"]
        assert {key.account.name for key in list_keys(engine)} == {"alice", "bob"}

    def test_a_key_must_expire_in_the_future(self, engine):
        """A new key must not have expired already."""
        for moment in (clock.now(), 0, -1):
            with pytest.raises(OperatorError, match="in the future"):
                create_key(engine, "alice", expires_at=moment)

    def test_a_key_that_is_not_there_is_refused(self, engine):
        """A mistyped key id is reported, and no key changes."""
        for action in (require_key, revoke_key, rotate_key):
            with pytest.raises(OperatorError, match="no key nothere1"):
                action(engine, "nothere1")

    def test_an_expiry_date_includes_its_day(self):
        """A key with an expiry date is valid until the midnight (UTC) that ends that day."""
        assert clock.iso_utc(end_of_day(date(2026, 2, 28))) == "2026-03-01T00:00:00Z"

    def test_a_revoked_key_is_over_at_once(self, engine, world, find_caller):
        """Revoking ends this key at once, and no other."""
        key_id = find_caller(world.alice_key).key_id
        other = create_key(engine, "alice")[1].text
        assert revoke_key(engine, key_id).revoked_at is not None
        assert find_caller(world.alice_key) is None
        assert find_caller(other) is not None
        assert find_caller(world.bob_key) is not None

    def test_revoking_again_changes_nothing(self, engine, world, find_caller):
        """Revoking again keeps the time of the first revocation."""
        key_id = find_caller(world.alice_key).key_id
        ApiKey.update(revoked_at=5).where(ApiKey.id == key_id).execute(engine)
        assert revoke_key(engine, key_id).revoked_at == 5


class TestRotation:
    @pytest.fixture
    def old(self, engine):
        """A key of alice with a label that expires in an hour."""
        return create_key(engine, "alice", "server", expires_at=clock.now() + 3_600)[0]

    def test_the_new_key_takes_over_account_label_and_expiry(self, engine, old):
        """The new key differs from the old one only in id and secret."""
        new, _ = rotate_key(engine, old.id)
        assert new.id != old.id
        assert new.secret_hash != old.secret_hash
        for member in ("account_id", "label", "expires_at"):
            assert getattr(new, member) == getattr(old, member)

    def test_the_old_key_ends_after_its_grace(self, engine, old):
        """The grace period starts now."""
        before = clock.now()
        rotate_key(engine, old.id, grace_seconds=60)
        ends_at = require_key(engine, old.id).expires_at or 0
        assert before + 60 <= ends_at <= clock.now() + 60

    def test_the_grace_is_a_day_by_default(self, engine, world, find_caller):
        """By default the old key works for 24 hours more; the new one never expires either."""
        key_id = find_caller(world.alice_key).key_id
        new, _ = rotate_key(engine, key_id)
        assert new.expires_at is None
        ends_at = require_key(engine, key_id).expires_at or 0
        assert abs(ends_at - clock.now() - 86_400) <= 2

    def test_the_grace_never_lengthens_a_keys_life(self, engine, old):
        """A key that expires within the grace period keeps its expiry."""
        rotate_key(engine, old.id, grace_seconds=86_400)
        assert require_key(engine, old.id).expires_at == old.expires_at

    def test_without_grace_the_old_key_ends_at_once(self, engine, world, find_caller):
        """With a grace period of 0 the old key, such as a leaked one, ends at once."""
        new = rotate_key(engine, find_caller(world.alice_key).key_id, grace_seconds=0)[1]
        assert find_caller(world.alice_key) is None
        assert find_caller(new.text) is not None

    def test_a_key_that_no_longer_works_cannot_be_rotated(self, engine, old):
        """Rotating must not give a revoked or expired key access again."""
        ApiKey.update(expires_at=clock.now()).where(ApiKey.id == old.id).execute(engine)
        with pytest.raises(OperatorError, match="no longer works"):
            rotate_key(engine, old.id)
        ApiKey.update(expires_at=None).where(ApiKey.id == old.id).execute(engine)
        revoke_key(engine, old.id)
        with pytest.raises(OperatorError, match="no longer works"):
            rotate_key(engine, old.id)
        assert len(list_keys(engine, "alice")) == 2

    def test_a_key_is_rotated_once(self, engine, old):
        """A second rotation is refused: its new key would end with the first one's grace period."""
        new, _ = rotate_key(engine, old.id)
        with pytest.raises(OperatorError, match=f"rotate {new.id}"):
            rotate_key(engine, old.id)
        assert rotate_key(engine, new.id)[0].expires_at == old.expires_at

    @pytest.mark.parametrize("grace_seconds", [-1, 366 * 86_400 + 1])
    def test_a_grace_out_of_range_is_refused(self, engine, old, grace_seconds):
        """A grace period below 0 or above a year is refused, and nothing is rotated."""
        with pytest.raises(OperatorError, match="--grace must be from 0 to"):
            rotate_key(engine, old.id, grace_seconds=grace_seconds)
        assert require_key(engine, old.id).expires_at == old.expires_at
