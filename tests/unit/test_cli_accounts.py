"""`verifyd accounts`: create, change and delete accounts (D4)."""

import io
import re
import sys

import pytest

from app.accounts import administration
from app.accounts.administration import require_account
from app.domains.repository import Domains
from app.storage.engine import close_quietly, open_engine


def test_create_prints_the_account(cli):
    """The document has account, plan, public tag and time."""
    made = cli.json("accounts", "create", "acme", "--plan", "free")
    assert list(made) == ["name", "plan", "status", "tag", "created_at", "suspended_at"]
    assert (made["name"], made["plan"], made["status"]) == ("acme", "free", "active")
    assert re.fullmatch(r"[0-9A-Za-z]{6}", made["tag"])


def test_the_plan_is_standard_by_default(cli):
    """Without `--plan` an account is on `standard` (D12)."""
    assert cli.json("accounts", "create", "acme")["plan"] == "standard"


def test_a_name_is_taken_once(cli):
    """A second account of the same name is refused, and the first stays unchanged."""
    made = cli.json("accounts", "create", "acme", "--plan", "free")
    assert "already an account named acme" in cli.refusal("accounts", "create", "acme")
    assert cli.json("accounts", "list") == [made]


def test_an_unknown_plan_is_refused(cli):
    """The refusal lists the existing plans, and no account is created."""
    refusal = cli.refusal("accounts", "create", "acme", "--plan", "gold")
    assert refusal == "there is no plan named gold; the plans are free, standard, enterprise\n"
    assert cli.json("accounts", "list") == []


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        *((each, "it is empty") for each in ("", "  ")),
        ("x" * 101, "it has 101"),
        *((each, "character 2 is not printable") for each in ("a\nb", "a\x1b[31m")),
    ],
)
def test_a_name_that_cannot_be_shown_is_refused(cli, name, fault):
    """A name must have 1 to 100 printable characters; the refusal says what is wrong with it."""
    told = cli.refusal("accounts", "create", name)
    assert f"must have 1 to 100 printable characters; {fault}" in told


def test_accounts_are_listed_by_name(cli):
    """`list` prints a table, or an array with `--json`, both sorted by name."""
    for name in ("zebra", "acme"):
        cli.run("accounts", "create", name)
    assert [account["name"] for account in cli.json("accounts", "list")] == ["acme", "zebra"]
    header, *rows, _, count = cli.run("accounts", "list").stdout.splitlines()
    assert header.split() == ["name", "plan", "status", "tag", "created_at"]
    assert [row.split()[0] for row in rows] == ["acme", "zebra"]
    assert count == "2 accounts"


def test_an_account_moves_to_another_plan(cli):
    """`set-plan` prints the changed account."""
    cli.run("accounts", "create", "acme")
    assert cli.json("accounts", "set-plan", "acme", "enterprise")["plan"] == "enterprise"
    assert cli.json("accounts", "list")[0]["plan"] == "enterprise"


@pytest.mark.parametrize(("name", "plan"), [("nobody", "free"), ("acme", "gold")])
def test_set_plan_needs_an_account_and_a_plan(cli, name, plan):
    """The refusal names what is missing, and nothing changes."""
    cli.run("accounts", "create", "acme")
    assert "there is no" in cli.refusal("accounts", "set-plan", name, plan)
    assert cli.json("accounts", "list")[0]["plan"] == "standard"


def test_a_suspended_account_is_shown_as_such(cli):
    """`list`, `show` and `keys list` show the suspension until the account is resumed."""
    cli.run("accounts", "create", "acme")
    cli.run("keys", "create", "acme")
    assert cli.json("accounts", "suspend", "acme")["status"] == "suspended"
    shown = cli.json("accounts", "show", "acme")
    assert (shown["status"], shown["active_keys"], shown["domains"]) == ("suspended", 0, 0)
    assert shown["suspended_at"].endswith("Z")
    assert cli.json("accounts", "list")[0]["status"] == "suspended"
    assert cli.json("keys", "list")[0]["status"] == "suspended"
    resumed = cli.json("accounts", "resume", "acme")
    assert (resumed["status"], resumed["suspended_at"]) == ("active", None)
    assert cli.json("accounts", "show", "acme")["active_keys"] == 1
    assert cli.json("keys", "list")[0]["status"] == "active"


