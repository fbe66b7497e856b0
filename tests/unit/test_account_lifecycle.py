"""Suspend and delete accounts, delete plans (D81)."""

import threading

import pytest
from playhouse.migrations import Runner

from app.accounts.administration import (
    create_account,
    create_key,
    delete_account,
    delete_plan,
    list_accounts,
    list_keys,
    list_plans,
    require_account,
    resume_account,
    set_account_plan,
    suspend_account,
)
from app.accounts.models import ACCOUNTS_MAX, Account
from app.domains.repository import Domains
from app.errors import OperatorError
from app.serve.limits.store import account_slot
from app.storage.engine import close_quietly, open_engine
from app.storage.sqlite import SqliteEngine
from app.storage.stores import migrate
from tests.conftest import ON_POSTGRES, STORAGE

pytestmark = STORAGE


class FormerRunner(Runner):  # type: ignore[misc]
    """Runs the migrations up to the previous version of the program."""

    def up(self, target=None, fake=False):
        names = [script.name for script in self.status()]
        return super().up(names[names.index("0006_account_status") - 1])


@pytest.fixture
def engine(world):
    """The database of an installation with the accounts alice and bob."""
    return world.engine


@pytest.fixture
def delete(engine):
    """Deletes an account, as the command does."""
    return lambda name: delete_account(engine, name, Domains(engine).count_domains)


class TestSuspension:
    def test_suspending_again_keeps_the_time(self, engine):
        """Suspending an account again keeps the time of the first suspension."""
        suspend_account(engine, "alice")
        Account.update(suspended_at=5).where(Account.name == "alice").execute(engine)
        assert suspend_account(engine, "alice").suspended_at == 5

    def test_an_active_account_can_be_resumed(self, engine):
        """Resuming an active account changes nothing."""
        assert resume_account(engine, "alice").suspended_at is None


class TestDeletion:
    def test_an_account_goes_with_its_keys(self, engine, delete):
        """An account is deleted with its keys; other keys stay, and the name is free."""
        create_key(engine, "alice", "second")
        assert delete("alice").name == "alice"
        assert [account.name for account in list_accounts(engine)] == ["bob"]
        assert [key.account.name for key in list_keys(engine)] == ["bob"]
        create_account(engine, "alice")
        assert list_keys(engine, "alice") == []

    def test_an_account_with_domains_stays(self, engine, delete):
        """The refusal says how many domains there are, and how to end access instead."""
        alice = require_account(engine, "alice").id
        for number in range(2):
            Domains(engine).create_domain(alice, f"d{number}.example", 9)
        with pytest.raises(OperatorError, match=r'has 2 domains, .* "verifyd accounts suspend'):
            delete("alice")
        assert len(list_keys(engine, "alice")) == 1
        assert Domains(engine).count_domains(alice) == 2

    def test_a_number_is_never_given_again(self, engine, delete):
        """A new account never gets the number of a deleted one, not even the highest (D11)."""
        numbers = [account.id for account in list_accounts(engine)]
        for _ in range(3):
            made = create_account(engine, "carol").id
            assert made not in numbers
            numbers.append(made)
            delete("carol")
        for name in ("alice", "bob"):
            delete(name)
        assert create_account(engine, "carol").id not in numbers

    def test_used_up_numbers_are_refused(self, engine, delete):
        """Numbers of deleted accounts count towards the limit of the state file (D11)."""
        last = {"id": ACCOUNTS_MAX, "tag": "zzzzzz", "name": "last", "created_at": 0}
        Account.insert(plan="free", **last).execute(engine)
        assert account_slot(ACCOUNTS_MAX)
        if not isinstance(engine, SqliteEngine):
            engine.execute_sql("SELECT setval('account_id_seq', %s)", (ACCOUNTS_MAX,))
        delete("last")
        with pytest.raises(OperatorError, match="numbers of deleted accounts are not used again"):
            create_account(engine, "carol")
        assert [account.name for account in list_accounts(engine)] == ["alice", "bob"]

    @ON_POSTGRES
    def test_a_domain_that_is_created_meanwhile_is_counted(self, engine, world):
        """A deletion waits for a creation in progress, and then refuses."""
        alice = require_account(engine, "alice").id
        other = open_engine(world.config.database_url)
        refusals = []

        def deletion() -> None:
            try:
                delete_account(other, "alice", Domains(other).count_domains)
            except OperatorError as error:
                refusals.append(str(error))
            finally:
                close_quietly(other)

        with engine.atomic():
            Domains(engine).create_domain(alice, "a.example", 9)
            thread = threading.Thread(target=deletion)
            thread.start()
            while not engine.execute_sql("SELECT 1 FROM pg_locks WHERE NOT granted").fetchone():
                assert thread.is_alive()
        thread.join()
        assert "has 1 domain, so" in refusals[0]
        assert Domains(engine).count_domains(alice) == 1


class TestPlans:
    def test_the_accounts_of_a_plan_are_named(self, engine):
        """The refusal names five accounts; an account that moved away does not count."""
        for number in range(7):
            create_account(engine, f"c{number}", "free")
        with pytest.raises(OperatorError, match=r"in use \(c0, c1, c2, c3, c4, \.\.\.\)"):
            delete_plan(engine, "free")
        for number in range(7):
            set_account_plan(engine, f"c{number}", "standard")
        delete_plan(engine, "free")
        assert [plan.name for plan in list_plans(engine)] == ["standard", "enterprise"]


def test_the_migration_keeps_accounts_keys_and_domains(tmp_path, monkeypatch):
    """Rebuilding the table on SQLite keeps numbers, and rows that refer to it."""
    monkeypatch.setattr("app.storage.versions.Runner", FormerRunner)
    engine = open_engine(f"sqlite:///{tmp_path / 'old.db'}", create=True)
    migrate(engine)
    engine.execute_sql("INSERT INTO account VALUES (7, 'abcdef', 'old', 'free', 5)")
    engine.execute_sql("INSERT INTO api_key VALUES ('k2345678', 7, 'h', '', 5, NULL, NULL, NULL)")
    engine.execute_sql("INSERT INTO domain VALUES ('d', 7, 'a.example', 'active', 5)")
    monkeypatch.undo()
    assert "0006_account_status" in migrate(engine)
    close_quietly(engine)
    engine = open_engine(f"sqlite:///{tmp_path / 'old.db'}")
    assert [key.account.name for key in list_keys(engine)] == ["old"]
    assert Domains(engine).count_domains(7) == 1
    assert engine.execute_sql("PRAGMA foreign_key_check").fetchall() == []
    with pytest.raises(OperatorError, match="has 1 domain"):
        delete_account(engine, "old", Domains(engine).count_domains)
    engine.execute_sql("DELETE FROM domain")
    delete_account(engine, "old", Domains(engine).count_domains)
    assert list_keys(engine) == []
    assert create_account(engine, "new").id == 8
    close_quietly(engine)
