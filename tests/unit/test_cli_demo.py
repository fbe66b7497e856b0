"""`verifyd demo`: demo data to try, never among real data."""

import re

import pytest

from app.accounts.administration import require_account
from app.accounts.authentication import Authenticator
from app.cli import demo
from app.domains.repository import Domains
from app.errors import OperatorError
from app.registers.demo import SAMPLE_PLATES
from app.storage.engine import close_quietly, open_engine

KEYS = ("key", "limitedKey", "sandboxKey")


def works(cli, key: str) -> bool:
    """Tell whether the service would accept a key now."""
    engine = open_engine(cli.database_url)
    try:
        return Authenticator(engine).find_caller(key) is not None
    finally:
        close_quietly(engine)


def make_of(cli, plate: str) -> str:
    """Return the make that the service answers for a plate."""
    (found,) = cli.json("lookup", plate)["plates"]
    return str(found["insurance"]["vehicle"]["make"])


def test_demo_makes_everything_from_nothing(bare_cli):
    """The demo makes a database, an account with a key, domains, a register, and prints lines."""
    made = bare_cli.json("demo")
    members = ["account", "key", "rows", "curl", "limitedAccount", "limitedKey"]
    assert list(made) == [*members, "sandboxAccount", "sandboxKey"]
    for name in KEYS:
        assert works(bare_cli, made[name])
    assert [d["name"] for d in bare_cli.json("domains", "list", "demo")] == [
        "example.com",
        "fleet.example.org",
    ]
    registers = {line["register"] for line in bare_cli.json("imports", "list")}
    assert registers == {"demo", "demo_fleet", "demo_rentals"}
    assert all(made["key"] in line for line in made["curl"][:-2])
    assert made["limitedKey"] in made["curl"][-2]
    assert made["sandboxKey"] in made["curl"][-1]


def test_demo_prints_lines_for_people(bare_cli):
    """Without `--json` each key is printed once, and lines that use the variables."""
    text = bare_cli.run("demo").stdout
    assert re.findall(r"\n(.*=)(vfd_(?:test_)?)", text) == [
        ("export KEY=", "vfd_"),
        ("export LIMITED_KEY=", "vfd_"),
        ("export SANDBOX_KEY=", "vfd_test_"),
    ]
    line = "curl -sS -w '\\n' -H \"X-API-Key: $KEY\" http://"
    assert f"# insured: a policy is in force\n{line}" in text
    assert "\nDocumentation  http://127.0.0.1:8000/docs\n" in text


def test_the_lines_can_be_pasted_as_one_block(bare_cli):
    """Lines that need a file are comments; zsh runs comments, so they hold nothing special."""
    block = bare_cli.run("demo").stdout.partition("all at once:\n")[2].partition("\nDocumen")[0]
    commands = [line for line in block.splitlines() if line and not line.startswith("# ")]
    assert {line.split()[0] for line in commands} == {"export", "curl"}
    comments = [line for line in block.splitlines() if line.startswith("# ")]
    assert [line for line in comments if re.search(r"[;'\"()?*&|<>`$!\[\]~{}]", line)] == []
    assert re.search("(?m)^# .* import FILE$", block)


@pytest.mark.parametrize("rule", ["on", "off"])
@pytest.mark.parametrize("complete", ["", "demo"])
def test_it_says_how_it_is_known_who_has_no_policy(bare_cli, monkeypatch, rule, complete):
    """Only by the rule that tells what is not known, and if the setting is missing (D198)."""
    monkeypatch.setenv("VERIFYD_COMPLETE_REGISTERS", complete)
    bare_cli.run("migrate", "--unknown", rule)
    text = bare_cli.run("demo").stdout
    asks = rule == "on" and not complete
    assert ("With VERIFYD_COMPLETE_REGISTERS=demo answers say who has no policy:" in text) == asks
    assert ("# not insured: the policy has lapsed" in text) != asks
    assert ("# not known: no register knows an MOT" in text) == (rule == "on")


def test_the_limited_account_has_a_small_plan(bare_cli):
    """A run sets its plan to the few requests that are printed, whatever it was."""
    bare_cli.run("demo")
    limits = ("--requests", "9", "--window", "9", "--bulk-max", "9", "--domains-max", "9")
    bare_cli.run("plans", "set", "demo-limited", *limits)
    bare_cli.run("accounts", "set-plan", "demo-limited", "standard")
    bare_cli.run("demo")
    plans = {plan["name"]: plan for plan in bare_cli.json("plans", "list")}
    assert plans["demo-limited"].items() >= {"requests": 5}.items()
    shown = {each["name"]: each["plan"] for each in bare_cli.json("accounts", "list")}
    assert shown == {
        "demo": "standard",
        "demo-limited": "demo-limited",
        "demo-sandbox": "demo-sandbox",
    }


def test_the_sandbox_takes_reasons_and_suggests(bare_cli):
    """Programmers can try the headers of an enquiry, and plates that look alike."""
    bare_cli.run("demo")
    plans = {plan["name"]: plan for plan in bare_cli.json("plans", "list")}
    wanted = {"enquiry": "optional", "suggest": "on", "sandbox": "on"}
    assert {name: plans["demo-sandbox"][name] for name in wanted} == wanted


def test_a_second_run_ends_the_first_ones_key(bare_cli):
    """Keys are shown once, so a new run revokes the former key; it duplicates nothing."""
    first, second = (bare_cli.json("demo") for _ in range(2))
    for name in KEYS:
        assert (works(bare_cli, first[name]), works(bare_cli, second[name])) == (False, True)
    assert first["rows"] == second["rows"]
    assert len(bare_cli.json("domains", "list", "demo")) == 2


