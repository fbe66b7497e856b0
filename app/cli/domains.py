"""`verifyd domains`: list accounts' domains, suspend and activate them (D16)."""

import argparse
from typing import TypedDict

from app import clock
from app.accounts.administration import require_account
from app.cli.output import counted, print_item, print_items
from app.cli.parser import Commands, add_command, add_group
from app.domains.names import canonical_domain_name
from app.domains.repository import Domains, HeldDomain, set_domain_status
from app.errors import OperatorError
from app.storage.session import opened_database

_COLUMNS = ("name", "status", "id", "created_at")


class DomainItem(TypedDict):
    """A domain as commands print it."""

    id: str
    name: str
    status: str
    created_at: str


def add_commands(commands: Commands) -> None:
    """Add the command group."""
    domains = add_group(commands, "domains", "list, suspend and activate accounts' domains")
    listed = add_command(
        domains, "list", _list, "list an account's domains", examples=["domains list acme"]
    )
    listed.add_argument("account", metavar="ACCOUNT", help="name of the account")
    for name, status in (("suspend", "suspended"), ("activate", "active")):
        command = add_command(
            domains,
            name,
            _set_status,
            f"set a domain's status to {status}",
            examples=[f"domains {name} acme example.com"],
        )
        command.set_defaults(status=status)
        command.add_argument("account", metavar="ACCOUNT", help="name of the account")
        command.add_argument("name", metavar="NAME", help="name of the domain")


def _list(args: argparse.Namespace) -> None:
    with opened_database() as engine:
        account = require_account(engine, args.account)
        domains = Domains(engine).list_domains(account.id)
    print_items(args, list(map(_item, domains)), _COLUMNS, counted(len(domains), "domain"))


def _set_status(args: argparse.Namespace) -> None:
    name = canonical_domain_name(args.name)
    if name is None:
        raise OperatorError(f"{args.name} is not a domain name such as example.com")
    with opened_database() as engine:
        account = require_account(engine, args.account)
        domain = set_domain_status(engine, account.id, account.name, name, args.status)
    if domain is None:
        raise OperatorError(
            f"account {args.account} has no domain {name}; "
            f'see "verifyd domains list {args.account}"'
        )
    print_item(args, _item(domain), f"domain {domain.name} is {domain.status}")


def _item(domain: HeldDomain) -> DomainItem:
    return {
        "id": domain.id,
        "name": domain.name,
        "status": domain.status,
        "created_at": clock.iso_utc(domain.created_at),
    }
