"""`verifyd domains`: list, suspend and activate the domains of accounts."""

import pytest

from app.accounts.administration import require_account
from app.domains.repository import Domains
from app.storage.engine import close_quietly, open_engine


@pytest.fixture
def acme(cli):
    """The command line on a database with two accounts; one of them has a domain."""
    for name in ("acme", "other"):
        cli.run("accounts", "create", name)
    engine = open_engine(cli.database_url)
    account = require_account(engine, "acme")
    Domains(engine).create_domain(account.id, "example.com", 10)
    close_quietly(engine)
    return cli


def test_an_accounts_domains_are_listed(acme):
    """The array has this account's domains only, with the four promised members each."""
    (domain,) = acme.json("domains", "list", "acme")
    assert set(domain) == {"id", "name", "status", "created_at"}
    assert (domain["name"], domain["status"]) == ("example.com", "active")
    assert acme.json("domains", "list", "other") == []


def test_a_domain_is_suspended_and_set_back(acme):
    """Both commands print the domain; repeating them changes nothing."""
    for _ in range(2):
        assert acme.json("domains", "suspend", "acme", "example.com")["status"] == "suspended"
    assert acme.json("domains", "list", "acme")[0]["status"] == "suspended"
    assert acme.json("domains", "activate", "acme", "example.com")["status"] == "active"


def test_the_name_is_taken_in_any_spelling(acme):
    """Upper case and a trailing dot name the same domain."""
    assert acme.json("domains", "suspend", "acme", "EXAMPLE.com.")["name"] == "example.com"


@pytest.mark.parametrize(
    ("account", "name", "told"),
    [
        ("nobody", "example.com", 'there is no account named nobody; see "verifyd accounts list"'),
        (
            "other",
            "example.com",
            'account other has no domain example.com; see "verifyd domains list other"',
        ),
        (
            "acme",
            "example.org",
            'account acme has no domain example.org; see "verifyd domains list acme"',
        ),
        ("acme", "not a name", "not a name is not a domain name such as example.com"),
    ],
)
def test_missing_names_are_refused(acme, account, name, told):
    """The refusal names what is missing, and no other account's domain changes."""
    assert acme.refusal("domains", "suspend", account, name) == f"{told}\n"
    assert acme.json("domains", "list", "acme")[0]["status"] == "active"