def test_only_a_later_run_says_that_its_key_is_new(bare_cli):
    """A later run says that the last keys are revoked, and that everything else is kept."""
    sentence = "What you loaded or created is kept. The keys below are new"
    first, second = (bare_cli.run("demo").stdout for _ in range(2))
    assert sentence not in first
    assert sentence in second


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


def test_the_demo_keeps_what_was_added_to_it(bare_cli):
    """Own registers, accounts and keys stay; so does the demo's account without its domains."""
    bare_cli.run("demo")
    bare_cli.run("import", bare_cli.file("own.csv", "registration,make", "OWN1,FORD"))
    bare_cli.run("accounts", "create", "acme")
    mine = bare_cli.json("keys", "create", "demo", "--label", "mine")["key"]
    bare_cli.json("demo")
    assert works(bare_cli, mine)
    assert make_of(bare_cli, "OWN1") == "FORD"
    assert [account["name"] for account in bare_cli.json("accounts", "list")] == [
        "acme",
        "demo",
        "demo-limited",
        "demo-sandbox",
    ]


def test_a_domain_that_was_deleted_comes_back(bare_cli):
    """The demo's domains are created again, however many others the account has meanwhile."""
    bare_cli.json("demo")
    engine = open_engine(bare_cli.database_url)
    account = require_account(engine, "demo")
    Domains(engine).delete_domain(account.id, "example.com")
    for name in ("a.example.net", "b.example.net"):
        Domains(engine).create_domain(account.id, name, 9)
    close_quietly(engine)
    bare_cli.json("demo")
    assert [domain["name"] for domain in bare_cli.json("domains", "list", "demo")] == [
        "a.example.net",
        "b.example.net",
        "example.com",
        "fleet.example.org",
    ]


def test_a_failed_load_leaves_the_demo_as_it_was(bare_cli, monkeypatch):
    """What the demo's register held stays if it cannot be loaded again, as on a full disk."""
    bare_cli.json("demo")
    make = make_of(bare_cli, SAMPLE_PLATES["compliant"])

    def full(*_: object) -> None:
        raise OperatorError("no space")

    monkeypatch.setattr(demo, "load", full)
    assert "no space" in bare_cli.refusal("demo")
    assert make_of(bare_cli, SAMPLE_PLATES["compliant"]) == make


@pytest.mark.parametrize(
    ("bind", "address"),
    [
        ("127.0.0.1:9000", " http://127.0.0.1:9000/api/domains"),
        ("0.0.0.0:9000", " http://127.0.0.1:9000/api/domains"),
        ("[::]:9000", " http://127.0.0.1:9000/api/domains"),
        ("unix:/run/v.sock", "--unix-socket /run/v.sock"),
    ],
)
def test_the_lines_go_where_the_service_listens(bare_cli, monkeypatch, bind, address):
    """The lines use the bind address, or loopback if the service listens everywhere."""
    monkeypatch.setenv("VERIFYD_BIND", bind)
    assert any(address in line for line in bare_cli.json("demo")["curl"])


class TestWhatTheConsoleShows:
    """A visitor sees a load to decide about and a stale register; no later run repeats them."""

    def warnings(self, cli) -> list[str]:
        """Return the registers that `check` warns of, with what it says of each."""
        told = " ".join(cli.json("check")["warnings"])
        return re.findall(r"demo_\w+, breaks rules|demo_\w+ was last loaded", told)

    def test_a_load_is_held_and_a_register_is_stale(self, bare_cli):
        """Whether they are decided or loaded again is up to the visitor."""
        for _ in range(2):
            bare_cli.run("demo")
            assert self.warnings(bare_cli) == [
                "demo_fleet, breaks rules",
                "demo_rentals was last loaded",
            ]
            assert [each["status"] for each in bare_cli.json("imports", "list")].count("held") == 1

    @pytest.mark.parametrize("decision", ["accept", "reject"])
    def test_the_held_load_can_be_decided(self, bare_cli, decision):
        """The decision ends the warning, also after another run."""
        bare_cli.run("demo")
        (held,) = [each for each in bare_cli.json("imports", "list") if each["status"] == "held"]
        assert bare_cli.run("imports", decision, held["id"]).status == 0
        bare_cli.run("demo")
        assert self.warnings(bare_cli) == ["demo_rentals was last loaded"]

    def test_a_demo_that_was_killed_is_completed(self, bare_cli, monkeypatch):
        """If it ends before its load is held, the next run makes up for it."""

        def killed(*_: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(demo, "note_hold", killed)
            bare_cli.run("demo")
        bare_cli.run("demo")
        assert "demo_fleet, breaks rules" in self.warnings(bare_cli)


def test_the_exports_are_the_settings(bare_cli, monkeypatch):
    """Commands in another terminal have the settings of the demo, but no secret."""
    monkeypatch.setenv("VERIFYD_CONSOLE", "on")
    monkeypatch.setenv("VERIFYD_AUDIT_DIR", "trail")
    monkeypatch.setenv("VERIFYD_NOTIFY", "mailto:ann@example.com")
    text = bare_cli.run("demo").stdout
    exports = dict(re.findall("(?m)^export VERIFYD_([A-Z_]+)=(.*)$", text))
    assert exports["CONSOLE"] == "on"
    assert exports["AUDIT_DIR"].startswith("/")
    assert "NOTIFY" not in exports