@pytest.mark.parametrize("command", ["show", "suspend", "resume", "delete"])
def test_an_unknown_account_is_refused(cli, command):
    """A mistyped name is reported, and nothing changes."""
    assert (
        cli.refusal("accounts", command, "nobody")
        == 'there is no account named nobody; see "verifyd accounts list"\n'
    )


def test_an_argument_that_is_not_utf8_is_named_as_the_fault(cli):
    """No name can have such bytes, and the refusal says so."""
    told = cli.refusal("accounts", "show", "caf\udce9")
    assert told == "an argument has bytes that are not UTF-8\n"


def test_an_argument_is_not_blamed_for_another_text(cli, monkeypatch):
    """What no argument has is a fault of the program, which the log tells."""
    monkeypatch.setattr(administration, "require_account", lambda *_: "\udce9".encode())
    assert "unexpected UnicodeEncodeError" in cli.run("accounts", "show", "cafe").stderr


def test_delete_needs_yes_without_a_terminal(cli, monkeypatch):
    """Without a terminal nobody can answer the question, so a script must pass `--yes`."""
    cli.run("accounts", "create", "acme")
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    assert "confirm with --yes" in cli.refusal("accounts", "delete", "acme")
    assert cli.json("accounts", "delete", "acme", "--yes")["status"] == "deleted"
    assert cli.json("accounts", "list") == []


class Terminal(io.StringIO):
    """A standard input that is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("answer", ["y\n", "YES\n"])
def test_delete_asks_on_a_terminal(cli, monkeypatch, answer):
    """The question names the account, and how many keys go with it."""
    cli.run("accounts", "create", "acme")
    cli.run("keys", "create", "acme")
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    ended = cli.run("accounts", "delete", "acme")
    assert (ended.status, "Delete account acme and its 1 key for good?" in ended.stderr) == (
        0,
        True,
    )
    assert cli.json("accounts", "list") == []


@pytest.mark.parametrize("answer", ["", "\n", "n\n", "acme\n"])
def test_any_answer_but_yes_keeps_the_account(cli, monkeypatch, answer):
    """Any answer but yes, or the end of the input, keeps the account."""
    cli.run("accounts", "create", "acme")
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    assert "nothing was changed" in cli.refusal("accounts", "delete", "acme")
    assert len(cli.json("accounts", "list")) == 1


def test_an_account_with_domains_is_refused_without_a_question(cli, store):
    """The question is not asked if the deletion is impossible anyway."""
    cli.run("accounts", "create", "acme")
    engine = open_engine(store.url)
    Domains(engine).create_domain(require_account(engine, "acme").id, "a.example", 9)
    close_quietly(engine)
    assert "has 1 domain, so it was not deleted" in cli.refusal("accounts", "delete", "acme")
    assert cli.json("accounts", "show", "acme")["domains"] == 1


def test_show_tells_everything_of_an_account(cli):
    """Its plan with the numbers, how many domains it uses, and its keys without their secrets."""
    cli.run("accounts", "create", "acme", "--plan", "free")
    first, second = (cli.json("keys", "create", "acme", "--label", name) for name in "ab")
    cli.run("keys", "revoke", first["id"])
    engine = open_engine(cli.database_url)
    Domains(engine).create_domain(require_account(engine, "acme").id, "example.com", 5)
    close_quietly(engine)
    told = cli.json("accounts", "show", "acme")
    plan = {"requests": 60, "window_seconds": 60, "bulk_max": 100, "domains_max": 100}
    assert plan.items() <= told.items()
    assert (told["plan"], told["domains"], told["active_keys"]) == ("free", 1, 1)
    assert {key["id"]: key["status"] for key in told["keys"]} == {
        first["id"]: "revoked",
        second["id"]: "active",
    }
    text = cli.run("accounts", "show", "acme").stdout
    assert text.endswith("account acme is active, with 1 active key and 1 of 100 domains\n")
    assert f"\n{second['id']}  b " in text
    assert second["key"][13:] not in text + str(told)
