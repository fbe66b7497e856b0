"""`verifyd demo`: demo data to try, never among real data (D42)."""

import pytest

from app.accounts.authentication import Authenticator
from app.storage.engine import close_quietly, open_engine


def works(cli, key: str) -> bool:
    """Tell whether the service would accept a key now."""
    engine = open_engine(cli.database_url)
    try:
        return Authenticator(engine).find_caller(key) is not None
    finally:
        close_quietly(engine)


def test_demo_makes_everything_from_nothing(bare_cli):
    """The demo makes a database, an account with a key, domains, a register, and prints lines."""
    made = bare_cli.json("demo")
    assert list(made) == ["account", "key", "rows", "curl"]
    assert works(bare_cli, made["key"])
    assert [d["name"] for d in bare_cli.json("domains", "list", "demo")] == [
        "example.com",
        "fleet.example.org",
    ]
    assert {line["register"] for line in bare_cli.json("imports", "list")} == {"demo"}
    assert all(made["key"] in line for line in made["curl"])


def test_demo_prints_lines_for_people(bare_cli):
    """Without `--json` it prints the key, and what each line shows."""
    text = bare_cli.run("demo").stdout
    assert "\nAPI key: vfd_" in text
    assert "# insured: a policy is in force\ncurl -s " in text


def test_a_second_run_ends_the_first_ones_key(bare_cli):
    """Keys are shown once, so a new run revokes the former key; it duplicates nothing."""
    first, second = (bare_cli.json("demo") for _ in range(2))
    assert (works(bare_cli, first["key"]), works(bare_cli, second["key"])) == (False, True)
    assert first["rows"] == second["rows"]
    assert len(bare_cli.json("domains", "list", "demo")) == 2


def test_demo_is_refused_where_there_are_accounts(cli):
    """The demo is refused if accounts exist: invented vehicles must never answer real customers."""
    cli.run("accounts", "create", "acme")
    assert "set VERIFYD_DATABASE_URL to another file" in cli.refusal("demo")
    assert cli.json("imports", "list") == []
    assert [account["name"] for account in cli.json("accounts", "list")] == ["acme"]


def test_demo_is_refused_where_a_register_was_loaded(cli):
    """The demo is refused if a register was loaded: that can precede the first account."""
    cli.run("import", cli.file("vehicles.csv", "registration,make", "AB12CDE,FORD"))
    assert "set VERIFYD_DATABASE_URL to another file" in cli.refusal("demo")
    assert cli.json("accounts", "list") == []


@pytest.mark.parametrize(
    ("bind", "address"),
    [
        ("127.0.0.1:9000", "'http://127.0.0.1:9000/api/domains'"),
        ("0.0.0.0:9000", "'http://127.0.0.1:9000/api/domains'"),
        ("[::]:9000", "'http://127.0.0.1:9000/api/domains'"),
        ("unix:/run/v.sock", "--unix-socket '/run/v.sock'"),
    ],
)
def test_the_lines_go_where_the_service_listens(bare_cli, monkeypatch, bind, address):
    """The lines use the bind address, or loopback if the service listens everywhere."""
    monkeypatch.setenv("VERIFYD_BIND", bind)
    assert any(address in line for line in bare_cli.json("demo")["curl"])
